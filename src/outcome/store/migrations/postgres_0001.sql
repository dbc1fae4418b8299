CREATE TABLE IF NOT EXISTS {prefix}operations (
    operation_id VARCHAR(32) NOT NULL,
    operation_type VARCHAR(128) NOT NULL,
    tenant VARCHAR(255),
    actor VARCHAR(255),
    mode VARCHAR(16) NOT NULL,
    state VARCHAR(16) NOT NULL,
    task_version BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    review_required BIGINT NOT NULL,
    retry_at BIGINT,
    rejection_category VARCHAR(64),
    rejection_code VARCHAR(64),
    accepted_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    completed_at BIGINT,
    PRIMARY KEY (operation_id)
);

CREATE TABLE IF NOT EXISTS {prefix}operation_inputs (
    operation_id VARCHAR(32) NOT NULL,
    schema_version BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    payload BYTEA NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id)
);

CREATE TABLE IF NOT EXISTS {prefix}outcomes (
    operation_id VARCHAR(32) NOT NULL,
    outcome_type VARCHAR(128) NOT NULL,
    schema_version BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    payload BYTEA NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id)
);

CREATE TABLE IF NOT EXISTS {prefix}dead_letters (
    operation_id VARCHAR(32) NOT NULL,
    schema_version BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    payload BYTEA NOT NULL,
    stored_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id)
);

CREATE TABLE IF NOT EXISTS {prefix}operation_journal (
    operation_id VARCHAR(32) NOT NULL,
    task_version BIGINT NOT NULL,
    status VARCHAR(16) NOT NULL,
    event_id VARCHAR(32) NOT NULL,
    occurred_at BIGINT NOT NULL,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (operation_id, task_version)
);

CREATE TABLE IF NOT EXISTS {prefix}operation_holds (
    hold_id VARCHAR(32) NOT NULL,
    operation_id VARCHAR(32) NOT NULL,
    category VARCHAR(16) NOT NULL,
    reason TEXT NOT NULL,
    placed_by VARCHAR(255) NOT NULL,
    placed_at BIGINT NOT NULL,
    released_by VARCHAR(255),
    released_at BIGINT,
    PRIMARY KEY (hold_id)
);

CREATE TABLE IF NOT EXISTS {prefix}retention_audit (
    sequence BIGINT NOT NULL,
    operation_id VARCHAR(32) NOT NULL,
    operation_type VARCHAR(128) NOT NULL,
    tenant VARCHAR(255),
    target VARCHAR(16) NOT NULL,
    rows_deleted BIGINT NOT NULL,
    policy_ref VARCHAR(255) NOT NULL,
    actor VARCHAR(255) NOT NULL,
    purged_at BIGINT NOT NULL,
    hash VARCHAR(64) NOT NULL,
    PRIMARY KEY (sequence)
);

CREATE TABLE IF NOT EXISTS {prefix}retention_head (
    id BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    hash VARCHAR(64) NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX IF NOT EXISTS {prefix}operations_completed ON {prefix}operations (completed_at, operation_id);

CREATE INDEX IF NOT EXISTS {prefix}operation_holds_operation ON {prefix}operation_holds (operation_id, released_at);

CREATE INDEX IF NOT EXISTS {prefix}retention_audit_operation ON {prefix}retention_audit (operation_id, target);

CREATE INDEX IF NOT EXISTS {prefix}outcomes_key ON {prefix}outcomes (key_id, operation_id);

CREATE INDEX IF NOT EXISTS {prefix}operation_inputs_key ON {prefix}operation_inputs (key_id, operation_id);

CREATE INDEX IF NOT EXISTS {prefix}dead_letters_key ON {prefix}dead_letters (key_id, operation_id);

INSERT INTO {prefix}retention_head (id, sequence, hash) VALUES (1, 0, '') ON CONFLICT DO NOTHING;
