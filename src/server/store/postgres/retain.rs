//! Forgetting old events, queue by queue, from the oldest on.

use perilune_proto::lease::Moment;

use super::super::bounds::SWEEP_MAX;
use super::super::{PastCursors, Retained, Retention, StoreError};
use super::delivery::now;
use super::lanes::Unit;
use super::row::{Columns, stored};

// Every subscription whose deliveries may have to be given their event's text, so that none of them is leased or
// confirmed meanwhile; in the order of their ids, as everybody locks them.
const LOCK_READERS: &str = "SELECT 1 FROM subscription ORDER BY subscription_id FOR UPDATE";
// What the slowest reader of the queue has passed. A revoked credential's subscription reads no more.
const QUEUES: &str = "SELECT q.queue_id, q.forgotten_head,
        (SELECT min(s.cursor) FROM subscription_queue sq JOIN subscription s USING (subscription_no)
            LEFT JOIN credential c ON c.credential_id = s.credential_id
            WHERE sq.queue_id = q.queue_id AND c.revoked_at IS NULL)
    FROM queue q WHERE q.events > q.forgotten_events ORDER BY q.queue_id";
// The queue's oldest events. The first that stays ends the run.
const OLDEST: &str = "SELECT sequence, ordinal, written_at FROM event
    WHERE queue_id = $1 AND sequence > $2 AND sequence <= $3 ORDER BY sequence LIMIT $4";
// Whoever still needs an event's text gets it as the event goes.
const FORGET: &str = "WITH gone AS (
        DELETE FROM event WHERE queue_id = $1 AND sequence > $2 AND sequence <= $3
        RETURNING sequence, task_id, body),
    tasks AS (
        UPDATE task t SET body = gone.body FROM gone WHERE t.task_id = gone.task_id AND t.sequence = gone.sequence),
    deliveries AS (
        UPDATE delivery d SET body = gone.body FROM gone WHERE d.sequence = gone.sequence AND d.state < 3),
    keys AS (
        UPDATE idempotency k SET body = gone.body FROM gone WHERE k.sequence = gone.sequence)
    UPDATE queue SET forgotten_head = $3, forgotten_events = $4 WHERE queue_id = $1";

/// What may go of a queue.
struct Going {
    queue: i64,
    forgotten: i64,
    /// The last that goes, with its ordinal.
    last: Option<(u64, u64)>,
    count: usize,
    more: bool,
}

pub(super) async fn retain(unit: &mut Unit, retention: Retention) -> Result<Retained, StoreError> {
    let head = unit.locked_head().await?;
    let beyond = retention.max_events.map_or(0, |kept| head.saturating_sub(kept));
    let now = now(unit).await?;
    let oldest = retention.max_age.map(|age| {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        Moment(now.0.saturating_sub(age))
    });
    // Most of the time there is nothing to forget, and nobody is to be held up for that.
    if !going(unit, retention, beyond, oldest).await?.iter().any(|going| going.last.is_some()) {
        return Ok(Retained::default());
    }
    sqlx::query(LOCK_READERS).execute(&mut unit.connection).await?;
    let mut retained = Retained::default();
    for going in going(unit, retention, beyond, oldest).await? {
        retained.more |= going.more;
        let Some((sequence, ordinal)) = going.last else { continue };
        let forget = sqlx::query(FORGET).bind(going.queue).bind(going.forgotten);
        forget.bind(stored(sequence)).bind(stored(ordinal)).execute(&mut unit.connection).await?;
        retained.forgotten += u64::try_from(going.count).unwrap_or(u64::MAX);
    }
    Ok(retained)
}

/// What may go of every queue, within the bounds of one call.
async fn going(
    unit: &mut Unit,
    retention: Retention,
    beyond: u64,
    oldest: Option<Moment>,
) -> Result<Vec<Going>, StoreError> {
    let mut all = Vec::new();
    let mut left = SWEEP_MAX;
    for row in sqlx::query(QUEUES).fetch_all(&mut unit.connection).await? {
        let row = Columns(&row);
        let passed = match retention.past_cursors {
            PastCursors::Keep if !row.is_null(2)? => row.integer(2)?,
            _ => i64::MAX,
        };
        let mut going = Going { queue: row.integer(0)?, forgotten: row.integer(1)?, last: None, count: 0, more: false };
        // One more than may go tells whether there is more.
        let limit = i64::try_from(left + 1).unwrap_or(i64::MAX);
        let query = sqlx::query(OLDEST).bind(going.queue).bind(going.forgotten).bind(passed).bind(limit);
        for row in query.fetch_all(&mut unit.connection).await? {
            let (sequence, ordinal, written) =
                (Columns(&row).count(0)?, Columns(&row).count(1)?, Columns(&row).moment(2)?);
            if sequence > beyond && oldest.is_none_or(|oldest| written >= oldest) {
                break;
            }
            if going.count >= left {
                going.more = true;
                break;
            }
            going.count += 1;
            going.last = Some((sequence, ordinal));
        }
        left -= going.count;
        all.push(going);
    }
    Ok(all)
}
