-- "PLSV": tells this file from the databases of other programs.
PRAGMA application_id = 1347179350;

-- Texts of lists (queues, operations) are names with a line feed between them; moments are microseconds since 1970.
CREATE TABLE credential (
    credential_id BLOB NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    queues TEXT NOT NULL,
    scopes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX credential_name ON credential (name) WHERE revoked_at IS NULL;

CREATE TABLE credential_secret (
    sha256 BLOB NOT NULL PRIMARY KEY,
    credential_id BLOB NOT NULL,
    ends_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX credential_secret_of ON credential_secret (credential_id);

-- `events` counts the queue's events for good, `forgotten_*` says what retention took: lag without counting rows.
CREATE TABLE queue (
    queue_id INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    head INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0,
    forgotten_head INTEGER NOT NULL DEFAULT 0,
    forgotten_events INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The log. `ordinal` is the event's place in its queue. The body comes last: filters never read it.
CREATE TABLE event (
    sequence INTEGER NOT NULL PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    status INTEGER NOT NULL,
    task_version INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    event_id BLOB NOT NULL,
    task_id BLOB NOT NULL,
    operation TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_in_queue ON event (queue_id, sequence);

-- `body` here and below is the event's, once retention has taken the event itself.
CREATE TABLE task (
    task_id BLOB NOT NULL PRIMARY KEY,
    queue_id INTEGER NOT NULL,
    status INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    body TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    credential_id BLOB NOT NULL,
    task_id BLOB NOT NULL,
    key TEXT NOT NULL,
    body_sha256 BLOB NOT NULL,
    kept_since INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    event_id BLOB NOT NULL,
    task_version INTEGER NOT NULL,
    body TEXT,
    PRIMARY KEY (credential_id, task_id, key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX idempotency_event ON idempotency (sequence);

-- AUTOINCREMENT: a deleted subscription's number is never used again, since its confirmed deliveries stay for a while.
CREATE TABLE subscription (
    subscription_no INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    subscription_id BLOB NOT NULL UNIQUE,
    credential_id BLOB NOT NULL,
    name TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    statuses INTEGER NOT NULL,
    operations TEXT NOT NULL,
    room INTEGER NOT NULL,
    budget INTEGER NOT NULL,
    backoff_min INTEGER NOT NULL,
    backoff_max INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    cursor INTEGER NOT NULL,
    open INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    acknowledged INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX subscription_owner ON subscription (credential_id, subscription_id);

-- `origin` is what retention had taken of the queue when the subscription started there: no gap of its.
CREATE TABLE subscription_queue (
    subscription_no INTEGER NOT NULL,
    queue_id INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    PRIMARY KEY (subscription_no, queue_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscription_of_queue ON subscription_queue (queue_id);

-- state: 0 ready, 1 leased, 2 EXPIRED, 3 confirmed. due_at: the end of backoff, the lease's end, the lapse, the
-- confirmation. SQLite uses a partial index only where its condition is repeated in so many words.
CREATE TABLE delivery (
    delivery_id BLOB NOT NULL PRIMARY KEY,
    subscription_no INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    state INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    budget INTEGER NOT NULL,
    event_id BLOB NOT NULL,
    session_id BLOB,
    secret_sha256 BLOB,
    body TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_open ON delivery (subscription_no, state, due_at) WHERE state < 3;
CREATE UNIQUE INDEX delivery_event ON delivery (sequence, subscription_no) WHERE state < 3;
CREATE INDEX delivery_lapse ON delivery (due_at) WHERE state = 1;
CREATE INDEX delivery_confirmed ON delivery (due_at) WHERE state = 3;
