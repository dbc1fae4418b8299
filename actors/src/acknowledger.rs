//! `Acknowledger`: the queue of committed proofs, one in flight. It carries proofs; it knows no policy.
//!
//! The machine hands over one proof at a time and keeps every proof until it is settled, so nothing is lost with this
//! actor. Its deadline only catches a connection that never answers, which would otherwise be silence.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use actix::WeakRecipient;
use actix::prelude::*;
use perilune_proto::EventProof;
use perilune_proto::consumer::{AckAnswer, Epoch};
use perilune_proto::limits::CONTROL_REQUEST_TIMEOUT;
use perilune_proto::scalar::{EventId, Generation};

use crate::clock::now;
use crate::connection::SendAck;
use crate::custody::ExitGuard;
use crate::timer::Timer;

/// Longer than a connection lets a request wait: only a connection that does not work at all exceeds it.
const DEADLINE: Duration = CONTROL_REQUEST_TIMEOUT.saturating_add(Duration::from_secs(5));

/// Carries proofs to the connection, one at a time. One a subscription.
pub(crate) struct Acknowledger {
    attached: Option<(Epoch, Recipient<SendAck>)>,
    /// Committed and unsent, oldest first. Bounded by the machine, which keeps one in flight.
    unsent: VecDeque<EventProof>,
    /// The proof in flight, by when it has to be answered.
    in_flight: Option<Instant>,
    deadline: Timer,
    up: WeakRecipient<AckAnswered>,
    _exit: ExitGuard,
}

impl Acknowledger {
    pub(crate) fn new(up: WeakRecipient<AckAnswered>, exit: ExitGuard) -> Self {
        Self { attached: None, unsent: VecDeque::new(), in_flight: None, deadline: Timer::default(), up, _exit: exit }
    }

    fn send_next(&mut self, ctx: &mut Context<Self>) {
        let Some((epoch, connection)) = &self.attached else {
            return;
        };
        if self.in_flight.is_some() {
            return;
        }
        let Some(proof) = self.unsent.pop_front() else {
            return;
        };
        let (epoch, sent) = (*epoch, now());
        let due = sent + DEADLINE;
        let (event_id, generation) = (proof.event_id, proof.generation);
        let asked = connection.send(SendAck { epoch, proof }).into_actor(self);
        self.in_flight = Some(due);
        self.deadline.arm(Some(due), ctx, Self::due);
        ctx.spawn(asked.map(move |answer, actor, ctx| {
            actor.answered(Flight { epoch, event_id, generation, sent }, answer, ctx);
        }));
    }

    fn answered(&mut self, flight: Flight, answer: Result<Option<AckAnswer>, MailboxError>, ctx: &mut Context<Self>) {
        if self.attached.as_ref().is_none_or(|(epoch, _)| *epoch != flight.epoch) {
            // Late: the machine reports this proof again on the connection that came after.
            return;
        }
        self.in_flight = None;
        match answer {
            Ok(Some(answer)) => {
                if let Some(up) = self.up.upgrade() {
                    up.do_send(AckAnswered {
                        epoch: flight.epoch,
                        event_id: flight.event_id,
                        generation: flight.generation,
                        answer,
                        took: now().saturating_duration_since(flight.sent),
                    });
                }
                self.send_next(ctx);
            }
            // The connection is over, or gone: that is told by itself.
            Ok(None) | Err(_) => self.attached = None,
        }
    }

    fn due(&mut self, ctx: &mut Context<Self>) {
        self.deadline.fired();
        match self.in_flight {
            // Neither answered nor over: the exit guard tells, and the machine starts afresh.
            Some(due) if due <= now() => ctx.stop(),
            due => self.deadline.arm(due, ctx, Self::due),
        }
    }
}

/// The proof in flight, without its secret.
#[derive(Clone, Copy)]
struct Flight {
    epoch: Epoch,
    event_id: EventId,
    generation: Generation,
    sent: Instant,
}

impl Actor for Acknowledger {
    type Context = Context<Self>;
}

/// To [`Acknowledger`]: from now on carry proofs to this connection. What it had for an earlier one is forgotten; the
/// machine commits it again.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Attach {
    /// Which connection.
    pub epoch: Epoch,
    /// Who sends the acknowledgements.
    pub connection: Recipient<SendAck>,
}

impl Handler<Attach> for Acknowledger {
    type Result = ();

    fn handle(&mut self, message: Attach, _ctx: &mut Context<Self>) {
        self.attached = Some((message.epoch, message.connection));
        self.unsent.clear();
        self.in_flight = None;
    }
}

/// To [`Acknowledger`]: confirm a delivery. Answered by [`AckAnswered`], unless the connection ends first.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Commit {
    /// On which connection; for another one than the attached it is dropped.
    pub epoch: Epoch,
    /// What confirms the delivery.
    pub proof: EventProof,
}

impl Handler<Commit> for Acknowledger {
    type Result = ();

    fn handle(&mut self, message: Commit, ctx: &mut Context<Self>) {
        if self.attached.as_ref().is_some_and(|(epoch, _)| *epoch == message.epoch) {
            self.unsent.push_back(message.proof);
            self.send_next(ctx);
        }
    }
}

/// From [`Acknowledger`] to its subscription: what the platform said to a proof.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct AckAnswered {
    /// On which connection.
    pub epoch: Epoch,
    /// The proof's event.
    pub event_id: EventId,
    /// The proof's generation.
    pub generation: Generation,
    /// What the platform said.
    pub answer: AckAnswer,
    /// From the sending to the answer.
    pub took: Duration,
}
