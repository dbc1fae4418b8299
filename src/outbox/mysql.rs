//! The outbox on MySQL (8.0 on) and MariaDB (10.6 on): claims skip what others have locked; a lane is a row of a table
//! of 256, since the engine has no lock that ends with the transaction.

use sqlx::MySql;

use super::store::{
    CLAIM_MAX, ClaimedRow, DeadRow, Dialect, End, Lane, NewRow, OutboxStore, Statements, shared_statements,
};
use crate::sql::prefix::Statement;

/// Rows of the table of lanes.
const LANES: i64 = 256;

const DIALECT: Dialect = Dialect {
    now: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
    lock_lane: "SELECT lane FROM {prefix}outbox_lane WHERE lane = ? FOR UPDATE",
    claimed: "SELECT id, message_id, topic, order_key, content_type, body, attempts + 1, created_at
        FROM {prefix}outbox WHERE state = 1 AND due_at <= {now} ORDER BY due_at, id LIMIT ? FOR UPDATE SKIP LOCKED",
    claim: "UPDATE {prefix}outbox SET claim = ?, due_at = {now} + ?, attempts = attempts + 1 WHERE id IN ({ids})",
    // The engine reads no table that it updates, unless through a derived one.
    promote: "UPDATE {prefix}outbox SET state = 1, due_at = {now}
        WHERE id = (SELECT m FROM (
                SELECT MIN(id) AS m FROM {prefix}outbox WHERE order_key = ? AND state = 0) AS head)
            AND NOT EXISTS (SELECT 1 FROM (
                SELECT id FROM {prefix}outbox WHERE order_key = ? AND state = 1) AS ready)",
    mend: "UPDATE {prefix}outbox SET state = 1 WHERE state = 0 AND id IN (SELECT m FROM (
            SELECT MIN(id) AS m FROM {prefix}outbox WHERE state IN (0, 1) AND order_key IS NOT NULL
            GROUP BY order_key HAVING MAX(state) = 0) AS heads)",
    placeholder: |_| "?".to_owned(),
};

impl OutboxStore for MySql {
    const DIALECT: Dialect = DIALECT;

    async fn lock_lane(on: &mut Self::Connection, sql: &Statements, lane: Lane) -> Result<(), sqlx::Error> {
        sqlx::query(sql.0.lock_lane.sql()).bind(lane.number.rem_euclid(LANES)).execute(on).await.map(drop)
    }

    async fn claim(
        on: &mut Self::Connection,
        sql: &Statements,
        claim: &str,
        ttl_us: i64,
        limit: u32,
    ) -> Result<Vec<ClaimedRow>, sqlx::Error> {
        let query = sqlx::query_as(sql.0.claimed.sql()).bind(i64::from(limit));
        let rows: Vec<ClaimedRow> = query.fetch_all(&mut *on).await?;
        if let Some(last) = rows.last().map(|row| row.0) {
            // The list's length is fixed, so that there is one prepared statement: the last id fills it up.
            let ids = rows.iter().map(|row| row.0).chain(std::iter::repeat(last)).take(CLAIM_MAX);
            let query = sqlx::query(sql.0.claim.sql()).bind(claim).bind(ttl_us);
            ids.fold(query, |query, id| query.bind(id)).execute(on).await?;
        }
        Ok(rows)
    }

    shared_statements!();
}
