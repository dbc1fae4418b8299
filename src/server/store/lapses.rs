//! Leases that ran out, whoever found that out: a question for leases, an operator's budget or the sweep.
//!
//! The next sweep tells of them all, so that each is counted and logged once and by one task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use perilune_proto::lease::is_blocked;
use perilune_proto::scalar::SubscriptionId;

use super::{ExpiredDeliveries, Swept};

/// What became of leases that ran out.
#[derive(Debug, Default)]
pub(super) struct Lapses {
    again: u64,
    /// One entry a subscription, which bounds them.
    expired: BTreeMap<SubscriptionId, ExpiredDeliveries>,
}

/// A subscription's window and how many of its deliveries were EXPIRED before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) room: u32,
    pub(super) expired: u32,
}

impl Lapses {
    /// Adds those of one subscription: how many are tried again, how many are EXPIRED now.
    pub(super) fn add(&mut self, subscription_id: SubscriptionId, again: u64, expired: u64, before: Window) {
        self.again = self.again.saturating_add(again);
        if expired > 0 {
            let in_all = before.expired.saturating_add(u32::try_from(expired).unwrap_or(u32::MAX));
            let blocked = is_blocked(before.room, in_all);
            self.merge(ExpiredDeliveries { subscription_id, count: expired, blocked });
        }
    }

    /// Adds others.
    pub(super) fn append(&mut self, others: Self) {
        let Self { again, expired } = others;
        self.again = self.again.saturating_add(again);
        expired.into_values().for_each(|expired| self.merge(expired));
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.again == 0 && self.expired.is_empty()
    }

    /// Forgets them: they were undone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Moves them into what a sweep tells.
    pub(super) fn tell(self, swept: &mut Swept) {
        swept.lapsed = self.again;
        swept.expired = self.expired.into_values().collect();
    }

    /// A full window has nothing left that could expire, so whoever filled it is the only one to say so.
    fn merge(&mut self, new: ExpiredDeliveries) {
        let of =
            self.expired.entry(new.subscription_id).or_insert(ExpiredDeliveries { count: 0, blocked: false, ..new });
        of.count = of.count.saturating_add(new.count);
        of.blocked |= new.blocked;
    }
}

/// Lapses that are committed and that no sweep has told of. Its clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Untold(Arc<Mutex<Lapses>>);

impl Untold {
    /// Keeps what was committed.
    pub(super) fn keep(&self, lapses: Lapses) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(lapses);
    }

    /// Moves all of them into what a sweep tells.
    pub(super) fn tell(&self, swept: &mut Swept) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).tell(swept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SubscriptionId = SubscriptionId::from_u128(1);
    const TWO: SubscriptionId = SubscriptionId::from_u128(2);

    #[test]
    fn every_lapse_is_told_once_whoever_found_it() {
        let (untold, mut found) = (Untold::default(), Lapses::default());
        found.add(ONE, 3, 1, Window { room: 2, expired: 0 });
        untold.keep(found);
        let mut found = Lapses::default();
        found.add(ONE, 0, 1, Window { room: 2, expired: 1 });
        found.add(TWO, 1, 1, Window { room: 2, expired: 0 });
        untold.keep(found);
        let mut swept = Swept::default();
        untold.tell(&mut swept);
        assert_eq!(swept.lapsed, 4);
        let expired = |subscription_id, count, blocked| ExpiredDeliveries { subscription_id, count, blocked };
        assert_eq!(swept.expired, [expired(ONE, 2, true), expired(TWO, 1, false)]);
        untold.tell(&mut swept);
        assert_eq!((swept.lapsed, swept.expired.len()), (0, 0));
    }

    #[test]
    fn what_was_undone_is_not_told() {
        let mut found = Lapses::default();
        found.add(ONE, 1, 1, Window { room: 1, expired: 0 });
        found.clear();
        let (untold, mut swept) = (Untold::default(), Swept::default());
        untold.keep(found);
        untold.tell(&mut swept);
        assert_eq!(swept, Swept::default());
    }
}
