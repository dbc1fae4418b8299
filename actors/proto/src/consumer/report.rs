//! How a run ended.
//!
//! Source: consumer.md section 5, settled.md.

use super::action::Role;
use super::cause::DisconnectCause;
use crate::scalar::EventId;

/// How a run ended, and what it had to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishReport {
    /// What ended it.
    pub end: EndReason,
    /// Events whose handler said ok and whose proof is unconfirmed, oldest first. The platform will
    /// deliver them again; the inbox will recognise them.
    pub committed: Vec<EventId>,
    /// Events whose handler still runs, oldest first. It can't be killed and its effects are not claimed
    /// undone.
    pub running: Vec<EventId>,
}

impl FinishReport {
    /// Events known here and unconfirmed: the committed and the running ones.
    pub fn unconfirmed(&self) -> impl Iterator<Item = EventId> + '_ {
        self.committed.iter().chain(&self.running).copied()
    }

    /// Whether nothing was left: an end that is `Ok` after a stop.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.committed.is_empty() && self.running.is_empty()
    }
}

/// What ended a run. Where a stop and an error come together, the stop is named only if nothing was left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// It was asked to stop. With something left: `ShutdownTimeout`.
    Stopped,
    /// The configured number of events was confirmed. With something left: `ShutdownTimeout`.
    MaxEvents,
    /// A permanent cause.
    Permanent(DisconnectCause),
    /// A child crashed more often than the budget allows.
    ChildLost(Role),
    /// The subscription itself crashed more often than the budget allows.
    ShellLost,
}
