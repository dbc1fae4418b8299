//! Proofs that are reported one after the other, and what was answered.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use perilune_proto::consumer::{AckAnswer, AckQueue};
use perilune_proto::proof::EventProof;
use perilune_proto::scalar::{EventId, Generation, MessageId};

use crate::bell::Bell;

/// What the platform said to a proof that was reported with [`Connection::ack_in_turn`](crate::Connection::ack_in_turn).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnAnswered {
    /// The proof's event.
    pub event_id: EventId,
    /// The proof's generation.
    pub generation: Generation,
    /// What was answered. [`AckAnswer::Refused`] with [`CauseCode::Local`](perilune_proto::consumer::CauseCode::Local)
    /// where the proof was not sent, since it is of another subscription or too many requests are unanswered.
    pub answer: AckAnswer,
    /// From the sending to the answer.
    pub took: Duration,
}

/// The proofs that wait for their turn, the one in flight, and the answers that nobody has taken.
#[derive(Default)]
pub(crate) struct Turns {
    queue: RefCell<AckQueue>,
    in_flight: Cell<Option<(MessageId, Instant)>>,
    answers: RefCell<Vec<TurnAnswered>>,
    /// When whoever waits wants to be woken: so many answers, or so few proofs without one.
    enough: Cell<usize>,
    left: Cell<usize>,
    asker: Bell,
}

impl Turns {
    pub(crate) fn push(&self, proof: EventProof) {
        self.queue.borrow_mut().push(proof);
    }

    /// The proof whose turn it is, if none is in flight.
    pub(crate) fn next(&self) -> Option<EventProof> {
        self.queue.borrow_mut().send_next()
    }

    pub(crate) fn sent(&self, id: MessageId, now: Instant) {
        self.in_flight.set(Some((id, now)));
    }

    /// Whether this is the request of the proof in flight.
    pub(crate) fn is_in_flight(&self, id: MessageId) -> bool {
        self.in_flight.get().is_some_and(|(in_flight, _)| in_flight == id)
    }

    /// The proof in flight was answered, or refused before it was sent.
    pub(crate) fn answered(&self, answer: AckAnswer, now: Instant) {
        let took = self.in_flight.take().map_or(Duration::ZERO, |(_, sent)| now.saturating_duration_since(sent));
        if let Some((event_id, generation)) = self.queue.borrow_mut().answered(&answer) {
            self.answers.borrow_mut().push(TurnAnswered { event_id, generation, answer, took });
        }
        if self.is_due() {
            self.asker.ring();
        }
    }

    pub(crate) fn unanswered(&self) -> usize {
        self.queue.borrow().len()
    }

    fn is_due(&self) -> bool {
        let answers = self.answers.borrow().len();
        answers >= self.enough.get() || (answers > 0 && self.unanswered() <= self.left.get())
    }

    /// Waits until `enough` answers can be taken, or some can and at most `left` are still to come, or `over`.
    pub(crate) async fn until_due(&self, enough: usize, left: usize, over: impl Fn() -> bool) {
        self.enough.set(enough.max(1));
        self.left.set(left);
        self.asker.until(|| (self.is_due() || over()).then_some(())).await;
    }

    pub(crate) fn take(&self) -> Vec<TurnAnswered> {
        std::mem::take(&mut *self.answers.borrow_mut())
    }

    /// No more answers come; those that have come can still be taken.
    pub(crate) fn end(&self) {
        self.asker.ring();
    }
}
