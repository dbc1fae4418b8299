//! The relay: an actor that sends what has been committed.
//!
//! It decides when to look and how many to take, and runs nothing itself: each claim and each message is a task of its
//! own, whose end is a message to the actor. User code (the [`Sender`]) runs in those tasks, contained. The actor keeps
//! count of *slots*; nothing else bounds it, and nothing else needs to.
//!
//! | message | from | does |
//! | --- | --- | --- |
//! | `Wake` | a writer, the timer | looks for due rows, unless it is looking or has no slot free |
//! | `Claimed` | the claim's task | starts one task a row |
//! | `Ended` | a row's task | frees its slot, looks again |
//! | `Drain` | the handle | takes nothing new; answers when the last slot is free |

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use actix::{
    Actor, ActorContext as _, Addr, AsyncContext as _, Context, Handler, Message as ActixMessage, SpawnHandle,
};
use sqlx::Pool;
use tokio::sync::{oneshot, watch};

use super::message::Outgoing;
use super::sender::Sender;
use super::store::OutboxStore;
use super::{Outbox, OutboxError};
use crate::sql::{SqlError, Writer};

mod options;
mod run;

pub use options::{RelayConfigError, RelayOptions};

use run::Desk;

/// How often rows that a writer left behind are looked for, and the lag is measured.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);

/// A relay actor: sends an outbox's messages through a [`Sender`]. Made by [`Relay::start`].
pub struct Relay<DB: OutboxStore, S: Sender> {
    desk: Rc<Desk<DB, S>>,
    options: RelayOptions,
    /// Rows that are being sent.
    busy: u32,
    /// A claim is under way; whoever wakes the relay meanwhile makes it look once more.
    looking: Looking,
    next_look: Option<SpawnHandle>,
    drained: Vec<oneshot::Sender<()>>,
    /// Dropped with the actor, whatever ends it.
    _alive: watch::Sender<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looking {
    No,
    Yes,
    Again,
}

/// A running relay. Dropping it leaves the relay running; the actor ends with its arbiter or by [`RelayHandle::drain`].
pub struct RelayHandle {
    wake: actix::Recipient<Wake>,
    drain: actix::Recipient<Drain>,
    alive: watch::Receiver<()>,
}

impl<DB: OutboxStore, S: Sender> Relay<DB, S> {
    /// Starts a relay on this arbiter, where the pool should have been opened, too.
    ///
    /// # Errors
    /// [`OutboxError::NoRuntime`] outside an actix system.
    pub fn start(
        outbox: &Outbox<DB>,
        pool: Pool<DB>,
        sender: S,
        options: RelayOptions,
    ) -> Result<RelayHandle, OutboxError> {
        let writer = Writer::new(pool)?;
        let desk = Rc::new(Desk::new(outbox.clone(), writer, sender, options));
        let (here, alive) = watch::channel(());
        let relay = Actor::start(Self {
            desk,
            options,
            busy: 0,
            looking: Looking::No,
            next_look: None,
            drained: Vec::new(),
            _alive: here,
        });
        Ok(RelayHandle { wake: relay.clone().recipient(), drain: relay.recipient(), alive })
    }

    fn look(&mut self, ctx: &mut Context<Self>) {
        if !self.drained.is_empty() {
            return;
        }
        let free = self.options.in_flight.saturating_sub(self.busy);
        match self.looking {
            Looking::No if free > 0 => {}
            // Whoever frees a slot looks again.
            Looking::No => return,
            Looking::Yes | Looking::Again => {
                self.looking = Looking::Again;
                return;
            }
        }
        self.looking = Looking::Yes;
        let desk = Rc::clone(&self.desk);
        let look = ClaimedOnDrop { relay: ctx.address(), asked: free, claimed: None };
        actix_rt::spawn(async move {
            let claimed = desk.claim(free).await;
            look.end(claimed);
        });
    }

    /// Looks again after a while, instead of whenever it would have before.
    fn look_after(&mut self, wait: Duration, ctx: &mut Context<Self>) {
        if let Some(earlier) = self.next_look.take() {
            ctx.cancel_future(earlier);
        }
        self.next_look = Some(ctx.run_later(wait, Self::look));
    }

    fn answer_if_drained(&mut self, ctx: &mut Context<Self>) {
        if self.busy > 0 || self.looking != Looking::No || self.drained.is_empty() {
            return;
        }
        for waiting in self.drained.drain(..) {
            // Whoever asked may have gone.
            let _gone = waiting.send(());
        }
        ctx.stop();
    }
}

impl<DB: OutboxStore, S: Sender> Actor for Relay<DB, S> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look(ctx);
        let upkeep = |relay: &mut Self, _: &mut Context<Self>| {
            let desk = Rc::clone(&relay.desk);
            actix_rt::spawn(async move { desk.upkeep().await });
        };
        upkeep(self, ctx);
        ctx.run_interval(UPKEEP_EVERY, upkeep);
    }
}

/// Something has been committed: look for it now instead of at the next poll.
#[derive(Debug, Clone, Copy, ActixMessage)]
#[rtype(result = "()")]
pub struct Wake;

