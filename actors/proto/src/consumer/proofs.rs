//! Committed proofs: oldest first, handed over to the connection once, and again after a loss.
//!
//! A proof leaves memory only with a receipt or with `PROOF_LOST`. When its connection ends before an
//! answer came, it is reported again on the next session. That one `ack` at most is in flight is the
//! [`super::AckQueue`]'s business: proofs wait there for their turn on the wire, so that the next one can
//! go out without asking here.

use std::collections::VecDeque;
use std::time::Instant;

use super::action::Epoch;
use super::mutation::{Mutation, Planted};
use crate::proof::EventProof;
use crate::scalar::{EventId, Generation};

/// The proofs that were handed over and have no answer yet.
#[derive(Debug, Clone, Copy)]
struct Handed {
    epoch: Epoch,
    count: usize,
    /// Since when the oldest of them has been the next to be answered.
    since: Instant,
}

/// Every committed and unconfirmed proof.
#[derive(Debug, Clone)]
pub(super) struct Proofs {
    // Oldest committed first; the first ones of them are handed over.
    queue: VecDeque<EventProof>,
    handed: Option<Handed>,
    // PROOF_INVALID: never confirmed, never reported again, part of the final report.
    refused: Vec<EventProof>,
    planted: Planted,
}

impl Proofs {
    pub(super) const fn new(planted: Planted) -> Self {
        Self { queue: VecDeque::new(), handed: None, refused: Vec::new(), planted }
    }

    /// Takes the proof of an event whose handler said ok.
    pub(super) fn commit(&mut self, proof: EventProof) {
        if self.planted.is(Mutation::NewestProofFirst) && self.handed.is_none() {
            return self.queue.push_front(proof);
        }
        self.queue.push_back(proof);
        if self.planted.is(Mutation::HandedOverTwice) {
            self.handed = None;
        }
    }

    /// The next proof to hand over to this connection, if there is one. Answers come in the same order.
    pub(super) fn hand_over(&mut self, epoch: Epoch, now: Instant) -> Option<EventProof> {
        let handed = self.handed.map_or(0, |handed| handed.count);
        let proof = self.queue.get(handed)?.clone();
        self.handed.get_or_insert(Handed { epoch, count: 0, since: now }).count += 1;
        Some(proof)
    }

    /// Whether an answer is that to the proof that is the next to be answered.
    pub(super) fn is_due(&self, epoch: Epoch, event_id: EventId, generation: Generation) -> bool {
        let answers = |proof: &EventProof| proof.event_id == event_id && proof.generation == generation;
        self.handed.is_some_and(|handed| handed.epoch == epoch) && self.queue.front().is_some_and(answers)
    }

    /// Whether any proof is handed over.
    pub(super) const fn any_handed(&self) -> bool {
        self.handed.is_some()
    }

    /// Since when an answer has been due.
    pub(super) fn due_since(&self) -> Option<Instant> {
        self.handed.map(|handed| handed.since)
    }

    /// Forgets the proof that was due: it was confirmed or lost.
    pub(super) fn settle(&mut self, now: Instant) {
        self.take_due(now);
    }

    /// Sets the proof that was due aside: the server took it for forged.
    pub(super) fn refuse(&mut self, now: Instant) {
        let refused = self.take_due(now);
        self.refused.extend(refused);
    }

    fn take_due(&mut self, now: Instant) -> Option<EventProof> {
        self.handed = self.handed.filter(|handed| handed.count > 1).map(|handed| Handed {
            count: handed.count - 1,
            since: now,
            ..handed
        });
        self.queue.pop_front()
    }

    /// The connection has ended: what was handed over to it may or may not be confirmed.
    pub(super) fn disconnected(&mut self) {
        if !self.planted.is(Mutation::NoReportAfterLoss) {
            self.handed = None;
        }
    }

    /// Whether nothing is left that can be reported.
    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many are committed and unconfirmed.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.refused.len()
    }

    /// The events of all of them, refused ones last.
    pub(super) fn events(&self) -> impl Iterator<Item = EventId> + '_ {
        self.queue.iter().chain(&self.refused).map(|proof| proof.event_id)
    }

    /// Gives away those that can be reported, oldest first.
    pub(super) fn take(&mut self) -> Vec<EventProof> {
        self.handed = None;
        self.queue.drain(..).collect()
    }

    /// Forgets all of them, at the end of a run.
    pub(super) fn clear(&mut self) {
        self.handed = None;
        self.queue.clear();
        self.refused.clear();
    }
}
