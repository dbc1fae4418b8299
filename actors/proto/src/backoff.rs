//! Delays that double, with half-interval jitter.
//!
//! The same rule serves a consumer's reconnects (consumer.md section 4) and the platform's redeliveries
//! (events-v1.md section 5): before attempt *n* (from 1), `d = min(max, min·2^(n-1))`, then a uniform draw
//! from `[d/2, d]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::rng::Rng;

/// The bounds of a doubling delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
}

impl Backoff {
    /// Delays from `min`, doubling up to `max`. A `max` below `min` counts as `min`.
    #[must_use]
    pub const fn new(min: Duration, max: Duration) -> Self {
        let max = if max.as_nanos() < min.as_nanos() { min } else { max };
        Self { min, max }
    }

    /// The first interval.
    #[must_use]
    pub const fn min(&self) -> Duration {
        self.min
    }

    /// What the doubling stops at.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// The interval `d` of an attempt, counted from 1 (0 counts as 1).
    #[must_use]
    pub fn interval(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.min.saturating_mul(factor).min(self.max)
    }

    /// What an attempt may have to wait: `[d/2, d]`.
    #[must_use]
    pub fn range(&self, attempt: u32) -> RangeInclusive<Duration> {
        let interval = self.interval(attempt);
        interval / 2..=interval
    }

    /// Draws an attempt's wait.
    pub fn draw(&self, attempt: u32, rng: &mut Rng) -> Duration {
        rng.duration_within(&self.range(attempt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

    #[test]
    fn the_interval_doubles_up_to_its_bound() {
        let millis: Vec<u128> = (1..=7).map(|n| BACKOFF.interval(n).as_millis()).collect();
        assert_eq!(millis, [200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        for huge in [31, 32, 33, 64, u32::MAX] {
            assert_eq!(BACKOFF.interval(huge), Duration::from_secs(5), "{huge}");
        }
        assert_eq!(BACKOFF.interval(0), BACKOFF.interval(1));
    }

    #[test]
    fn a_draw_lies_in_the_upper_half_and_differs_from_the_next() {
        let mut rng = Rng::new(3);
        let drawn: std::collections::BTreeSet<Duration> = (0..100).map(|_| BACKOFF.draw(2, &mut rng)).collect();
        assert!(drawn.iter().all(|d| (Duration::from_millis(200)..=Duration::from_millis(400)).contains(d)));
        assert!(drawn.len() > 90);
    }

    #[test]
    fn a_maximum_below_the_minimum_counts_as_the_minimum() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::ZERO);
        assert_eq!(backoff.interval(9), Duration::from_secs(1));
    }
}
