//! Moments to come, whatever the wait.

use std::time::{Duration, Instant};

/// Nobody waits longer: some 30 years.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The moment `wait` after `now`, and of a longer wait the moment some 30 years after it.
///
/// An [`Instant`] can't hold every sum, and `+` panics there.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use perilune_proto::instant::later;
///
/// let now = Instant::now();
/// assert_eq!(later(now, Duration::from_secs(30)), now + Duration::from_secs(30));
/// assert!(later(now, Duration::MAX) > now + Duration::from_secs(900_000_000));
/// ```
#[must_use]
pub fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait.min(FAR)).unwrap_or(now)
}
