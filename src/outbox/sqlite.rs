//! The outbox on SQLite: one writer at a time, so lanes and claims need no lock of their own.

use sqlx::Sqlite;

use super::store::{ClaimedRow, DeadRow, Dialect, End, Lane, NewRow, OutboxStore, Statements, shared_statements};
use crate::sql::prefix::Statement;

const DIALECT: Dialect = Dialect {
    now: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
    lock_lane: "SELECT 1",
    claim: "UPDATE {prefix}outbox SET claim = ?, due_at = {now} + ?, attempts = attempts + 1
        WHERE id IN (
            SELECT id FROM {prefix}outbox WHERE state = 1 AND due_at <= {now} ORDER BY due_at, id LIMIT ?)
        RETURNING id, message_id, topic, order_key, content_type, body, attempts, created_at",
    claimed: "SELECT 1",
    promote: "UPDATE {prefix}outbox SET state = 1, due_at = {now}
        WHERE id = (SELECT MIN(id) FROM {prefix}outbox WHERE order_key = ? AND state = 0)
            AND NOT EXISTS (SELECT 1 FROM {prefix}outbox WHERE order_key = ? AND state = 1)",
    mend: "UPDATE {prefix}outbox SET state = 1 WHERE state = 0 AND id IN (
            SELECT MIN(id) FROM {prefix}outbox WHERE state IN (0, 1) AND order_key IS NOT NULL
            GROUP BY order_key HAVING MAX(state) = 0)",
    placeholder: |_| "?".to_owned(),
};

impl OutboxStore for Sqlite {
    const DIALECT: Dialect = DIALECT;

    async fn lock_lane(_on: &mut Self::Connection, _sql: &Statements, _lane: Lane) -> Result<(), sqlx::Error> {
        Ok(())
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
