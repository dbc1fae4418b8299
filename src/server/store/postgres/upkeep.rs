//! Housekeeping in PostgreSQL. Several servers may do it at once: a subscription that another has locked is skipped.

use std::time::Duration;

use futures_util::future::try_join_all;
use perilune_proto::lease::Moment;
use perilune_proto::limits::{IDEMPOTENCY_RETENTION, REPLAY_RETENTION};
use perilune_proto::scalar::{Sequence, SubscriptionId};

use super::super::bounds::{BLOCKED_MAX, SWEEP_MAX, TOGETHER_MAX};
use super::super::{Answer, Retained, Retention, StoreError, StoreFigures, Swept, Upkeep, Wakes};
use super::PostgresStore;
use super::delivery::now;
use super::lanes::Unit;
use super::retain::retain;
use super::row::{Columns, micros, stored};
use super::take::Reader;

/// Subscriptions of which one sweep ends leases.
const LAPSED_SUBSCRIPTIONS_MAX: i64 = 100;

const LAPSED: &str = "SELECT s.subscription_id FROM (
        SELECT DISTINCT subscription_no FROM delivery WHERE state = 1 AND due_at <= (SELECT clock_us()) LIMIT $1) d
    JOIN subscription s USING (subscription_no)";
const IDLE: &str = "SELECT s.subscription_id FROM subscription s
        LEFT JOIN credential c ON c.credential_id = s.credential_id
    WHERE s.enabled AND s.open < s.room AND c.revoked_at IS NULL
        AND EXISTS (SELECT 1 FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.head > s.cursor)";
const LOCK_IF_FREE: &str = "SELECT subscription_no FROM subscription WHERE subscription_id = $1 FOR UPDATE SKIP LOCKED";
const FORGET_PROOFS: &str = "DELETE FROM delivery WHERE delivery_id IN (
        SELECT delivery_id FROM delivery WHERE state = 3 AND due_at <= $1 ORDER BY due_at LIMIT $2
        FOR UPDATE SKIP LOCKED)";
// Keys are as old as their events: the oldest first, and no further than the first that is still kept.
const FORGET_KEYS: &str = "DELETE FROM idempotency WHERE sequence IN (
        SELECT sequence FROM (SELECT sequence, kept_since FROM idempotency ORDER BY sequence LIMIT $2) oldest
        WHERE kept_since <= $1)";
const READER: &str = "SELECT s.statuses, s.operations, s.cursor, s.room - s.open, s.budget,
        ARRAY(SELECT q.queue_id FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.head > s.cursor),
        (SELECT coalesce(max(q.head), 0) FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no)
    FROM subscription s
    WHERE s.subscription_no = $1 AND s.enabled AND s.open < s.room
        AND NOT EXISTS (SELECT 1 FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.forgotten_head > greatest(s.cursor, sq.origin))";
const TAKE: &str = "WITH new AS (
        INSERT INTO delivery (delivery_id, subscription_no, sequence, state, due_at, generation, budget, event_id)
            SELECT v.delivery, $1, v.sequence, 0, clock_us(), 0, $3, v.event
            FROM unnest($4::bytea[], $5::bigint[], $6::bytea[]) v (delivery, sequence, event))
    UPDATE subscription SET cursor = $2, open = open + cardinality($4) WHERE subscription_no = $1";
const NEXT_LAPSE: &str = "SELECT min(due_at), clock_us() FROM delivery WHERE state = 1";
const FIGURES: &str = "SELECT (SELECT head FROM log),
        (SELECT coalesce(sum(events - forgotten_events), 0)::bigint FROM queue),
        count(*), coalesce(sum(open - expired), 0)::bigint, coalesce(sum(expired), 0)::bigint,
        coalesce(sum(acknowledged), 0)::bigint
    FROM subscription";
const BLOCKED: &str =
    "SELECT subscription_id FROM subscription WHERE expired >= room ORDER BY subscription_id LIMIT $1";

/// Leaves a subscription out whose rows can't be read: the others' housekeeping must not wait for its repair.
fn aside<T>(subscription: SubscriptionId, done: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match done {
        Err(error @ StoreError::Damaged(_)) => {
            tracing::error!(%subscription, %error, "housekeeping leaves a subscription out");
            Ok(None)
        }
        done => done.map(Some),
    }
}

