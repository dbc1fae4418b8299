//! Forgetting old events, queue by queue, from the oldest on.

use perilune_proto::lease::Moment;

use super::super::bounds::SWEEP_MAX;
use super::super::{PastCursors, Retained, Retention, StoreError};
use super::row::{Columns, stored};
use super::writer::Unit;

// What the slowest reader of the queue has passed. A revoked credential's subscription reads no more.
pub(super) const QUEUES: &str = "SELECT q.queue_id, q.forgotten_head,
        (SELECT min(s.cursor) FROM subscription_queue sq JOIN subscription s USING (subscription_no)
            LEFT JOIN credential c ON c.credential_id = s.credential_id
            WHERE sq.queue_id = q.queue_id AND c.revoked_at IS NULL)
    FROM queue q WHERE q.events > q.forgotten_events";
// The last event of the queue's oldest that go, with its ordinal. The first that stays ends the run.
pub(super) const OLDEST: &str = "SELECT sequence, ordinal, written_at FROM event
    WHERE queue_id = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence LIMIT ?4";
// Whoever still needs an event's text gets it before the event goes.
pub(super) const FORGET: &str = "SAVEPOINT question;
    UPDATE task SET body = e.body FROM event e
        WHERE e.queue_id = ?1 AND e.sequence > ?2 AND e.sequence <= ?3
            AND task.task_id = e.task_id AND task.sequence = e.sequence;
    UPDATE delivery SET body = e.body FROM event e
        WHERE e.queue_id = ?1 AND e.sequence > ?2 AND e.sequence <= ?3
            AND delivery.sequence = e.sequence AND delivery.state < 3;
    UPDATE idempotency SET body = e.body FROM event e
        WHERE e.queue_id = ?1 AND e.sequence > ?2 AND e.sequence <= ?3 AND idempotency.sequence = e.sequence;
    DELETE FROM event WHERE queue_id = ?1 AND sequence > ?2 AND sequence <= ?3;
    UPDATE queue SET forgotten_head = ?3, forgotten_events = ?4 WHERE queue_id = ?1;
    RELEASE question";

pub(super) async fn retain(unit: &mut Unit, retention: Retention) -> Result<Retained, StoreError> {
    let head = unit.log().await?.head;
    let beyond = retention.max_events.map_or(0, |kept| head.saturating_sub(kept));
    let oldest = retention.max_age.map(|age| {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        Moment(unit.times.wall.0.saturating_sub(age))
    });
    unit.guard().await?;
    let mut retained = Retained::default();
    for row in sqlx::query(QUEUES).fetch_all(&mut unit.connection).await? {
        let row = Columns(&row);
        let (queue, forgotten) = (row.integer(0)?, row.integer(1)?);
        let passed = match retention.past_cursors {
            PastCursors::Keep if !row.is_null(2)? => row.integer(2)?,
            _ => i64::MAX,
        };
        let left = SWEEP_MAX - usize::try_from(retained.forgotten).unwrap_or(SWEEP_MAX);
        let query = sqlx::query(OLDEST).bind(queue).bind(forgotten).bind(passed);
        // One more than may go tells whether there is more.
        let query = query.bind(i64::try_from(left + 1).unwrap_or(i64::MAX));
        let mut last = None;
        let mut count = 0;
        for row in query.fetch_all(&mut unit.connection).await? {
            let row = Columns(&row);
            let goes =
                row.count(0)? <= beyond || oldest.is_some_and(|oldest| row.moment(2).is_ok_and(|at| at < oldest));
            if !goes {
                break;
            }
            if count >= left {
                retained.more = true;
                break;
            }
            count += 1;
            last = Some((row.count(0)?, row.count(1)?));
        }
        if let Some((sequence, ordinal)) = last {
            let text = sqlx::query(FORGET).bind(queue).bind(forgotten).bind(stored(sequence)).bind(stored(ordinal));
            unit.write(text).await?;
            retained.forgotten += u64::try_from(count).unwrap_or(u64::MAX);
        }
    }
    Ok(retained)
}
