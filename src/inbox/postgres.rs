//! The inbox on PostgreSQL.
//!
//! A twin waits at the insert until the first commits (no row is inserted) or rolls back (the row is ours).
//! `ON CONFLICT` names our key, so that only its violation is a duplicate, and no error aborts the transaction.

use sqlx::{Postgres, Transaction};

use super::fingerprint::{Key, Stored};
use super::store::{Inserted, Statements, Store, StoredRow, Text, shared_statements};
use crate::sql::Engine;

/// PostgreSQL answers the COMMIT of an aborted transaction with a silent rollback, and that of none with a warning, so a
/// statement that fails in both goes before it; no cheaper one does. The empty transaction behind it is for sqlx, which
/// counts one as open. One round trip in all.
const FINISH: &str = "SAVEPOINT perilune_inbox; COMMIT; BEGIN";

// The pruner's limit is a time that stands still within its statement, so that the index ends the search: by
// `clock_timestamp()` it would look at every settled row where none is old enough.
const TEXT: Text = Text {
    insert: "INSERT INTO {prefix}inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
        VALUES ($1, $2, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        ON CONFLICT (consumer_name, event_id) DO NOTHING",
    find: "SELECT event_type, task_id, task_version FROM {prefix}inbox WHERE consumer_name = $1 AND event_id = $2",
    settle: "UPDATE {prefix}inbox SET settled_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        WHERE consumer_name = $1 AND event_id IN ({ids}) AND settled_at IS NULL",
    prune: "WITH gone AS (DELETE FROM {prefix}inbox WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {prefix}inbox
            WHERE consumer_name = $1 AND settled_at IS NOT NULL AND settled_at >= $4
                AND settled_at < (extract(epoch FROM statement_timestamp()) * 1000000)::bigint - $2
            ORDER BY settled_at LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING settled_at)
        SELECT count(*), max(settled_at) FROM gone",
    make_turn: "INSERT INTO {prefix}inbox_pruner (consumer_name, holder, held_until) VALUES ($1, '', 0)
        ON CONFLICT (consumer_name) DO NOTHING",
    take_turn: "UPDATE {prefix}inbox_pruner
        SET holder = $1, held_until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2
        WHERE consumer_name = $3
            AND (holder = $4 OR held_until < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
    end_turn: "UPDATE {prefix}inbox_pruner SET held_until = 0 WHERE consumer_name = $1 AND holder = $2",
    page: "SELECT event_id, event_type, task_id, task_version, received_at, settled_at FROM {prefix}inbox
        WHERE consumer_name = $1 AND event_id > $2 ORDER BY event_id LIMIT $3",
    rows: "SELECT event_id, event_type, task_id, task_version, received_at, settled_at FROM {prefix}inbox
        WHERE consumer_name = $1 AND event_id IN ({ids})",
    count: "SELECT COUNT(*), COUNT(settled_at),
            COUNT(CASE WHEN settled_at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1 THEN 1 END)
        FROM {prefix}inbox WHERE consumer_name = $2",
    placeholder: |n| format!("${n}"),
};

impl Store for Postgres {
    const BEGIN: &'static str = <Self as Engine>::BEGIN_WRITE;
    const TEXT: Text = TEXT;

    async fn insert(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        key: &Key,
    ) -> Result<Inserted, sqlx::Error> {
        let result = sqlx::query(sql.insert.sql())
            .bind(consumer)
            .bind(&key.event_id)
            .bind(&key.print.event_type)
            .bind(&key.print.task_id)
            .bind(key.print.task_version)
            .execute(on)
            .await?;
        Ok(if result.rows_affected() == 1 { Inserted::Fresh } else { Inserted::Present })
    }

    async fn finish(mut tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(FINISH).execute(&mut *tx).await?;
        // Dropping it queues the rollback of the empty transaction; it goes out with the pool's own check of the
        // connection, not on the caller's time.
        drop(tx);
        Ok(())
    }

    shared_statements!();

    /// Until a vacuum comes by, what was deleted stays in the index. A search from its start would walk past all that
    /// the run has deleted so far, with every batch.
    async fn prune(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        age_us: i64,
        limit: u32,
        since: &mut i64,
    ) -> Result<u64, sqlx::Error> {
        let query = sqlx::query_as(sql.prune.sql()).bind(consumer).bind(age_us).bind(i64::from(limit)).bind(*since);
        let (deleted, last): (i64, Option<i64>) = query.fetch_one(on).await?;
        *since = last.unwrap_or(*since);
        Ok(deleted.unsigned_abs())
    }
}
