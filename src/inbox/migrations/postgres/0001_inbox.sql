CREATE TABLE IF NOT EXISTS {prefix}inbox (
    consumer_name TEXT COLLATE "C" NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    event_type TEXT COLLATE "C" NOT NULL,
    task_id TEXT COLLATE "C" NOT NULL,
    task_version BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    settled_at BIGINT,
    CONSTRAINT {prefix}inbox_key PRIMARY KEY (consumer_name, event_id)
);
CREATE INDEX IF NOT EXISTS {prefix}inbox_settled ON {prefix}inbox (consumer_name, settled_at)
    WHERE settled_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS {prefix}inbox_pruner (
    consumer_name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    held_until BIGINT NOT NULL
);
