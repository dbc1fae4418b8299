CREATE TABLE IF NOT EXISTS {prefix}outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    order_key TEXT,
    content_type TEXT NOT NULL,
    body BLOB NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    claim TEXT,
    failure TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS {prefix}outbox_due ON {prefix}outbox (state, due_at, id);
CREATE INDEX IF NOT EXISTS {prefix}outbox_order ON {prefix}outbox (order_key, id) WHERE order_key IS NOT NULL;
