CREATE TABLE IF NOT EXISTS {prefix}inbox (
    consumer_name TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_version INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    settled_at INTEGER,
    PRIMARY KEY (consumer_name, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {prefix}inbox_settled ON {prefix}inbox (consumer_name, settled_at)
    WHERE settled_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS {prefix}inbox_pruner (
    consumer_name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
