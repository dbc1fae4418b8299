//! Actions of one step that go out as one message: an actor's message costs more than a small handler.

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

    /// What has come together.
    pub(super) fn take(&mut self) -> (Option<Runs>, Option<Commit>) {
        let runs = (!self.runs.is_empty()).then(|| Runs(std::mem::take(&mut self.runs)));
        let commit = self.epoch.take().map(|epoch| Commit { epoch, proofs: std::mem::take(&mut self.proofs) });
        (runs, commit)
    }
}
