//! A seeded generator, so that the core draws without randomness of its own.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014): one 64-bit state, one addition and three mixing steps a draw,
//! a full period of 2^64. It spreads reconnects and drives the simulator. It is not for secrets or ids.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A generator that draws the same values from the same seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// Seeds a generator. Every seed is as good as another.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 where `bound` is 0. Its bias is below `bound` / 2^64.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: the multiply-shift of Lemire, 2019, without its rejection.
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// A number of the range, both ends included. An empty range gives its start.
    pub const fn within(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let span = range.end().saturating_sub(*range.start());
        match span.checked_add(1) {
            Some(bound) => *range.start() + self.below(bound),
            None => self.next_u64(),
        }
    }

    /// A duration of the range, both ends included, to the nanosecond.
    pub fn duration_within(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let nanos = |d: &Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.within(&(nanos(range.start())..=nanos(range.end()))))
    }

    /// Whether something with a chance of `percent` in 100 happens.
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A generator of its own, so that one part's draws do not shift another's.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        // Reference values of SplitMix64 for the seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_both_ends() {
        let mut rng = Rng::new(7);
        let drawn: std::collections::BTreeSet<u64> = (0..1_000).map(|_| rng.within(&(3..=6))).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!(rng.within(&(9..=9)), 9);
        assert_eq!(rng.below(0), 0);
        rng.within(&(0..=u64::MAX));
    }

    #[test]
    fn durations_are_spread_evenly_over_their_range() {
        let mut rng = Rng::new(11);
        let range = Duration::from_millis(100)..=Duration::from_millis(200);
        let mut buckets = [0_u32; 10];
        for _ in 0..10_000 {
            let drawn = rng.duration_within(&range);
            assert!(range.contains(&drawn));
            let tenth = (drawn - *range.start()).as_nanos() / 10_000_001;
            buckets[usize::try_from(tenth).expect("ten buckets")] += 1;
        }
        assert!(buckets.iter().all(|&n| (850..1_150).contains(&n)), "{buckets:?}");
    }
}
