//! What happened, in order: the platform's facts and the watched handler's.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use perilune_proto::scalar::{EventId, Generation};
use tokio::sync::watch;

use super::assertion::Unmet;

/// Records kept; a test that makes more has lost count, and every assertion says so.
pub(crate) const RECORDS_MAX: usize = 100_000;

/// One fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// An event was published.
    Published {
        /// Which.
        event_id: EventId,
    },
    /// A handshake was refused by the script.
    HandshakeRefused {
        /// With this HTTP status.
        status: u16,
    },
    /// A session was welcomed.
    SessionOpened {
        /// The `register`'s capacity.
        capacity: u8,
    },
    /// A connection is over, whoever ended it.
    ConnectionEnded,
    /// A delivery was leased for a session; whether it arrives is the script's business.
    Delivered {
        /// Its event.
        event_id: EventId,
        /// Which lease.
        generation: Generation,
    },
    /// A proof was judged.
    Judged {
        /// Its event.
        event_id: EventId,
        /// The generation that it proves.
        generation: Generation,
        /// How.
        verdict: Verdict,
    },
    /// The watched handler was called.
    HandlerCalled {
        /// With this event.
        event_id: EventId,
        /// Of this lease.
        generation: Generation,
    },
    /// A call of the watched handler ended.
    HandlerEnded {
        /// With this event.
        event_id: EventId,
        /// Of this lease.
        generation: Generation,
        /// How.
        outcome: Outcome,
    },
}

/// What the platform made of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It confirms.
    Confirmed,
    /// The same proof had confirmed before.
    Replayed,
    /// A newer generation exists.
    Lost,
    /// The secret is wrong, or the generation was never leased.
    Invalid,
}

/// How a call of a handler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// With `Ok`.
    Ok,
    /// With an error.
    Error,
    /// It panicked, or was dropped before it ended.
    Dropped,
}

/// What happened, in order. Clones are the same journal; usable from any thread.
#[derive(Clone)]
pub struct Journal(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    grown: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    records: Vec<Record>,
    overflowed: bool,
    unplayed: usize,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), grown: watch::Sender::new(0) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self, record: Record) {
        let count = {
            let mut state = self.state();
            if state.records.len() < RECORDS_MAX {
                state.records.push(record);
            } else {
                state.overflowed = true;
            }
            state.records.len()
        };
        self.0.grown.send_replace(count);
    }

    pub(crate) fn set_unplayed(&self, faults: usize) {
        self.state().unplayed = faults;
    }

    /// The records so far, the oldest first; at most 100,000.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.state().records.clone()
    }

    /// How many faults of the script are still to come.
    #[must_use]
    pub fn unplayed_faults(&self) -> usize {
        self.state().unplayed
    }

    pub(crate) fn overflowed(&self) -> bool {
        self.state().overflowed
    }

    /// Waits until something holds of the records, at most `limit` by the runtime's clock.
    ///
    /// # Errors
    /// [`Unmet`] names `what` did not come, with the records.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&[Record]) -> bool,
    ) -> Result<(), Unmet> {
        let mut grown = self.0.grown.subscribe();
        let waits = async {
            loop {
                grown.borrow_and_update();
                if holds(&self.state().records) {
                    return;
                }
                // The sender lives as long as this journal.
                if grown.changed().await.is_err() {
                    return;
                }
            }
        };
        match tokio::time::timeout(limit, waits).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Unmet::new(format!("{what}, within {limit:?}"), &self.records())),
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.records()).finish()
    }
}
