//! Ending leases that have lapsed: back to ready after a backoff, or EXPIRED.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use perilune_proto::backoff::Backoff;
use perilune_proto::lease::{Moment, redelivery};
use perilune_proto::scalar::{Generation, SubscriptionId};
use sqlx::sqlite::SqliteRow;

use super::super::lapses::Window;
use super::super::{StoreError, Wake};
use super::record::backoff;
use super::row::{Columns, micros};
use super::writer::Unit;

/// Lapsed leases of one subscription (`?2`), or of all; the oldest first.
macro_rules! select_lapsed {
    ($from:literal) => {
        concat!(
            "SELECT d.delivery_id, d.due_at, d.generation, d.budget, s.subscription_no, s.subscription_id,
                s.backoff_min, s.backoff_max, s.room, s.expired FROM ",
            $from,
            " ORDER BY d.due_at"
        )
    };
}

pub(super) const OF_ONE: &str = select_lapsed!(
    "delivery d INDEXED BY delivery_open JOIN subscription s ON s.subscription_no = d.subscription_no
     WHERE d.subscription_no = ?2 AND d.state = 1 AND d.state < 3 AND d.due_at <= ?1"
);
pub(super) const OF_ALL: &str = concat!(
    select_lapsed!(
        "delivery d INDEXED BY delivery_lapse JOIN subscription s ON s.subscription_no = d.subscription_no
         WHERE d.state = 1 AND d.due_at <= ?1"
    ),
    " LIMIT ?2"
);
// ?1: [["delivery in hex", state, due], …]; ?2: [[subscription, newly expired], …].
pub(super) const END: &str = "SAVEPOINT question;
    UPDATE delivery SET state = v.value ->> 1, due_at = v.value ->> 2
        FROM json_each(?1) v WHERE delivery.delivery_id = unhex(v.value ->> 0);
    UPDATE subscription SET expired = expired + (v.value ->> 1)
        FROM json_each(?2) v WHERE subscription.subscription_no = v.value ->> 0;
    RELEASE question";

/// What became of the lapsed leases of one subscription.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) subscription_id: SubscriptionId,
    pub(super) again: u64,
    pub(super) expired: u64,
    /// As it was before.
    window: Window,
    /// When the first of them may be leased again.
    pub(super) next: Option<Moment>,
}

impl Unit {
    /// Ends every lapsed lease of one subscription; the window bounds them.
    pub(super) async fn lapse_one(&mut self, number: i64) -> Result<Option<Ended>, StoreError> {
        let query = sqlx::query(OF_ONE).bind(micros(self.times.now)).bind(number);
        let rows = query.fetch_all(&mut self.connection).await?;
        Ok(self.end(&rows).await?.into_values().next())
    }

    /// Ends up to `limit` lapsed leases, by subscription.
    pub(super) async fn lapse_all(&mut self, limit: usize) -> Result<BTreeMap<i64, Ended>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let query = sqlx::query(OF_ALL).bind(micros(self.times.now)).bind(limit);
        let rows = query.fetch_all(&mut self.connection).await?;
        self.end(&rows).await
    }

    async fn end(&mut self, rows: &[SqliteRow]) -> Result<BTreeMap<i64, Ended>, StoreError> {
        let mut ended = BTreeMap::new();
        if rows.is_empty() {
            return Ok(ended);
        }
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            let row = Columns(row);
            let (delivery, lapse) = (u128::from_be_bytes(row.id(0)?), row.moment(1)?);
            let (generation, budget) = (row.count(2)?, row.count(3)?);
            let subscription_id = SubscriptionId::from_bytes(row.id(5)?);
            let window = Window { room: row.small(8)?, expired: row.small(9)? };
            let new = Ended { subscription_id, again: 0, expired: 0, window, next: None };
            let of = ended.entry(row.integer(4)?).or_insert(new);
            let again = generation < budget;
            let (state, due) = if again {
                let backoff: Backoff = backoff(row, 6)?;
                (0, redelivery(lapse, Generation(generation), &backoff, &mut self.rng))
            } else {
                (2, lapse)
            };
            if again {
                of.again += 1;
                of.next = Some(of.next.map_or(due, |next| next.min(due)));
            } else {
                of.expired += 1;
            }
            changes.push(format!("[\"{delivery:032x}\",{state},{}]", micros(due)));
        }
        let mut counts = String::from("[");
        for (number, of) in ended.iter().filter(|(_, of)| of.expired > 0) {
            let comma = if counts.len() > 1 { "," } else { "" };
            // Writing to a string can't fail.
            let _ = write!(counts, "{comma}[{number},{}]", of.expired);
        }
        counts.push(']');
        self.write(sqlx::query(END).bind(format!("[{}]", changes.join(","))).bind(counts)).await?;
        for of in ended.values() {
            self.wakes.insert(Wake::Subscription(of.subscription_id));
            self.lapses.add(of.subscription_id, of.again, of.expired, of.window);
        }
        Ok(ended)
    }
}
