//! The port: what the outbox asks of an engine.
//!
//! A row is *ready* (it may be sent once it is due), *behind* (another one of its order key goes first) or *dead*. Of
//! each order key at most one row is ready, and whoever takes it away promotes the next. Writing, finishing and burying
//! a keyed row hold the key's *lane*, a lock until the commit, so that the order of ids is the order of commits and no
//! row is left behind.

use std::future::Future;
use std::sync::Arc;

use crate::sql::migrate::Migrate;
use crate::sql::prefix::{Statement, TablePrefix};

/// Rows that one claim takes at most: the ids that one statement names.
pub(super) const CLAIM_MAX: usize = 32;

/// An engine that keeps an outbox: `sqlx::Sqlite`, `sqlx::Postgres` or `sqlx::MySql`.
pub trait OutboxStore: Migrate {
    /// What differs from engine to engine in the statements.
    #[doc(hidden)]
    const DIALECT: Dialect;

    /// Takes the lane's lock until the transaction ends.
    #[doc(hidden)]
    fn lock_lane(
        on: &mut Self::Connection,
        sql: &Statements,
        lane: Lane,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Inserts a message, ready or behind. Holds the key's lane.
    #[doc(hidden)]
    fn insert(
        on: &mut Self::Connection,
        sql: &Statements,
        message: NewRow<'_>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Claims due rows that nobody else is claiming: they are due again when the claim lapses.
    #[doc(hidden)]
    fn claim(
        on: &mut Self::Connection,
        sql: &Statements,
        claim: &str,
        ttl_us: i64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<ClaimedRow>, sqlx::Error>> + Send;

    /// Runs one of the statements that take `(row id, claim)` last. True where the claim still held.
    #[doc(hidden)]
    fn end(
        on: &mut Self::Connection,
        statement: &Statement,
        end: End<'_>,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Makes the next row of an order key ready. Holds the key's lane.
    #[doc(hidden)]
    fn promote(
        on: &mut Self::Connection,
        sql: &Statements,
        order_key: &str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Makes ready what no other row goes before: what a writer at a higher isolation left behind.
    #[doc(hidden)]
    fn mend(on: &mut Self::Connection, sql: &Statements) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// How long the row that is due the longest has been due, in microseconds.
    #[doc(hidden)]
    fn lag(
        on: &mut Self::Connection,
        sql: &Statements,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send;

    /// Dead rows behind `after`, in the order of their ids.
    #[doc(hidden)]
    fn dead(
        on: &mut Self::Connection,
        sql: &Statements,
        after: i64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<DeadRow>, sqlx::Error>> + Send;

    /// The order key of a dead row; none where there is no such dead row.
    #[doc(hidden)]
    fn dead_key(
        on: &mut Self::Connection,
        sql: &Statements,
        row: i64,
    ) -> impl Future<Output = Result<Option<Option<String>>, sqlx::Error>> + Send;

    /// Runs one of the statements on a dead row that take its id and nothing else.
    #[doc(hidden)]
    fn on_dead(
        on: &mut Self::Connection,
        statement: &Statement,
        row: i64,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
}

/// An order key's lock.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Lane {
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(dead_code, reason = "SQLite has one writer"))]
    pub(super) number: i64,
}

impl Lane {
    /// FNV-1a over the table's prefix and the key. Two keys may share a lane, which costs a wait and nothing else.
    pub(super) fn of(prefix: &TablePrefix, order_key: &str) -> Self {
        let bytes = prefix.as_str().bytes().chain([0]).chain(order_key.bytes());
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { number: hash.cast_signed() }
    }
}

/// What is inserted.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct NewRow<'a> {
    pub(super) message_id: &'a str,
    pub(super) topic: &'a str,
    pub(super) order_key: Option<&'a str>,
    pub(super) content_type: &'a str,
    pub(super) body: &'a [u8],
}

/// How an attempt ends.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum End<'a> {
    /// Sent: the row goes.
    Sent { row: i64, claim: &'a str },
    /// To be tried again.
    Again { row: i64, claim: &'a str, delay_us: i64, failure: &'a str },
    /// Given up.
    Dead { row: i64, claim: &'a str, failure: &'a str },
}

/// id, message id, topic, order key, content type, body, attempts, created (microseconds).
pub(super) type ClaimedRow = (i64, String, String, Option<String>, String, Vec<u8>, i32, i64);
/// id, message id, topic, order key, attempts, created (microseconds), failure.
pub(super) type DeadRow = (i64, String, String, Option<String>, i32, i64, Option<String>);

/// What differs from engine to engine in the statements.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The database's time in microseconds since 1970.
    pub(super) now: &'static str,
    pub(super) lock_lane: &'static str,
    pub(super) claim: &'static str,
    pub(super) claimed: &'static str,
    pub(super) promote: &'static str,
    pub(super) mend: &'static str,
    /// How the engine writes its nth parameter.
    pub(super) placeholder: fn(usize) -> String,
}

const INSERT: &str = "INSERT INTO {prefix}outbox
        (message_id, topic, order_key, content_type, body, state, attempts, due_at, created_at)
    SELECT ?, ?, ?, ?, ?,
        CASE WHEN EXISTS (SELECT 1 FROM {prefix}outbox WHERE order_key = ? AND state IN (0, 1)) THEN 0 ELSE 1 END,
        0, {now}, {now}";
const SENT: &str = "DELETE FROM {prefix}outbox WHERE id = ? AND claim = ?";
const AGAIN: &str = "UPDATE {prefix}outbox SET due_at = {now} + ?, claim = NULL, failure = ?
    WHERE id = ? AND claim = ?";
/// Again, and the attempt does not count.
const GIVEN_BACK: &str =
    "UPDATE {prefix}outbox SET due_at = {now} + ?, claim = NULL, failure = ?, attempts = attempts - 1
    WHERE id = ? AND claim = ?";
const DEAD: &str = "UPDATE {prefix}outbox SET state = 2, claim = NULL, failure = ? WHERE id = ? AND claim = ?";
const LAG: &str = "SELECT {now} - due_at FROM {prefix}outbox WHERE state = 1 AND due_at <= {now}
    ORDER BY due_at, id LIMIT 1";
const LIST_DEAD: &str = "SELECT id, message_id, topic, order_key, attempts, created_at, failure FROM {prefix}outbox
    WHERE state = 2 AND id > ? ORDER BY id LIMIT ?";
const DEAD_KEY: &str = "SELECT order_key FROM {prefix}outbox WHERE id = ? AND state = 2";
const REQUEUE: &str = "UPDATE {prefix}outbox SET state = 0, attempts = 0, due_at = {now}, failure = NULL
    WHERE id = ? AND state = 2";
const REQUEUE_UNKEYED: &str = "UPDATE {prefix}outbox SET state = 1, attempts = 0, due_at = {now}, failure = NULL
    WHERE id = ? AND state = 2";
const DISCARD: &str = "DELETE FROM {prefix}outbox WHERE id = ? AND state = 2";

/// One engine's statements with the prefix in place. Cloning shares them.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Statements(pub(super) Arc<StatementSet>);

#[derive(Debug)]
pub(super) struct StatementSet {
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(dead_code, reason = "SQLite has one writer"))]
    pub(super) lock_lane: Statement,
    pub(super) insert: Statement,
    pub(super) claim: Statement,
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "the others claim in one statement"))]
    pub(super) claimed: Statement,
    pub(super) sent: Statement,
    pub(super) again: Statement,
    pub(super) given_back: Statement,
    pub(super) dead: Statement,
    pub(super) promote: Statement,
    pub(super) mend: Statement,
    pub(super) lag: Statement,
    pub(super) list_dead: Statement,
    pub(super) dead_key: Statement,
    pub(super) requeue: Statement,
    pub(super) requeue_unkeyed: Statement,
    pub(super) discard: Statement,
}

