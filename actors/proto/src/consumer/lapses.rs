//! When leases lapse, in order: so that an input costs the same however much is held.

use std::collections::VecDeque;
use std::time::Instant;

/// The ends of all leases of which anybody must hear, with how many share each. Counts nothing twice: whoever holds
/// such a lease adds its end once, and removes it when the lease is let go or its lapse told.
///
/// Sorted. What comes last nearly always ends last, and what goes ends soonest, so that little is moved about.
#[derive(Debug, Clone, Default)]
pub(super) struct Lapses(VecDeque<(Instant, usize)>);

impl Lapses {
    /// A lease is held from here on.
    pub(super) fn add(&mut self, ends: Instant) {
        match self.place(ends) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (ends, 1)),
        }
    }

    /// A lease is let go, or nobody has to hear of it any more.
    pub(super) fn remove(&mut self, ends: Instant) {
        if let Ok(at) = self.place(ends) {
            let sharing = &mut self.0[at].1;
            *sharing -= 1;
            if *sharing == 0 {
                self.0.remove(at);
            }
        }
    }

    /// Where this end is, or belongs.
    fn place(&self, ends: Instant) -> Result<usize, usize> {
        self.0.binary_search_by_key(&ends, |(ends, _)| *ends)
    }

    /// The next one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.front().map(|(ends, _)| *ends)
    }

    /// Whether one is due.
    pub(super) fn any_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|next| next <= now)
    }
}
