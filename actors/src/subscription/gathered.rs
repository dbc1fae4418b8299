//! What comes together in one step: an actor's message costs more than a small handler, and a machine's input more
//! than a number.

use std::num::NonZeroU64;

use perilune_proto::EventProof;
use perilune_proto::consumer::{Action, Epoch};

use crate::acknowledger::Commit;
use crate::handler_pool::{Run, Runs};

/// The starts and proofs of one step, in order. Bounded by the machine's slots.
#[derive(Default)]
pub(super) struct Gathered {
    runs: Vec<Run>,
    proofs: Vec<EventProof>,
    /// On which connection; a step knows one.
    epoch: Option<Epoch>,
    /// Notices that nobody took.
    dropped: u64,
}

impl Gathered {
    /// Takes an action in that can wait for the others of its kind, or gives it back.
    pub(super) fn join(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::Start { run, event, generation, lease_ends } => {
                self.runs.push(Run { run, event, generation, lease_until: lease_ends });
                None
            }
            Action::Ack { epoch, proof } => {
                self.epoch = Some(epoch);
                self.proofs.push(proof);
                None
            }
            action => Some(action),
        }
    }

    /// Counts a notice that was dropped.
    pub(super) fn notice_dropped(&mut self) {
        self.dropped += 1;
    }

    /// How many notices were dropped, if any were.
    pub(super) fn take_dropped(&mut self) -> Option<NonZeroU64> {
        NonZeroU64::new(std::mem::take(&mut self.dropped))
    }

    /// The messages that have come together.
    pub(super) fn take(&mut self) -> (Option<Runs>, Option<Commit>) {
        let runs = (!self.runs.is_empty()).then(|| Runs(std::mem::take(&mut self.runs)));
        let commit = self.epoch.take().map(|epoch| Commit { epoch, proofs: std::mem::take(&mut self.proofs) });
        (runs, commit)
    }
}