impl Statements {
    pub(super) fn new<DB: OutboxStore>(prefix: &TablePrefix) -> Self {
        let dialect = DB::DIALECT;
        let render = |template: &'static str| {
            let ids = vec!["?"; CLAIM_MAX].join(", ");
            let text = template.replace("{now}", dialect.now).replace("{ids}", &ids);
            prefix.render_owned(&numbered(&text, dialect.placeholder))
        };
        Self(Arc::new(StatementSet {
            lock_lane: render(dialect.lock_lane),
            insert: render(INSERT),
            claim: render(dialect.claim),
            claimed: render(dialect.claimed),
            sent: render(SENT),
            again: render(AGAIN),
            given_back: render(GIVEN_BACK),
            dead: render(DEAD),
            promote: render(dialect.promote),
            mend: render(dialect.mend),
            lag: render(LAG),
            list_dead: render(LIST_DEAD),
            dead_key: render(DEAD_KEY),
            requeue: render(REQUEUE),
            requeue_unkeyed: render(REQUEUE_UNKEYED),
            discard: render(DISCARD),
        }))
    }
}

/// Each `?` in the engine's own way of writing a parameter. None of the statements has one in a literal.
fn numbered(text: &str, placeholder: fn(usize) -> String) -> String {
    let mut parts = text.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.zip(1..).fold(first, |text, (part, n)| text + &placeholder(n) + part)
}

