//! The proofs that one connection carries: in the order in which they were handed over, one in flight.

use std::collections::VecDeque;

use super::action::AckAnswer;
use super::cause::CauseCode;
use crate::proof::EventProof;
use crate::scalar::{EventId, Generation};
use crate::wire::ErrorCode;

/// What stands between [`super::Action::Ack`] and the connection: keeps at most one `ack` in flight there
/// (consumer.md section 3).
///
/// A shell has one for each connection, and drops it with the connection: the machine keeps every proof and
/// hands it over again on the next.
#[derive(Debug, Clone, Default)]
pub struct AckQueue {
    unsent: VecDeque<EventProof>,
    in_flight: Option<(EventId, Generation)>,
    over: bool,
}

impl AckQueue {
    /// Takes a proof behind those that are here.
    pub fn push(&mut self, proof: EventProof) {
        if !self.over {
            self.unsent.push_back(proof);
        }
    }

    /// The proof to send now, if none is in flight. It is in flight from here on.
    pub fn send_next(&mut self) -> Option<EventProof> {
        if self.in_flight.is_some() {
            return None;
        }
        let proof = self.unsent.pop_front()?;
        self.in_flight = Some((proof.event_id, proof.generation));
        Some(proof)
    }

    /// The proof in flight was answered, or refused before it was sent: names it. An answer that judges the session
    /// and not the proof is the last one; nothing is sent after it.
    pub fn answered(&mut self, answer: &AckAnswer) -> Option<(EventId, Generation)> {
        if let AckAnswer::Refused(cause) = answer
            && !matches!(cause.code, CauseCode::Error(ErrorCode::ProofInvalid) | CauseCode::Local)
        {
            self.over = true;
            self.unsent.clear();
        }
        self.in_flight.take()
    }

    /// How many are unanswered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.unsent.len() + usize::from(self.in_flight.is_some())
    }

    /// Whether all are answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
