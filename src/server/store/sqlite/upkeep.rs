//! Housekeeping in SQLite.

use std::time::Duration;

use futures_util::future::try_join_all;
use perilune_proto::limits::{IDEMPOTENCY_RETENTION, REPLAY_RETENTION};
use perilune_proto::scalar::{Sequence, SubscriptionId};

use super::super::bounds::{BLOCKED_MAX, SWEEP_MAX, TOGETHER_MAX};
use super::super::{Answer, Retained, Retention, StoreError, StoreFigures, Swept, Upkeep, Wakes};
use super::SqliteStore;
use super::lease::numbers;
use super::retain::retain;
use super::row::{Columns, micros, stored};
use super::take::Reader;
use super::writer::Unit;

pub(super) const FORGET_PROOFS: &str = "DELETE FROM delivery WHERE delivery_id IN (
        SELECT delivery_id FROM delivery INDEXED BY delivery_confirmed
        WHERE state = 3 AND due_at <= ?1 ORDER BY due_at LIMIT ?2)";
// Keys are as old as their events: the oldest first, and no further than the first that is still kept.
pub(super) const FORGET_KEYS: &str = "DELETE FROM idempotency WHERE sequence IN (
        SELECT sequence FROM (SELECT sequence, kept_since FROM idempotency ORDER BY sequence LIMIT ?2)
        WHERE kept_since <= ?1)";
pub(super) const IDLE: &str = "SELECT s.subscription_no FROM subscription s
        LEFT JOIN credential c ON c.credential_id = s.credential_id
    WHERE s.enabled = 1 AND s.open < s.room AND c.revoked_at IS NULL
        AND EXISTS (SELECT 1 FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.head > s.cursor)";
pub(super) const READER: &str = "SELECT s.statuses, s.operations, s.cursor, s.room - s.open, s.budget,
        (SELECT group_concat(q.queue_id) FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.head > s.cursor),
        (SELECT coalesce(max(q.head), 0) FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no)
    FROM subscription s
    WHERE s.subscription_no = ?1 AND s.enabled = 1 AND s.open < s.room
        AND NOT EXISTS (SELECT 1 FROM subscription_queue sq JOIN queue q USING (queue_id)
            WHERE sq.subscription_no = s.subscription_no AND q.forgotten_head > max(s.cursor, sq.origin))";
// ?2: the new deliveries, each as ["delivery", sequence, "event"].
pub(super) const TAKE: &str = "SAVEPOINT question;
    INSERT INTO delivery (delivery_id, subscription_no, sequence, state, due_at, generation, budget, event_id)
        SELECT unhex(v.value ->> 0), ?1, v.value ->> 1, 0, ?3, 0, ?4, unhex(v.value ->> 2) FROM json_each(?2) v;
    UPDATE subscription SET cursor = ?5, open = open + json_array_length(?2) WHERE subscription_no = ?1;
    RELEASE question";
pub(super) const NEXT_LAPSE: &str = "SELECT min(due_at) FROM delivery INDEXED BY delivery_lapse WHERE state = 1";
pub(super) const PROBE: &str = "SELECT 1";
pub(super) const FIGURES: &str = "SELECT (SELECT coalesce(max(head), 0) FROM queue),
        (SELECT coalesce(sum(events - forgotten_events), 0) FROM queue),
        count(*), coalesce(sum(open - expired), 0), coalesce(sum(expired), 0), coalesce(sum(acknowledged), 0)
    FROM subscription";
pub(super) const BLOCKED: &str =
    "SELECT subscription_id FROM subscription WHERE expired >= room ORDER BY subscription_id LIMIT ?1";