/// The part of an adapter that differs in the driver's types alone.
macro_rules! shared_statements {
    () => {
        async fn insert(on: &mut Self::Connection, sql: &Statements, message: NewRow<'_>) -> Result<(), sqlx::Error> {
            sqlx::query(sql.0.insert.sql())
                .bind(message.message_id)
                .bind(message.topic)
                .bind(message.order_key)
                .bind(message.content_type)
                .bind(message.body)
                .bind(message.order_key)
                .execute(on)
                .await
                .map(drop)
        }

        async fn end(on: &mut Self::Connection, statement: &Statement, end: End<'_>) -> Result<bool, sqlx::Error> {
            let query = sqlx::query(statement.sql());
            let query = match end {
                End::Sent { row, claim } => query.bind(row).bind(claim),
                End::Again { row, claim, delay_us, failure } => {
                    query.bind(delay_us).bind(failure).bind(row).bind(claim)
                }
                End::Dead { row, claim, failure } => query.bind(failure).bind(row).bind(claim),
            };
            Ok(query.execute(on).await?.rows_affected() == 1)
        }

        async fn promote(on: &mut Self::Connection, sql: &Statements, order_key: &str) -> Result<(), sqlx::Error> {
            sqlx::query(sql.0.promote.sql()).bind(order_key).bind(order_key).execute(on).await.map(drop)
        }

        async fn mend(on: &mut Self::Connection, sql: &Statements) -> Result<u64, sqlx::Error> {
            Ok(sqlx::query(sql.0.mend.sql()).execute(on).await?.rows_affected())
        }

        async fn lag(on: &mut Self::Connection, sql: &Statements) -> Result<Option<i64>, sqlx::Error> {
            sqlx::query_scalar(sql.0.lag.sql()).fetch_optional(on).await
        }

        async fn dead(
            on: &mut Self::Connection,
            sql: &Statements,
            after: i64,
            limit: u32,
        ) -> Result<Vec<DeadRow>, sqlx::Error> {
            sqlx::query_as(sql.0.list_dead.sql()).bind(after).bind(i64::from(limit)).fetch_all(on).await
        }

        async fn dead_key(
            on: &mut Self::Connection,
            sql: &Statements,
            row: i64,
        ) -> Result<Option<Option<String>>, sqlx::Error> {
            sqlx::query_scalar(sql.0.dead_key.sql()).bind(row).fetch_optional(on).await
        }

        async fn on_dead(on: &mut Self::Connection, statement: &Statement, row: i64) -> Result<bool, sqlx::Error> {
            Ok(sqlx::query(statement.sql()).bind(row).execute(on).await?.rows_affected() == 1)
        }
    };
}
pub(super) use shared_statements;
