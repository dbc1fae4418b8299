-- The one clock that judges leases, backoff, replays and expiry: this server's, in microseconds since 1970.
CREATE FUNCTION clock_us() RETURNS BIGINT LANGUAGE sql VOLATILE
    AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';

-- Moments are microseconds since 1970.
CREATE TABLE credential (
    credential_id BYTEA NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    queues TEXT[] NOT NULL,
    scopes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE UNIQUE INDEX credential_name ON credential (name) WHERE revoked_at IS NULL;

CREATE TABLE credential_secret (
    sha256 BYTEA NOT NULL PRIMARY KEY,
    credential_id BYTEA NOT NULL,
    ends_at BIGINT
);
CREATE INDEX credential_secret_of ON credential_secret (credential_id);

-- The log's end. Whoever appends locks this row first, so that sequences are committed in their order: no reader
-- passes over an event that is yet to appear.
CREATE TABLE log (
    one BOOLEAN NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    head BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO log DEFAULT VALUES;

-- `events` counts the queue's events for good, `forgotten_*` says what retention took: lag without counting rows.
CREATE TABLE queue (
    queue_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    head BIGINT NOT NULL DEFAULT 0,
    events BIGINT NOT NULL DEFAULT 0,
    forgotten_head BIGINT NOT NULL DEFAULT 0,
    forgotten_events BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- `ordinal` is the event's place in its queue. Bodies are bytes: a text's encoding would be the database's.
CREATE TABLE event (
    sequence BIGINT NOT NULL PRIMARY KEY,
    queue_id BIGINT NOT NULL,
    ordinal BIGINT NOT NULL,
    status INTEGER NOT NULL,
    task_version BIGINT NOT NULL,
    written_at BIGINT NOT NULL,
    event_id BYTEA NOT NULL,
    task_id BYTEA NOT NULL,
    operation TEXT NOT NULL,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX event_in_queue ON event (queue_id, sequence);

-- `body` here and below is the event's, once retention has taken the event itself.
CREATE TABLE task (
    task_id BYTEA NOT NULL PRIMARY KEY,
    queue_id BIGINT NOT NULL,
    status INTEGER NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    body BYTEA
);

CREATE TABLE idempotency (
    credential_id BYTEA NOT NULL,
    task_id BYTEA NOT NULL,
    key TEXT NOT NULL,
    body_sha256 BYTEA NOT NULL,
    kept_since BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    event_id BYTEA NOT NULL,
    task_version BIGINT NOT NULL,
    body BYTEA,
    PRIMARY KEY (credential_id, task_id, key)
);
CREATE UNIQUE INDEX idempotency_event ON idempotency (sequence);

-- Whoever changes a subscription or its open deliveries locks its row first. The name is bytes: it may hold U+0000,
-- which a text can't.
CREATE TABLE subscription (
    subscription_no BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription_id BYTEA NOT NULL UNIQUE,
    credential_id BYTEA NOT NULL,
    name BYTEA NOT NULL,
    enabled BOOLEAN NOT NULL,
    statuses BIGINT NOT NULL,
    operations TEXT[] NOT NULL,
    room BIGINT NOT NULL,
    budget BIGINT NOT NULL,
    backoff_min BIGINT NOT NULL,
    backoff_max BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    cursor BIGINT NOT NULL,
    open BIGINT NOT NULL DEFAULT 0,
    expired BIGINT NOT NULL DEFAULT 0,
    acknowledged BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX subscription_owner ON subscription (credential_id, subscription_id);

-- `origin` is what retention had taken of the queue when the subscription started there: no gap of its.
CREATE TABLE subscription_queue (
    subscription_no BIGINT NOT NULL,
    queue_id BIGINT NOT NULL,
    origin BIGINT NOT NULL,
    PRIMARY KEY (subscription_no, queue_id)
);
CREATE INDEX subscription_of_queue ON subscription_queue (queue_id);

-- state: 0 ready, 1 leased, 2 EXPIRED, 3 confirmed. due_at: the end of backoff, the lease's end, the lapse, the
-- confirmation.
CREATE TABLE delivery (
    delivery_id BYTEA NOT NULL PRIMARY KEY,
    subscription_no BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    state INTEGER NOT NULL,
    due_at BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    budget BIGINT NOT NULL,
    event_id BYTEA NOT NULL,
    session_id BYTEA,
    secret_sha256 BYTEA,
    body BYTEA
);
CREATE INDEX delivery_open ON delivery (subscription_no, state, due_at) WHERE state < 3;
CREATE UNIQUE INDEX delivery_event ON delivery (sequence, subscription_no) WHERE state < 3;
CREATE INDEX delivery_lapse ON delivery (due_at) WHERE state = 1;
CREATE INDEX delivery_confirmed ON delivery (due_at) WHERE state = 3;
