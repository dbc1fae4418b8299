//! Exit guards: who died, how, and the machine it leaves behind.
//!
//! actix drops an actor that panics and tells nobody. Each guard is a field of its actor, so its drop runs whatever
//! ended the actor, and speaks for it.

use std::ops::Deref;
use std::time::Instant;

use actix::WeakRecipient;
use actix::prelude::*;
use perilune_proto::consumer::{Consumer, Input, Role};

use crate::acknowledger::Acknowledger;
use crate::clock::now;
use crate::connection::Connection;
use crate::handler_pool::HandlerPool;
use crate::heartbeat::Heartbeat;
use crate::subscription::Subscription;
use crate::supervisor::{ConsumerId, Exited};

/// Numbers the children of one subscription, so that late news of one that was replaced is told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life(pub u64);

/// How an actor came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It panicked.
    Panicked,
    /// It was dropped: its arbiter was stopped, or it stopped itself.
    Dropped,
}

impl Exit {
    /// To be asked in a drop.
    fn now() -> Self {
        if std::thread::panicking() { Self::Panicked } else { Self::Dropped }
    }
}

/// From a child's [`ExitGuard`] to its subscription: the child is gone.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct ChildExited {
    /// Which child.
    pub role: Role,
    /// Which of those that had the role.
    pub life: Life,
    /// How it ended.
    pub exit: Exit,
}

/// Tells the subscription when its child is gone.
pub(crate) struct ExitGuard {
    role: Role,
    life: Life,
    to: WeakRecipient<ChildExited>,
}

impl ExitGuard {
    pub(crate) const fn new(role: Role, life: Life, to: WeakRecipient<ChildExited>) -> Self {
        Self { role, life, to }
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        // A subscription that is gone needs no news; it took its children along.
        if let Some(to) = self.to.upgrade() {
            to.do_send(ChildExited { role: self.role, life: self.life, exit: Exit::now() });
        }
    }
}

/// To an actor, from whoever owned it: end at once. Sent by [`Owned`] alone.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct End;

/// The owner's address of an actor, which ends with it.
///
/// Dropping the last address is not enough: actix keeps an actor that has a timer or a stream, so a heartbeat would
/// beat on without its subscription.
pub(crate) struct Owned<A>(Addr<A>)
where
    A: Actor<Context = Context<A>> + Handler<End>;

impl<A: Actor<Context = Context<A>> + Handler<End>> From<Addr<A>> for Owned<A> {
    fn from(actor: Addr<A>) -> Self {
        Self(actor)
    }
}

impl<A: Actor<Context = Context<A>> + Handler<End>> Deref for Owned<A> {
    type Target = Addr<A>;

    fn deref(&self) -> &Addr<A> {
        &self.0
    }
}

impl<A: Actor<Context = Context<A>> + Handler<End>> Drop for Owned<A> {
    fn drop(&mut self) {
        self.0.do_send(End);
    }
}

macro_rules! ends_with_its_owner {
    ($($actor:ty),+) => {$(
        impl Handler<End> for $actor {
            type Result = ();

            fn handle(&mut self, _message: End, ctx: &mut Context<Self>) {
                ctx.stop();
            }
        }
    )+};
}

ends_with_its_owner!(Connection, Heartbeat, Acknowledger, HandlerPool, Subscription);

/// Keeps a subscription's machine, and carries it to the supervisor when the subscription dies.
pub(crate) struct Custody {
    machine: Option<Box<Consumer>>,
    /// Set while the machine works: a panic then comes from inside it, and only its proofs are worth keeping.
    busy: bool,
    id: ConsumerId,
    /// Strong: it keeps the supervisor alive for as long as there is a machine to inherit.
    to: Addr<crate::Supervisor>,
}

/// A machine without its shell.
#[derive(Debug)]
pub struct Estate {
    /// The machine, with every committed proof.
    pub(crate) machine: Box<Consumer>,
    /// Whether its shell died while the machine was at work.
    pub(crate) interrupted: bool,
    /// Keeps the supervisor until it has it.
    pub(crate) _to: Addr<crate::Supervisor>,
}

impl Custody {
    pub(crate) const fn new(machine: Box<Consumer>, id: ConsumerId, to: Addr<crate::Supervisor>) -> Self {
        Self { machine: Some(machine), busy: false, id, to }
    }

    /// Lets the machine hear an input.
    pub(crate) fn hear(&mut self, input: Input) {
        self.hear_at(input, now());
    }

    /// Lets the machine hear one of the inputs that came at this moment together.
    pub(crate) fn hear_at(&mut self, input: Input, now: Instant) {
        self.busy = true;
        if let Some(machine) = &mut self.machine {
            machine.handle(input, now);
        }
        self.busy = false;
    }

    /// Lets something else be done with the machine; nothing after the end.
    pub(crate) fn with<T>(&mut self, look: impl FnOnce(&mut Consumer) -> Option<T>) -> Option<T> {
        self.machine.as_deref_mut().and_then(look)
    }

    /// Panics as the machine would in the middle of a step.
    #[cfg(test)]
    pub(crate) fn interrupt(&mut self) {
        self.busy = true;
        panic!("asked to, in the middle of a step");
    }

    /// Ends the custody: the run is over, there is nothing to inherit.
    pub(crate) fn release(&mut self) {
        self.machine = None;
        self.to.do_send(Exited { id: self.id, exit: Exit::Dropped, estate: None });
    }
}

impl Drop for Custody {
    fn drop(&mut self) {
        if let Some(machine) = self.machine.take() {
            let estate = Some(Estate { machine, interrupted: self.busy, _to: self.to.clone() });
            self.to.do_send(Exited { id: self.id, exit: Exit::now(), estate });
        }
    }
}