impl Upkeep for PostgresStore {
    fn sweep(&self) -> Answer<'_, Swept> {
        Box::pin(async move {
            let news = std::sync::Arc::clone(&self.news);
            self.read(move |pool| async move { news.look(&pool).await }).await?;
            let mut swept = Swept::default();
            let lapsed = self.subscriptions(LAPSED, Some(LAPSED_SUBSCRIPTIONS_MAX)).await?;
            swept.more = wide(lapsed.len()) >= LAPSED_SUBSCRIPTIONS_MAX.unsigned_abs();
            // All at once, so that they share commits.
            let lapses = lapsed
                .into_iter()
                .map(|id| async move { aside(id, self.write(id, move |unit| Box::pin(lapse(unit, id))).await) });
            try_join_all(lapses).await?;
            swept.forgotten = self.append(|unit| Box::pin(forget(unit))).await?;
            swept.more |= swept.forgotten >= wide(SWEEP_MAX);
            for idle in self.subscriptions(IDLE, None).await?.chunks(TOGETHER_MAX) {
                let takes = idle.iter().map(|id| {
                    let id = *id;
                    async move { aside(id, self.write(id, move |unit| Box::pin(take(unit, id))).await) }
                });
                for (taken, more) in try_join_all(takes).await?.into_iter().flatten() {
                    swept.taken += taken;
                    swept.more |= more;
                }
            }
            self.untold.tell(&mut swept);
            Ok(swept)
        })
    }

    fn next_wakeup(&self) -> Answer<'_, Option<Duration>> {
        self.read(|pool| async move {
            let row = sqlx::query(NEXT_LAPSE).fetch_one(&pool).await?;
            let (lapse, now) = (Columns(&row).moment_if_any(0)?, Columns(&row).moment(1)?);
            Ok(lapse.map(|lapse| lapse.since(now)))
        })
    }

    fn retain(&self, retention: Retention) -> Answer<'_, Retained> {
        self.append(move |unit| Box::pin(retain(unit, retention)))
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.append(|unit| Box::pin(async move { now(unit).await.map(|_| ()) }))
    }

    fn figures(&self) -> Answer<'_, StoreFigures> {
        self.read(|pool| async move {
            let row = sqlx::query(FIGURES).fetch_one(&pool).await?;
            let limit = i64::try_from(BLOCKED_MAX).unwrap_or(i64::MAX);
            let blocked = sqlx::query(BLOCKED).bind(limit).fetch_all(&pool).await?;
            let blocked = blocked.iter().map(|row| Columns(row).id(0).map(SubscriptionId::from_bytes));
            let row = Columns(&row);
            Ok(StoreFigures {
                head: Sequence(row.count(0)?),
                events: row.count(1)?,
                subscriptions: row.count(2)?,
                in_progress: row.count(3)?,
                expired: row.count(4)?,
                acknowledged: row.count(5)?,
                blocked: blocked.collect::<Result<_, _>>()?,
            })
        })
    }

    fn wakes(&self) -> Wakes {
        self.news.wakes()
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.lanes.close().await?;
            self.pool.close().await;
            self.news.close();
            Ok(())
        })
    }
}

impl PostgresStore {
    /// Subscriptions that a statement finds.
    async fn subscriptions(
        &self,
        statement: &'static str,
        limit: Option<i64>,
    ) -> Result<Vec<SubscriptionId>, StoreError> {
        self.read(move |pool| async move {
            let query = sqlx::query(statement);
            let query = if let Some(limit) = limit { query.bind(limit) } else { query };
            let rows = query.fetch_all(&pool).await?;
            rows.iter().map(|row| Columns(row).id(0).map(SubscriptionId::from_bytes)).collect()
        })
        .await
    }
}

/// Locks a subscription that nobody else works on; its number.
async fn lock_if_free(unit: &mut Unit, id: SubscriptionId) -> Result<Option<i64>, StoreError> {
    let lock = sqlx::query_as(LOCK_IF_FREE).bind(id.as_bytes().to_vec());
    let found: Option<(i64,)> = lock.fetch_optional(&mut unit.connection).await?;
    Ok(found.map(|(number,)| number))
}

/// Ends the lapsed leases of one subscription.
async fn lapse(unit: &mut Unit, id: SubscriptionId) -> Result<(), StoreError> {
    let Some(number) = lock_if_free(unit, id).await? else { return Ok(()) };
    let now = now(unit).await?;
    unit.lapse(number, now).await.map(|_| ())
}

async fn forget(unit: &mut Unit) -> Result<u64, StoreError> {
    // A report may want the key that is forgotten, and has this lock when it does.
    unit.locked_head().await?;
    let now = now(unit).await?;
    let limit = i64::try_from(SWEEP_MAX).unwrap_or(i64::MAX);
    let mut forgotten = 0;
    for (statement, kept) in [(FORGET_PROOFS, REPLAY_RETENTION), (FORGET_KEYS, IDEMPOTENCY_RETENTION)] {
        let kept = u64::try_from(kept.as_micros()).unwrap_or(u64::MAX);
        let query = sqlx::query(statement).bind(micros(Moment(now.0.saturating_sub(kept)))).bind(limit);
        forgotten += query.execute(&mut unit.connection).await?.rows_affected();
    }
    Ok(forgotten)
}

/// Fills one window as far as one look at the log does; says how many it took and whether there is more.
async fn take(unit: &mut Unit, id: SubscriptionId) -> Result<(u64, bool), StoreError> {
    let Some(number) = lock_if_free(unit, id).await? else { return Ok((0, false)) };
    let row = sqlx::query(READER).bind(number).fetch_optional(&mut unit.connection).await?;
    let Some(row) = row else { return Ok((0, false)) };
    let row = Columns(&row);
    let reader = Reader {
        number,
        statuses: row.integer(0)?,
        operations: row.texts(1)?,
        cursor: row.count(2)?,
        behind: row.numbers(5)?,
        head: row.count(6)?,
    };
    let room = usize::try_from(row.count(3)?).unwrap_or(usize::MAX);
    let budget = row.integer(4)?;
    let found = unit.take(&reader, room.min(SWEEP_MAX)).await?;
    let ids: Vec<_> = found.taken.iter().map(|new| new.delivery_id.as_bytes().to_vec()).collect();
    let sequences: Vec<_> = found.taken.iter().map(|new| stored(new.sequence)).collect();
    let events: Vec<_> = found.taken.iter().map(|new| new.event_id.as_bytes().to_vec()).collect();
    let write = sqlx::query(TAKE).bind(number).bind(stored(found.cursor)).bind(budget);
    write.bind(ids).bind(sequences).bind(events).execute(&mut unit.connection).await?;
    Ok((wide(found.taken.len()), found.more && found.taken.len() < room))
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
