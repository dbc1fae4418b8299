//! The port: what the inbox asks of an engine. Three adapters, one conformance suite (`tests/stores`).

use std::future::Future;

use sqlx::{Pool, Transaction};

use super::fingerprint::{Key, Stored};
use crate::sql::migrate::Migrate;
use crate::sql::prefix::{Statement, TablePrefix};

/// How many ids one statement names. Shorter lists repeat their last id, so that there is one prepared statement.
pub(super) const IDS_PER_STATEMENT: usize = 32;

/// An engine that keeps an inbox: `sqlx::Sqlite`, `sqlx::Postgres` or `sqlx::MySql`.
pub trait Store: Migrate {
    /// How an inbox transaction begins: as every write transaction does, with what [`Store::finish`] looks for.
    #[doc(hidden)]
    const BEGIN: &'static str;

    /// The engine's statements, `{prefix}` and `{ids}` not yet replaced.
    #[doc(hidden)]
    const TEXT: Text;

    /// Inserts the event's row, waiting for a concurrent twin to end.
    #[doc(hidden)]
    fn insert(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        key: &Key,
    ) -> impl Future<Output = Result<Inserted, sqlx::Error>> + Send;

    /// The fingerprint of the event's row as it is now, not as a snapshot has it.
    #[doc(hidden)]
    fn find(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        event_id: &str,
    ) -> impl Future<Output = Result<Option<Stored>, sqlx::Error>> + Send;

    /// Commits, or fails where the transaction is not what it was when it began: a caller who swallows an error may
    /// hand back a transaction that the engine has already given up (PostgreSQL answers its COMMIT with a silent
    /// rollback, MySQL has ended it at a deadlock and committed each statement since).
    #[doc(hidden)]
    fn finish(tx: Transaction<'static, Self>) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        Self::commit(tx)
    }

    /// Rolls back a transaction one of whose statements was dropped before its answer had been read.
    #[doc(hidden)]
    fn roll_back_interrupted(
        _pool: &Pool<Self>,
        tx: Transaction<'static, Self>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        Self::roll_back(tx)
    }

