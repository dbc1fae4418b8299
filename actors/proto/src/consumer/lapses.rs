//! When leases lapse, in order: so that an input costs the same however much is held.

use std::collections::BTreeMap;
use std::time::Instant;

/// The ends of all leases of which anybody must hear, with how many share each. Counts nothing twice: whoever holds
/// such a lease adds its end once, and removes it when the lease is let go or its lapse told.
#[derive(Debug, Clone, Default)]
pub(super) struct Lapses(BTreeMap<Instant, usize>);

impl Lapses {
    /// A lease is held from here on.
    pub(super) fn add(&mut self, ends: Instant) {
        *self.0.entry(ends).or_insert(0) += 1;
    }

    /// A lease is let go, or nobody has to hear of it any more.
    pub(super) fn remove(&mut self, ends: Instant) {
        if let Some(sharing) = self.0.get_mut(&ends) {
            *sharing -= 1;
            if *sharing == 0 {
                self.0.remove(&ends);
            }
        }
    }

    /// The next one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first_key_value().map(|(ends, _)| *ends)
    }

    /// Whether one is due.
    pub(super) fn any_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|next| next <= now)
    }
}
