CREATE TABLE IF NOT EXISTS {prefix}inbox (
    consumer_name VARCHAR(128) NOT NULL,
    event_id CHAR(32) NOT NULL,
    event_type VARCHAR(32) NOT NULL,
    task_id CHAR(32) NOT NULL,
    task_version BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    settled_at BIGINT,
    PRIMARY KEY (consumer_name, event_id),
    INDEX {prefix}inbox_settled (consumer_name, settled_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
CREATE TABLE IF NOT EXISTS {prefix}inbox_pruner (
    consumer_name VARCHAR(128) NOT NULL PRIMARY KEY,
    holder CHAR(32) NOT NULL,
    held_until BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