    /// Marks rows as acknowledged, with the database's time. Returns how many were not yet.
    #[doc(hidden)]
    fn settle(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        ids: &[String],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Deletes at most `limit` rows that were settled more than `age_us` microseconds ago, the oldest first.
    ///
    /// `since` is when the last row was settled that this run has deleted, in microseconds of the database's clock;
    /// [`i64::MIN`] at first. An engine that keeps deleted rows in its index for a while looks for no more before it.
    #[doc(hidden)]
    fn prune(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        age_us: i64,
        limit: u32,
        since: &mut i64,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Takes or renews the right to prune, for `ttl_us` microseconds. False where somebody else has it.
    #[doc(hidden)]
    fn take_turn(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        holder: &str,
        ttl_us: i64,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Gives the right to prune back.
    #[doc(hidden)]
    fn end_turn(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        holder: &str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Rows in the order of their ids, behind `after`.
    #[doc(hidden)]
    fn page(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        after: &str,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<StoredRow>, sqlx::Error>> + Send;

    /// The rows with these ids, in no order.
    #[doc(hidden)]
    fn rows(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        ids: &[String],
    ) -> impl Future<Output = Result<Vec<StoredRow>, sqlx::Error>> + Send;

    /// How many rows there are, how many of them are settled, and how many were settled more than `age_us` ago.
    #[doc(hidden)]
    fn count(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        age_us: i64,
    ) -> impl Future<Output = Result<(i64, i64, i64), sqlx::Error>> + Send;
}

/// What became of an insert.
#[doc(hidden)]
#[derive(Debug)]
pub enum Inserted {
    /// The row is new.
    Fresh,
    /// Our unique key has it already.
    Present,
    /// A unique key refused it; whether it was ours, a look at the row tells.
    Refused(sqlx::Error),
}

/// A row as the columns hold it: id, type, task, version, received, settled (microseconds of the database's clock).
pub(super) type StoredRow = (String, String, String, i64, i64, Option<i64>);

/// One engine's statements.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Text {
    pub(super) insert: &'static str,
    pub(super) find: &'static str,
    pub(super) settle: &'static str,
    pub(super) prune: &'static str,
    pub(super) take_turn: &'static str,
    pub(super) make_turn: &'static str,
    pub(super) end_turn: &'static str,
    pub(super) page: &'static str,
    pub(super) rows: &'static str,
    pub(super) count: &'static str,
    /// How the engine writes its nth parameter.
    pub(super) placeholder: fn(usize) -> String,
}

/// One engine's statements with the prefix in place.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Statements {
    pub(super) insert: Statement,
    pub(super) find: Statement,
    pub(super) settle: Statement,
    pub(super) prune: Statement,
    pub(super) take_turn: Statement,
    pub(super) make_turn: Statement,
    pub(super) end_turn: Statement,
    pub(super) page: Statement,
    pub(super) rows: Statement,
    pub(super) count: Statement,
}

impl Statements {
    pub(super) fn new<DB: Store>(prefix: &TablePrefix) -> Self {
        let text = DB::TEXT;
        // Behind the consumer's name, which is the first parameter.
        let ids: Vec<_> = (2..2 + IDS_PER_STATEMENT).map(text.placeholder).collect();
        let ids = ids.join(", ");
        Self {
            insert: prefix.render(text.insert),
            find: prefix.render(text.find),
            settle: prefix.render_owned(&text.settle.replace("{ids}", &ids)),
            prune: prefix.render(text.prune),
            take_turn: prefix.render(text.take_turn),
            make_turn: prefix.render(text.make_turn),
            end_turn: prefix.render(text.end_turn),
            page: prefix.render(text.page),
            rows: prefix.render_owned(&text.rows.replace("{ids}", &ids)),
            count: prefix.render(text.count),
        }
    }
}

/// The part of an adapter that differs in the driver's types alone. Statements and traps stay in the engine's file.
macro_rules! shared_statements {
    () => {
        async fn find(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            event_id: &str,
        ) -> Result<Option<Stored>, sqlx::Error> {
            let row: Option<(String, String, i64)> =
                sqlx::query_as(sql.find.sql()).bind(consumer).bind(event_id).fetch_optional(on).await?;
            Ok(row.map(|(event_type, task_id, task_version)| Stored { event_type, task_id, task_version }))
        }

        async fn settle(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            ids: &[String],
        ) -> Result<u64, sqlx::Error> {
            let mut settled = 0;
            for ids in ids.chunks(crate::inbox::store::IDS_PER_STATEMENT) {
                let mut query = sqlx::query(sql.settle.sql()).bind(consumer);
                for id in crate::inbox::store::padded(ids) {
                    query = query.bind(id);
                }
                settled += query.execute(&mut *on).await?.rows_affected();
            }
            Ok(settled)
        }

        async fn take_turn(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            holder: &str,
            ttl_us: i64,
        ) -> Result<bool, sqlx::Error> {
            sqlx::query(sql.make_turn.sql()).bind(consumer).execute(&mut *on).await?;
            let query = sqlx::query(sql.take_turn.sql()).bind(holder).bind(ttl_us).bind(consumer).bind(holder);
            Ok(query.execute(on).await?.rows_affected() == 1)
        }

        async fn end_turn(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            holder: &str,
        ) -> Result<(), sqlx::Error> {
            sqlx::query(sql.end_turn.sql()).bind(consumer).bind(holder).execute(on).await?;
            Ok(())
        }

        async fn page(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            after: &str,
            limit: u32,
        ) -> Result<Vec<StoredRow>, sqlx::Error> {
            sqlx::query_as(sql.page.sql()).bind(consumer).bind(after).bind(i64::from(limit)).fetch_all(on).await
        }

        async fn rows(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            ids: &[String],
        ) -> Result<Vec<StoredRow>, sqlx::Error> {
            let mut found = Vec::with_capacity(ids.len());
            for ids in ids.chunks(crate::inbox::store::IDS_PER_STATEMENT) {
                let mut query = sqlx::query_as(sql.rows.sql()).bind(consumer);
                for id in crate::inbox::store::padded(ids) {
                    query = query.bind(id);
                }
                let rows: Vec<StoredRow> = query.fetch_all(&mut *on).await?;
                found.extend(rows);
            }
            Ok(found)
        }

        async fn count(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            age_us: i64,
        ) -> Result<(i64, i64, i64), sqlx::Error> {
            sqlx::query_as(sql.count.sql()).bind(age_us).bind(consumer).fetch_one(on).await
        }
    };
}
pub(super) use shared_statements;

/// Pruning where a deleted row is out of the way at once (SQLite), or soon (InnoDB's own purge takes it out of the index
/// behind the transaction).
macro_rules! prune_from_the_start {
    () => {
        async fn prune(
            on: &mut Self::Connection,
            sql: &Statements,
            consumer: &str,
            age_us: i64,
            limit: u32,
            _since: &mut i64,
        ) -> Result<u64, sqlx::Error> {
            let query = sqlx::query(sql.prune.sql()).bind(consumer).bind(age_us).bind(i64::from(limit));
            Ok(query.execute(on).await?.rows_affected())
        }
    };
}
pub(super) use prune_from_the_start;

/// Ids to the length of a statement's list; the last is repeated, which changes no result.
pub(super) fn padded(ids: &[String]) -> impl Iterator<Item = &str> {
    let last = ids.last().map_or("", String::as_str);
    ids.iter().map(String::as_str).chain(std::iter::repeat(last)).take(IDS_PER_STATEMENT)
}
