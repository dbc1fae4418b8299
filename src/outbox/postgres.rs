//! The outbox on PostgreSQL: claims skip what others have locked, lanes are advisory locks of the transaction.

use sqlx::Postgres;

use super::store::{ClaimedRow, DeadRow, Dialect, End, Lane, NewRow, OutboxStore, Statements, shared_statements};
use crate::sql::prefix::Statement;

const DIALECT: Dialect = Dialect {
    // It stands still within a statement, so that the index ends the search for what is due.
    now: "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint",
    lock_lane: "SELECT pg_advisory_xact_lock(?)",
    claim: "UPDATE {prefix}outbox SET claim = ?, due_at = {now} + ?, attempts = attempts + 1
        WHERE id = ANY (ARRAY(
            SELECT id FROM {prefix}outbox WHERE state = 1 AND due_at <= {now} ORDER BY due_at, id LIMIT ?
            FOR UPDATE SKIP LOCKED))
        RETURNING id, message_id, topic, order_key, content_type, body, attempts, created_at",
    claimed: "SELECT 1",
    promote: "UPDATE {prefix}outbox SET state = 1, due_at = {now}
        WHERE id = (SELECT MIN(id) FROM {prefix}outbox WHERE order_key = ? AND state = 0)
            AND NOT EXISTS (SELECT 1 FROM {prefix}outbox WHERE order_key = ? AND state = 1)",
    mend: "UPDATE {prefix}outbox SET state = 1 WHERE state = 0 AND id IN (
            SELECT MIN(id) FROM {prefix}outbox WHERE state IN (0, 1) AND order_key IS NOT NULL
            GROUP BY order_key HAVING MAX(state) = 0)",
    placeholder: |n| format!("${n}"),
};

impl OutboxStore for Postgres {
    const DIALECT: Dialect = DIALECT;

    async fn lock_lane(on: &mut Self::Connection, sql: &Statements, lane: Lane) -> Result<(), sqlx::Error> {
        sqlx::query(sql.0.lock_lane.sql()).bind(lane.number).execute(on).await.map(drop)
    }

    async fn claim(
        on: &mut Self::Connection,
        sql: &Statements,
        claim: &str,
        ttl_us: i64,
        limit: u32,
    ) -> Result<Vec<ClaimedRow>, sqlx::Error> {
        sqlx::query_as(sql.0.claim.sql()).bind(claim).bind(ttl_us).bind(i64::from(limit)).fetch_all(on).await
    }

    shared_statements!();
}
