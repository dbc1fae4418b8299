//! A handler thread's place at the queue, and who is sent there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::Notify;

/// Whether a thread has to be made for what was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what was queued may wait for this thread"]
pub(super) enum Hire {
    /// A seat is taken for it: make it.
    Thread,
    /// There is none to make.
    Nobody,
}

/// Whom to send to the queue. Carried out after the lock is released: waking is a system call, and whoever is woken
/// wants the lock.
#[must_use = "what was queued may wait for it"]
pub(super) enum Wake {
    Seat(Arc<Seat>),
    NewThread,
    Nobody,
}

impl Wake {
    pub(super) fn send(self) -> Hire {
        match self {
            Self::Seat(seat) => {
                seat.wake.notify_one();
                Hire::Nobody
            }
            Self::NewThread => Hire::Thread,
            Self::Nobody => Hire::Nobody,
        }
    }
}

/// One handler thread's place.
#[derive(Default)]
pub(super) struct Seat {
    pub(super) wake: Notify,
    pub(super) woken: AtomicBool,
    /// The round in which it took the job that it is at; 0 where it is at none.
    pub(super) round: AtomicU64,
}

impl Seat {
    /// The seat of a thread that is being made.
    pub(super) fn hired() -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(true), ..Self::default() })
    }
}
