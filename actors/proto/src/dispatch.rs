//! Who gets the next delivery.
//!
//! Source: events-v1.md section 5: free credit decides, so that no session hoards and a slow one
//! starves nobody. Ties go to the older session (settled.md).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Hands deliveries out by free credit.
///
/// A session's credit is its capacity less its unconfirmed, unlapsed deliveries. Sessions are known by
/// their place in the list that they were given in, oldest first.
#[derive(Debug, Clone)]
pub struct Credits {
    // The greatest is the session with the most credit, among equals the one with the lowest place.
    free: BinaryHeap<(u32, Reverse<usize>)>,
    total: u64,
}

impl Credits {
    /// Takes the free credit of every session, oldest session first.
    pub fn new(free: impl IntoIterator<Item = u32>) -> Self {
        let free: BinaryHeap<_> = free
            .into_iter()
            .enumerate()
            .filter(|&(_, credit)| credit > 0)
            .map(|(place, credit)| (credit, Reverse(place)))
            .collect();
        let total = free.iter().map(|&(credit, _)| u64::from(credit)).sum();
        Self { free, total }
    }

    /// How many deliveries all sessions together can still take.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Spends one credit and names the session that gets the next delivery; `None` when no session has
    /// credit left.
    #[must_use]
    pub fn spend(&mut self) -> Option<usize> {
        let (credit, place) = self.free.pop()?;
        self.total -= 1;
        if credit > 1 {
            self.free.push((credit - 1, place));
        }
        Some(place.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(free: &[u32]) -> Vec<usize> {
        let mut credits = Credits::new(free.iter().copied());
        std::iter::from_fn(|| credits.spend()).collect()
    }

    #[test]
    fn the_most_free_session_is_next_and_ties_go_to_the_older() {
        assert_eq!(order(&[1, 3, 2]), [1, 1, 2, 0, 1, 2]);
        assert_eq!(order(&[2, 2]), [0, 1, 0, 1]);
    }

    #[test]
    fn nobody_gets_more_than_its_credit() {
        let mut credits = Credits::new([0, 2, 0, 1]);
        assert_eq!(credits.total(), 3);
        let places: Vec<_> = std::iter::from_fn(|| credits.spend()).collect();
        assert_eq!(places, [1, 1, 3]);
        assert_eq!(credits.total(), 0);
    }

    #[test]
    fn a_burst_is_split_evenly_between_equal_sessions() {
        let places = order(&[500, 500]);
        assert_eq!(places.iter().filter(|&&place| place == 0).count(), 500);
        assert!(places.chunks(2).all(|pair| pair == [0, 1]));
    }
}
