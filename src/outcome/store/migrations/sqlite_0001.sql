CREATE TABLE IF NOT EXISTS {prefix}operations (
    operation_id TEXT NOT NULL,
    operation_type TEXT NOT NULL,
    tenant TEXT,
    actor TEXT,
    mode TEXT NOT NULL,
    state TEXT NOT NULL,
    task_version INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    review_required INTEGER NOT NULL,
    retry_at INTEGER,
    rejection_category TEXT,
    rejection_code TEXT,
    accepted_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    completed_at INTEGER,
    PRIMARY KEY (operation_id)
) STRICT;

CREATE TABLE IF NOT EXISTS {prefix}operation_inputs (
    operation_id TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    payload BLOB NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (operation_id)
) STRICT;

CREATE TABLE IF NOT EXISTS {prefix}outcomes (
    operation_id TEXT NOT NULL,
    outcome_type TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    payload BLOB NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (operation_id)
) STRICT;

CREATE TABLE IF NOT EXISTS {prefix}dead_letters (
    operation_id TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    payload BLOB NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (operation_id)
) STRICT;

CREATE TABLE IF NOT EXISTS {prefix}operation_journal (
    operation_id TEXT NOT NULL,
    task_version INTEGER NOT NULL,
    status TEXT NOT NULL,
    event_id TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (operation_id, task_version)
) STRICT;

CREATE TABLE IF NOT EXISTS {prefix}operation_holds (
    hold_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    category TEXT NOT NULL,
    reason TEXT NOT NULL,
    placed_by TEXT NOT NULL,
    placed_at INTEGER NOT NULL,
    released_by TEXT,
    released_at INTEGER,
    PRIMARY KEY (hold_id)
) STRICT;

CREATE TABLE IF NOT EXISTS {prefix}retention_audit (
    sequence INTEGER NOT NULL,
    operation_id TEXT NOT NULL,
    operation_type TEXT NOT NULL,
    tenant TEXT,
    target TEXT NOT NULL,
    rows_deleted INTEGER NOT NULL,
    policy_ref TEXT NOT NULL,
    actor TEXT NOT NULL,
    purged_at INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (sequence)
) STRICT;

CREATE TABLE IF NOT EXISTS {prefix}retention_head (
    id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (id)
) STRICT;

CREATE INDEX IF NOT EXISTS {prefix}operations_completed ON {prefix}operations (completed_at, operation_id);

CREATE INDEX IF NOT EXISTS {prefix}operation_holds_operation ON {prefix}operation_holds (operation_id, released_at);

CREATE INDEX IF NOT EXISTS {prefix}retention_audit_operation ON {prefix}retention_audit (operation_id, target);

CREATE INDEX IF NOT EXISTS {prefix}outcomes_key ON {prefix}outcomes (key_id, operation_id);

CREATE INDEX IF NOT EXISTS {prefix}operation_inputs_key ON {prefix}operation_inputs (key_id, operation_id);

CREATE INDEX IF NOT EXISTS {prefix}dead_letters_key ON {prefix}dead_letters (key_id, operation_id);

INSERT INTO {prefix}retention_head (id, sequence, hash) VALUES (1, 0, '') ON CONFLICT DO NOTHING;
