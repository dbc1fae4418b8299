CREATE TABLE IF NOT EXISTS {prefix}outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id TEXT COLLATE "C" NOT NULL,
    topic TEXT COLLATE "C" NOT NULL,
    order_key TEXT COLLATE "C",
    content_type TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    state SMALLINT NOT NULL,
    attempts INTEGER NOT NULL,
    due_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    claim TEXT COLLATE "C",
    failure TEXT COLLATE "C",
    CONSTRAINT {prefix}outbox_message UNIQUE (message_id)
);
CREATE INDEX IF NOT EXISTS {prefix}outbox_due ON {prefix}outbox (state, due_at, id);
CREATE INDEX IF NOT EXISTS {prefix}outbox_order ON {prefix}outbox (order_key, id) WHERE order_key IS NOT NULL;
