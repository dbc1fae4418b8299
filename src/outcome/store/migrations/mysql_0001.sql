CREATE TABLE IF NOT EXISTS {prefix}operations (
    operation_id VARBINARY(32) NOT NULL,
    operation_type VARBINARY(128) NOT NULL,
    tenant VARBINARY(255),
    actor VARBINARY(255),
    mode VARBINARY(16) NOT NULL,
    state VARBINARY(16) NOT NULL,
    task_version BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    review_required BIGINT NOT NULL,
    retry_at BIGINT,
    rejection_category VARBINARY(64),
    rejection_code VARBINARY(64),
    accepted_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    completed_at BIGINT,
    PRIMARY KEY (operation_id),
    KEY {prefix}operations_completed (completed_at, operation_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {prefix}operation_inputs (
    operation_id VARBINARY(32) NOT NULL,
    schema_version BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    payload LONGBLOB NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id),
    KEY {prefix}operation_inputs_key (key_id, operation_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {prefix}outcomes (
    operation_id VARBINARY(32) NOT NULL,
    outcome_type VARBINARY(128) NOT NULL,
    schema_version BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    payload LONGBLOB NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id),
    KEY {prefix}outcomes_key (key_id, operation_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {prefix}dead_letters (
    operation_id VARBINARY(32) NOT NULL,
    schema_version BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    payload LONGBLOB NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id),
    KEY {prefix}dead_letters_key (key_id, operation_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {prefix}operation_journal (
    operation_id VARBINARY(32) NOT NULL,
    task_version BIGINT NOT NULL,
    status VARBINARY(16) NOT NULL,
    event_id VARBINARY(32) NOT NULL,
    occurred_at BIGINT NOT NULL,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id, task_version)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {prefix}operation_holds (
    hold_id VARBINARY(32) NOT NULL,
    operation_id VARBINARY(32) NOT NULL,
    category VARBINARY(16) NOT NULL,
    reason TEXT CHARACTER SET utf8mb4 NOT NULL,
    placed_by VARBINARY(255) NOT NULL,
    placed_at BIGINT NOT NULL,
    released_by VARBINARY(255),
    released_at BIGINT,
    PRIMARY KEY (hold_id),
    KEY {prefix}operation_holds_operation (operation_id, released_at)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {prefix}retention_audit (
    sequence BIGINT NOT NULL,
    operation_id VARBINARY(32) NOT NULL,
    operation_type VARBINARY(128) NOT NULL,
    tenant VARBINARY(255),
    target VARBINARY(16) NOT NULL,
    rows_deleted BIGINT NOT NULL,
    policy_ref VARBINARY(255) NOT NULL,
    actor VARBINARY(255) NOT NULL,
    purged_at BIGINT NOT NULL,
    hash VARBINARY(64) NOT NULL,
    PRIMARY KEY (sequence),
    KEY {prefix}retention_audit_operation (operation_id, target)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS {prefix}retention_head (
    id BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    hash VARBINARY(64) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;

INSERT IGNORE INTO {prefix}retention_head (id, sequence, hash) VALUES (1, 0, '');
