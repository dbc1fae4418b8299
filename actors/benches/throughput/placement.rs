//! Which core the peer runs on and which the contestant.
//!
//! The scheduler may put both on one core in one round and apart in the next, and a wake-up that crosses cores costs more
//! than all that is done for an event. So the cores are named, and the benchmark says what it measured where.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the peer's next connection is served.
static PEER: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy)]
pub(crate) enum Placement {
    /// Peer and contestant share a core: what all the work of an event costs.
    OneCore,
    /// The peer on one, everything of the contestant on the other: what is waited for counts too.
    TwoCores,
}

impl Placement {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneCore => "on one core",
            Self::TwoCores => "on two cores",
        }
    }

    /// Puts this thread, and those it starts, on its core, and the peer on its own from its next connection on.
    pub(crate) fn take(self) {
        PEER.store(
            match self {
                Self::OneCore => 0,
                Self::TwoCores => 1,
            },
            Ordering::Relaxed,
        );
        pin(0);
    }
}

/// The peer's part.
pub(crate) fn take_peer() {
    pin(PEER.load(Ordering::Relaxed));
}

#[cfg(target_os = "linux")]
fn pin(core: usize) {
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::unistd::Pid;
    let mut cores = CpuSet::new();
    // A machine without that core leaves its threads where they are.
    if let Err(error) = cores.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cores)) {
        eprintln!("core {core} can't be named: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(core: usize) {
    eprintln!("core {core} can't be named on this system");
}