impl Upkeep for SqliteStore {
    fn sweep(&self) -> Answer<'_, Swept> {
        Box::pin(async move {
            let lapsed = self.write(|unit| Box::pin(lapse(unit))).await?;
            let forgotten = self.write(|unit| Box::pin(forget(unit))).await?;
            let more = lapsed.max(forgotten) >= wide(SWEEP_MAX);
            let mut swept = Swept { forgotten, more, ..Swept::default() };
            let (pool, _) = self.reader()?;
            let idle: Vec<(i64,)> = sqlx::query_as(IDLE).fetch_all(pool).await?;
            for idle in idle.chunks(TOGETHER_MAX) {
                // All at once, so that they share commits.
                let takes = idle.iter().map(|(number,)| {
                    let number = *number;
                    self.write(move |unit| Box::pin(take(unit, number)))
                });
                for (taken, more) in try_join_all(takes).await? {
                    swept.taken += taken;
                    swept.more |= more;
                }
            }
            self.untold.tell(&mut swept);
            Ok(swept)
        })
    }

    fn next_wakeup(&self) -> Answer<'_, Option<Duration>> {
        Box::pin(async move {
            let (pool, times) = self.reader()?;
            let row = sqlx::query(NEXT_LAPSE).fetch_one(pool).await?;
            Ok(Columns(&row).moment_if_any(0)?.map(|lapse| lapse.since(times.now)))
        })
    }

    fn retain(&self, retention: Retention) -> Answer<'_, Retained> {
        self.write(move |unit| Box::pin(retain(unit, retention)))
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.write(|unit| {
            Box::pin(async move {
                sqlx::query(PROBE).execute(&mut unit.connection).await?;
                Ok(())
            })
        })
    }

    fn figures(&self) -> Answer<'_, StoreFigures> {
        Box::pin(async move {
            let (pool, _) = self.reader()?;
            let row = sqlx::query(FIGURES).fetch_one(pool).await?;
            let limit = i64::try_from(BLOCKED_MAX).unwrap_or(i64::MAX);
            let blocked = sqlx::query(BLOCKED).bind(limit).fetch_all(pool).await?;
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
        self.waker.wakes()
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            // The readers first: the writer's connection is then the last and clears the write-ahead log away.
            if self.writer.is_closed() {
                return Err(StoreError::Closed);
            }
            self.readers.close().await;
            self.writer.close().await
        })
    }
}

/// Ends lapsed leases; says how many.
async fn lapse(unit: &mut Unit) -> Result<u64, StoreError> {
    let ended = unit.lapse_all(SWEEP_MAX).await?;
    Ok(ended.values().map(|of| of.again + of.expired).sum())
}

async fn forget(unit: &mut Unit) -> Result<u64, StoreError> {
    unit.guard().await?;
    let limit = i64::try_from(SWEEP_MAX).unwrap_or(i64::MAX);
    let mut forgotten = 0;
    for (statement, kept) in [(FORGET_PROOFS, REPLAY_RETENTION), (FORGET_KEYS, IDEMPOTENCY_RETENTION)] {
        let Some(oldest) = unit.times.now.0.checked_sub(u64::try_from(kept.as_micros()).unwrap_or(u64::MAX)) else {
            continue;
        };
        let query = sqlx::query(statement).bind(micros(perilune_proto::lease::Moment(oldest))).bind(limit);
        forgotten += query.execute(&mut unit.connection).await?.rows_affected();
    }
    Ok(forgotten)
}

/// Fills one window as far as one look at the log does; says how many it took and whether there is more.
async fn take(unit: &mut Unit, number: i64) -> Result<(u64, bool), StoreError> {
    let row = sqlx::query(READER).bind(number).fetch_optional(&mut unit.connection).await?;
    let Some(row) = row else { return Ok((0, false)) };
    let row = Columns(&row);
    let reader = Reader {
        number,
        statuses: row.integer(0)?,
        operations: row.text(1)?,
        cursor: row.count(2)?,
        behind: numbers(row.text_if_any(5)?.as_deref())?,
        head: row.count(6)?,
    };
    let room = usize::try_from(row.count(3)?).unwrap_or(usize::MAX);
    let budget = row.integer(4)?;
    let found = unit.take(&reader, room.min(SWEEP_MAX)).await?;
    let taken = wide(found.taken.len());
    let list: Vec<_> = found
        .taken
        .iter()
        .map(|new| format!("[\"{}\",{},\"{}\"]", new.delivery_id, new.sequence, new.event_id))
        .collect();
    let text = sqlx::query(TAKE).bind(number).bind(format!("[{}]", list.join(","))).bind(micros(unit.times.now));
    unit.write(text.bind(budget).bind(stored(found.cursor))).await?;
    Ok((taken, found.more && found.taken.len() < room))
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
