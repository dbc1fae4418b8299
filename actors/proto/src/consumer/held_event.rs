//! One event that is held: running or committed, with its successor.

use std::sync::Arc;
use std::time::Instant;

use super::action::RunId;
use crate::event::ResultEvent;
use crate::proof::EventProof;
use crate::scalar::EventId;

/// A delivery whose lease has become a local deadline.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) proof: EventProof,
    pub(super) event: Arc<ResultEvent>,
    pub(super) ends: Instant,
}

impl Lease {
    pub(super) const fn event_id(&self) -> EventId {
        self.proof.event_id
    }

    /// A delivery under another id is the newer one: a `seek` begins afresh, and its generations with it.
    pub(super) fn supersedes(&self, delivery: &EventProof) -> bool {
        self.proof.delivery_id != delivery.delivery_id || self.proof.generation > delivery.generation
    }
}

/// Whether a running handler's token knows that its lease has lapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lapse {
    Untold,
    Told,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    Running { run: RunId, ends: Instant, lapse: Lapse },
    Committed,
}

/// An event in its slot. The event itself went to its handler, which alone needs it.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) proof: EventProof,
    pub(super) state: State,
    pub(super) successor: Option<Lease>,
}

impl Held {
    /// When the lease of a run ends that has not been told of it yet.
    pub(super) const fn untold(&self) -> Option<Instant> {
        match self.state {
            State::Running { ends, lapse: Lapse::Untold, .. } => Some(ends),
            _ => None,
        }
    }

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}
