//! Committed proofs: oldest first, one in flight, reported again after a loss.
//!
//! A proof leaves memory only with a receipt or with `PROOF_LOST`. When its connection ends before an
//! answer came, it is the next one to be reported on the next session.

use std::collections::VecDeque;
use std::time::Instant;

use super::action::Epoch;
use super::mutation::{Mutation, Planted};
use crate::proof::EventProof;
use crate::scalar::{EventId, Generation};

/// The proof that was handed out, and has no answer yet.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    epoch: Epoch,
    since: Instant,
}

/// Every committed and unconfirmed proof.
#[derive(Debug, Clone)]
pub(super) struct Proofs {
    // Oldest committed first; the front one is in flight if any is.
    queue: VecDeque<EventProof>,
    in_flight: Option<InFlight>,
    // PROOF_INVALID: never confirmed, never reported again, part of the final report.
    refused: Vec<EventProof>,
    planted: Planted,
}

impl Proofs {
    pub(super) const fn new(planted: Planted) -> Self {
        Self { queue: VecDeque::new(), in_flight: None, refused: Vec::new(), planted }
    }

    /// Takes the proof of an event whose handler said ok.
    pub(super) fn commit(&mut self, proof: EventProof) {
        if self.planted.is(Mutation::NewestProofFirst) && self.in_flight.is_none() {
            return self.queue.push_front(proof);
        }
        self.queue.push_back(proof);
        if self.planted.is(Mutation::TwoAcksInFlight) {
            self.in_flight = None;
        }
    }

    /// The proof to report now on this connection, if none is in flight there. It is in flight from here on.
    pub(super) fn report(&mut self, epoch: Epoch, now: Instant) -> Option<EventProof> {
        if self.in_flight.is_some() {
            return None;
        }
        let proof = self.queue.front()?.clone();
        self.in_flight = Some(InFlight { epoch, since: now });
        Some(proof)
    }

    /// Whether an answer is that to the proof in flight.
    pub(super) fn is_in_flight(&self, epoch: Epoch, event_id: EventId, generation: Generation) -> bool {
        let answers = |proof: &EventProof| proof.event_id == event_id && proof.generation == generation;
        self.in_flight.is_some_and(|sent| sent.epoch == epoch) && self.queue.front().is_some_and(answers)
    }

    /// Whether any proof is in flight.
    pub(super) const fn has_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Since when a proof has been in flight.
    pub(super) fn in_flight_since(&self) -> Option<Instant> {
        self.in_flight.map(|sent| sent.since)
    }

    /// Forgets the proof in flight: it was confirmed or lost.
    pub(super) fn settle(&mut self) {
        self.in_flight = None;
        self.queue.pop_front();
    }

    /// Sets the proof in flight aside: the server took it for forged.
    pub(super) fn refuse(&mut self) {
        self.in_flight = None;
        self.refused.extend(self.queue.pop_front());
    }

    /// The connection has ended: what was in flight there may or may not be confirmed.
    pub(super) fn disconnected(&mut self) {
        if !self.planted.is(Mutation::NoReportAfterLoss) {
            self.in_flight = None;
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
        self.in_flight = None;
        self.queue.drain(..).collect()
    }

    /// Forgets all of them, at the end of a run.
    pub(super) fn clear(&mut self) {
        self.in_flight = None;
        self.queue.clear();
        self.refused.clear();
    }
}