/// A look has ended.
#[derive(ActixMessage)]
#[rtype(result = "()")]
struct Claimed {
    asked: u32,
    claimed: Result<Vec<Outgoing>, SqlError>,
}

/// A row's task has ended, one way or another.
#[derive(ActixMessage)]
#[rtype(result = "()")]
struct Ended;

/// Take nothing new, and answer when what runs has ended.
#[derive(ActixMessage)]
#[rtype(result = "()")]
struct Drain(oneshot::Sender<()>);

impl<DB: OutboxStore, S: Sender> Handler<Wake> for Relay<DB, S> {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.look(ctx);
    }
}

impl<DB: OutboxStore, S: Sender> Handler<Claimed> for Relay<DB, S> {
    type Result = ();

    fn handle(&mut self, Claimed { asked, claimed }: Claimed, ctx: &mut Self::Context) {
        let woken = std::mem::replace(&mut self.looking, Looking::No) == Looking::Again;
        match claimed {
            Ok(rows) => {
                // Fewer than asked for: there is nothing more just now.
                let full = rows.len() >= asked as usize;
                for row in rows {
                    self.busy += 1;
                    let (desk, ended) = (Rc::clone(&self.desk), EndedOnDrop(ctx.address()));
                    actix_rt::spawn(async move {
                        desk.send(row).await;
                        drop(ended);
                    });
                }
                if full || woken {
                    self.look(ctx);
                }
                self.look_after(self.options.poll_every, ctx);
            }
            Err(error) => {
                metrics::counter!("perilune_outbox_claim_failures_total").increment(1);
                tracing::warn!(%error, "the outbox can't be read just now");
                self.look_after(self.options.poll_every.max(self.options.backoff.min()), ctx);
            }
        }
        self.answer_if_drained(ctx);
    }
}

/// Tells the actor how its look went, even when that was dropped or panicked: it would look no more.
struct ClaimedOnDrop<DB: OutboxStore, S: Sender> {
    relay: Addr<Relay<DB, S>>,
    asked: u32,
    claimed: Option<Result<Vec<Outgoing>, SqlError>>,
}

impl<DB: OutboxStore, S: Sender> ClaimedOnDrop<DB, S> {
    fn end(mut self, claimed: Result<Vec<Outgoing>, SqlError>) {
        self.claimed = Some(claimed);
    }
}

impl<DB: OutboxStore, S: Sender> Drop for ClaimedOnDrop<DB, S> {
    fn drop(&mut self) {
        let claimed = self.claimed.take().unwrap_or_else(|| Err(sqlx::Error::WorkerCrashed.into()));
        // One for each look: bounded by construction.
        self.relay.do_send(Claimed { asked: self.asked, claimed });
    }
}

/// Tells the actor that a row's task is over, even when it was dropped or panicked.
struct EndedOnDrop<DB: OutboxStore, S: Sender>(Addr<Relay<DB, S>>);

impl<DB: OutboxStore, S: Sender> Drop for EndedOnDrop<DB, S> {
    fn drop(&mut self) {
        // One for each slot: bounded by construction.
        self.0.do_send(Ended);
    }
}

impl<DB: OutboxStore, S: Sender> Handler<Ended> for Relay<DB, S> {
    type Result = ();

    fn handle(&mut self, _: Ended, ctx: &mut Self::Context) {
        self.busy = self.busy.saturating_sub(1);
        // Its key's next message may be ready, and its slot is free.
        self.look(ctx);
        self.answer_if_drained(ctx);
    }
}

impl<DB: OutboxStore, S: Sender> Handler<Drain> for Relay<DB, S> {
    type Result = ();

    fn handle(&mut self, Drain(done): Drain, ctx: &mut Self::Context) {
        self.drained.push(done);
        self.answer_if_drained(ctx);
    }
}

impl RelayHandle {
    /// Makes the relay look for messages now. Call it after a commit; without it they go out at the next poll.
    pub fn wake(&self) {
        // Full means that it is about to look anyway.
        let _full = self.wake.try_send(Wake);
    }

    /// Takes nothing new from the outbox, waits for what is being sent, and ends the relay.
    pub async fn drain(&self) {
        let (done, drained) = oneshot::channel();
        if self.drain.send(Drain(done)).await.is_ok() {
            // The actor is gone: so is what it sent.
            let _gone = drained.await;
        }
    }

    /// Whether the relay's actor is alive.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.wake.connected()
    }

    /// Resolves when the relay's actor has ended: drained, its arbiter stopped, or a bug in it. What it had claimed is
    /// sent by another relay, or by the next one started here.
    pub async fn ended(&self) {
        let mut alive = self.alive.clone();
        // Nothing is ever sent; the error is the end.
        while alive.changed().await.is_ok() {}
    }
}

impl fmt::Debug for RelayHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayHandle").field("running", &self.is_running()).finish()
    }
}

impl<DB: OutboxStore, S: Sender> fmt::Debug for Relay<DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("busy", &self.busy).finish_non_exhaustive()
    }
}
