//! `Acknowledger`: the queue of committed proofs. It carries proofs; it knows no policy.
//!
//! The machine keeps every proof until it is settled, so nothing is lost with this actor. The connection has a few
//! proofs ahead, of which one is in flight: the next one goes out without a way through the tree. The deadline only
//! catches a connection that never answers, which would otherwise be silence.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use actix::WeakRecipient;
use actix::prelude::*;
use perilune_client::TurnAnswered;
use perilune_proto::EventProof;
use perilune_proto::consumer::Epoch;
use perilune_proto::limits::CONTROL_REQUEST_TIMEOUT;

use crate::clock::now;
use crate::connection::SendAcks;
use crate::custody::ExitGuard;
use crate::timer::Timer;

/// Longer than a connection lets a request wait: only a connection that does not work at all exceeds it.
const DEADLINE: Duration = CONTROL_REQUEST_TIMEOUT.saturating_add(Duration::from_secs(5));
/// Proofs that the connection has at most: what it has, it can send without asking.
const AHEAD: usize = 24;

/// Carries proofs to the connection, in order. One a subscription.
pub(crate) struct Acknowledger {
    attached: Option<Attached>,
    deadline: Timer,
    up: WeakRecipient<AcksAnswered>,
    _exit: ExitGuard,
}

/// The connection that is open, and the proofs for it.
struct Attached {
    epoch: Epoch,
    connection: Recipient<SendAcks>,
    /// Committed and not handed on, oldest first. Bounded by the capacity.
    queue: VecDeque<EventProof>,
    /// How many the connection has.
    ahead: usize,
    /// By when the connection has to answer the oldest of those.
    due: Option<Instant>,
}

impl Acknowledger {
    pub(crate) fn new(up: WeakRecipient<AcksAnswered>, exit: ExitGuard) -> Self {
        Self { attached: None, deadline: Timer::default(), up, _exit: exit }
    }

    fn attached_to(&mut self, epoch: Epoch) -> Option<&mut Attached> {
        self.attached.as_mut().filter(|attached| attached.epoch == epoch)
    }

    /// Lets the connection have more, if it has room.
    fn hand_on(&mut self, ctx: &mut Context<Self>) {
        let Some(attached) = &mut self.attached else { return };
        let count = attached.queue.len().min(AHEAD.saturating_sub(attached.ahead));
        if count > 0 {
            let proofs = attached.queue.drain(..count).collect();
            let answer_to = ctx.address().downgrade().recipient();
            attached.connection.do_send(SendAcks { epoch: attached.epoch, proofs, answer_to });
            attached.ahead += count;
            attached.due.get_or_insert_with(|| now() + DEADLINE);
        }
        self.deadline.arm(attached.due, ctx, Self::due);
    }

    fn due(&mut self, ctx: &mut Context<Self>) {
        self.deadline.fired();
        match self.attached.as_ref().and_then(|attached| attached.due) {
            // Neither answered nor over: the exit guard tells, and the machine starts afresh.
            Some(due) if due <= now() => ctx.stop(),
            due => self.deadline.arm(due, ctx, Self::due),
        }
    }
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
    pub connection: Recipient<SendAcks>,
}

impl Handler<Attach> for Acknowledger {
    type Result = ();

    fn handle(&mut self, message: Attach, _ctx: &mut Context<Self>) {
        let Attach { epoch, connection } = message;
        self.attached = Some(Attached { epoch, connection, queue: VecDeque::new(), ahead: 0, due: None });
    }
}

/// To [`Acknowledger`]: the connection is over; what was for it is forgotten.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Detach;

impl Handler<Detach> for Acknowledger {
    type Result = ();

    fn handle(&mut self, _message: Detach, _ctx: &mut Context<Self>) {
        self.attached = None;
    }
}

/// To [`Acknowledger`]: confirm deliveries, in this order. Each is answered in an [`AcksAnswered`], unless the
/// connection ends first.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Commit {
    /// On which connection; for another one than the attached they are dropped.
    pub epoch: Epoch,
    /// What confirms the deliveries. At most the capacity.
    pub proofs: Vec<EventProof>,
}

impl Handler<Commit> for Acknowledger {
    type Result = ();

    fn handle(&mut self, message: Commit, ctx: &mut Context<Self>) {
        if let Some(attached) = self.attached_to(message.epoch) {
            attached.queue.extend(message.proofs);
            self.hand_on(ctx);
        }
    }
}

/// From `Connection` to [`Acknowledger`], and from there to the subscription: what the platform said to proofs, in the
/// order in which they were handed over.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct AcksAnswered {
    /// On which connection.
    pub epoch: Epoch,
    /// The answers. At most the capacity.
    pub answers: Vec<TurnAnswered>,
}

impl Handler<AcksAnswered> for Acknowledger {
    type Result = ();

    fn handle(&mut self, message: AcksAnswered, ctx: &mut Context<Self>) {
        // Late ones are for nobody: the machine reports these proofs again on the connection that came after.
        let Some(attached) = self.attached_to(message.epoch) else { return };
        attached.ahead = attached.ahead.saturating_sub(message.answers.len());
        attached.due = (attached.ahead > 0).then(|| now() + DEADLINE);
        self.hand_on(ctx);
        if let Some(up) = self.up.upgrade() {
            up.do_send(message);
        }
    }
}
