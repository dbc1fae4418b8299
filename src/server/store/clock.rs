//! The clocks of the stores whose database has none of its own.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use perilune_proto::lease::Moment;

/// The clock of an embedded database. A database server has its own and asks none of this.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The steady time that judges leases, backoff, replays and idempotency keys: microseconds since 1970,
    /// never backwards while the process runs, however the host's clock is set.
    fn now(&self) -> Moment;

    /// The calendar's time, for what people read and for what was promised by the calendar: `occurred_at`,
    /// expiry and age. Microseconds since 1970.
    fn wall(&self) -> Moment;
}

/// The host's clock.
///
/// Its steady time is the wall time at its making plus what the monotonic clock counted since, so that a host
/// whose clock jumps ends no lease early.
#[derive(Debug, Clone, Copy)]
pub struct HostClock {
    epoch: Moment,
    made: Instant,
}

impl HostClock {
    /// Reads the host's clock and counts from there.
    #[must_use]
    pub fn new() -> Self {
        Self { epoch: host_wall(), made: Instant::now() }
    }
}

impl Default for HostClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for HostClock {
    fn now(&self) -> Moment {
        self.epoch.plus(self.made.elapsed())
    }

    fn wall(&self) -> Moment {
        host_wall()
    }
}

fn host_wall() -> Moment {
    // A host that believes it is before 1970 counts from there.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(0).plus(since_epoch)
}

/// A clock that moves when it is told to, for tests.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at 2026-01-01T00:00:00Z.
    #[must_use]
    pub const fn new() -> Self {
        Self { micros: AtomicU64::new(1_767_225_600_000_000) }
    }

    /// Moves both of its times forward.
    pub fn advance(&self, by: Duration) {
        self.micros.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment(self.micros.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Moment {
        self.now()
    }
}
