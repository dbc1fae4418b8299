//! A subscription's row, and its figures from counters and short index ranges.

use std::time::Duration;

use perilune_proto::backoff::Backoff;
use perilune_proto::scalar::{Sequence, SubscriptionId};

use super::super::frozen::timestamp;
use super::super::{CredentialId, Figures, StoreError, Subscription, SubscriptionRecord};
use super::row::Columns;

/// Selects settings and figures. The window bounds what the counts read.
macro_rules! select_record {
    ($rest:literal) => {
        concat!(
            "SELECT s.subscription_id, s.credential_id, s.name, s.enabled, s.statuses, s.operations, s.room, s.budget,
                s.backoff_min, s.backoff_max, s.created_at,
                ARRAY(SELECT q.name FROM subscription_queue sq JOIN queue q USING (queue_id)
                    WHERE sq.subscription_no = s.subscription_no),
                s.cursor,
                (SELECT coalesce(sum(q.events - greatest(q.forgotten_events, coalesce(
                        (SELECT e.ordinal FROM event e WHERE e.queue_id = q.queue_id AND e.sequence <= s.cursor
                            ORDER BY e.sequence DESC LIMIT 1), 0))), 0)::bigint
                    FROM subscription_queue sq JOIN queue q USING (queue_id)
                    WHERE sq.subscription_no = s.subscription_no),
                (SELECT count(*) FROM delivery d
                    WHERE d.subscription_no = s.subscription_no AND d.state = 1 AND d.due_at > now.us),
                (SELECT count(*) FROM delivery d
                    WHERE d.subscription_no = s.subscription_no AND d.state = 1 AND d.due_at <= now.us
                        AND d.generation >= d.budget),
                s.open, s.expired, s.acknowledged
            FROM subscription s, (SELECT clock_us() AS us OFFSET 0) now ",
            $rest
        )
    };
}
pub(super) use select_record;

/// Reads a row of [`select_record`].
pub(super) fn record(row: Columns<'_>) -> Result<SubscriptionRecord, StoreError> {
    let leased = row.small(14)?;
    // Swept or not: a lease that lapsed with its budget spent is EXPIRED.
    let expired = row.small(17)? + row.small(15)?;
    let figures = Figures {
        cursor: Sequence(row.count(12)?),
        lag: row.count(13)?,
        ready: row.small(16)?.saturating_sub(leased + expired),
        leased,
        expired,
        acknowledged: row.count(18)?,
    };
    Ok(SubscriptionRecord { subscription: settings(row)?, figures })
}

/// Reads the settings of a row of [`select_record`].
pub(super) fn settings(row: Columns<'_>) -> Result<Subscription, StoreError> {
    Ok(Subscription {
        subscription_id: SubscriptionId::from_bytes(row.id(0)?),
        credential_id: CredentialId::from_u128(u128::from_be_bytes(row.id(1)?)),
        name: row.text_if_any(2)?.ok_or(StoreError::Damaged("a subscription has no name"))?,
        enabled: row.flag(3)?,
        queues: row.names(11)?,
        statuses: row.statuses(4)?,
        operations: row.names(5)?,
        window: row.small(6)?,
        budget: row.small(7)?,
        backoff: backoff(row, 8)?,
        created_at: timestamp(row.moment(10)?),
    })
}

/// Reads a backoff from two columns.
pub(super) fn backoff(row: Columns<'_>, at: usize) -> Result<Backoff, StoreError> {
    Ok(Backoff::new(Duration::from_micros(row.count(at)?), Duration::from_micros(row.count(at + 1)?)))
}
