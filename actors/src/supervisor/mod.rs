//! `Supervisor`: the running subscriptions of one application. It starts, stops and lists them, and starts a crashed
//! one again around the machine that it left behind. It knows no event and no proof.

mod crew;
mod handle;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use actix::prelude::*;
use perilune_proto::consumer::{Consumer, Input, Stats};
use perilune_proto::limits::{CHILD_LOSSES_MAX, CHILD_LOSSES_WINDOW};
use perilune_proto::scalar::SubscriptionId;

use crate::clock::now;
use crate::custody::{Custody, Estate, Exit, Owned};
use crate::error::{RunError, RunErrorKind};
use crate::health::Health;
use crate::run_state::RunState;
use crate::spec::Spec;
use crate::subscription::{Drain, Subscription};
use crew::Crew;

pub use handle::SupervisorHandle;
pub(crate) use handle::start_alone;

/// Ended runs that are still listed, the newest ones.
const ENDED_LISTED_MAX: usize = 64;

/// Names a run in this process. Several runs may share a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub(crate) u64);

/// Keeps the running subscriptions. See [`SupervisorHandle`] for the way to use it.
pub struct Supervisor {
    crew: Crew,
    running: BTreeMap<ConsumerId, Entry>,
    /// Runs that are over, so that a readiness route sees them: none vanishes silently.
    ended: VecDeque<(ConsumerId, Arc<RunState>)>,
}

struct Entry {
    spec: Arc<Spec>,
    subscription: Owned<Subscription>,
    /// Which arbiter it runs on.
    place: usize,
    /// When its shell was lost, within the window.
    crashes: VecDeque<Instant>,
    /// Kept here since a stop may meet a shell that has just died.
    stopping: bool,
}

impl Supervisor {
    pub(crate) const fn new(crew: Crew) -> Self {
        Self { crew, running: BTreeMap::new(), ended: VecDeque::new() }
    }

    /// Starts a shell around a machine.
    fn shell(
        &mut self,
        id: ConsumerId,
        place: usize,
        spec: &Arc<Spec>,
        machine: Box<Consumer>,
        ctx: &mut Context<Self>,
    ) -> Owned<Subscription> {
        let custody = Custody::new(machine, id, ctx.address());
        let spec = Arc::clone(spec);
        let arbiter = self.crew.arbiter(place);
        Subscription::start_in_arbiter(&arbiter, move |_| Subscription::new(spec, custody)).into()
    }

    /// A shell has crashed: start another one around its machine.
    fn inherit(&mut self, id: ConsumerId, estate: Estate, ctx: &mut Context<Self>) {
        let Some(mut entry) = self.running.remove(&id) else {
            return;
        };
        let Some(machine) = entry.revive(estate) else {
            self.leave(id, &entry);
            return;
        };
        entry.subscription = self.shell(id, entry.place, &entry.spec, machine, ctx);
        if entry.stopping {
            entry.subscription.do_send(Drain);
        }
        self.running.insert(id, entry);
    }

    fn leave(&mut self, id: ConsumerId, entry: &Entry) {
        self.crew.leave(entry.place);
        self.ended.push_back((id, Arc::clone(&entry.spec.run)));
        if self.ended.len() > ENDED_LISTED_MAX {
            self.ended.pop_front();
        }
    }

    fn stop(&mut self, id: ConsumerId) {
        if let Some(entry) = self.running.get_mut(&id) {
            entry.stopping = true;
            entry.subscription.do_send(Drain);
        }
    }
}

impl Entry {
    /// The machine for the next shell, as long as the budget lasts. One that was interrupted in the middle of a step
    /// can't be trusted but for its proofs, so those go to a new machine.
    ///
    /// A whole machine counts its losses itself and comes to an orderly end over the same budget. One loss more is
    /// borne for that end, and no further one: what crashes there, such as a subscriber of the application's own,
    /// would crash again for ever.
    fn revive(&mut self, estate: Estate) -> Option<Box<Consumer>> {
        let now = now();
        let Estate { mut machine, interrupted, _to } = estate;
        self.crashes.retain(|crash| now.saturating_duration_since(*crash) < CHILD_LOSSES_WINDOW);
        self.crashes.push_back(now);
        let spent = self.crashes.len() > CHILD_LOSSES_MAX + usize::from(!interrupted);
        if !interrupted && !spent {
            machine.handle(Input::ShellLost, now);
            return Some(machine);
        }
        let reported = machine.report().filter(|_| !interrupted).map(|report| report.unconfirmed().collect());
        let proofs = machine.into_proofs();
        if spent {
            let unconfirmed = reported.unwrap_or_else(|| proofs.iter().map(|proof| proof.event_id).collect());
            self.spec.run.finish(Err(RunError::crashed(unconfirmed)));
            return None;
        }
        Some(Box::new(Consumer::resume(self.spec.config.clone(), rand::random(), now, proofs)))
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

/// To [`Supervisor`]: start a run. No answer; its end is told to the run's handles.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Start {
    pub(crate) id: ConsumerId,
    pub(crate) spec: Arc<Spec>,
    /// Draws the waits' jitter.
    pub(crate) seed: u64,
    /// Keeps the supervisor until it has handled this. Without it, an actor that looks at its mailbox, finds it empty and
    /// then asks whether anybody still has its address would end with the message unread.
    pub(crate) _to: Addr<Supervisor>,
}

impl Handler<Start> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Start, ctx: &mut Context<Self>) {
        let Start { id, spec, seed, _to } = message;
        let Ok(place) = self.crew.join() else {
            spec.run.finish(Err(RunError::new(RunErrorKind::NoArbiter)));
            return;
        };
        let machine = Box::new(Consumer::new(spec.config.clone(), seed, now()));
        let subscription = self.shell(id, place, &spec, machine, ctx);
        let entry = Entry { spec, subscription, place, crashes: VecDeque::new(), stopping: false };
        self.running.insert(id, entry);
    }
}

/// To [`Supervisor`]: stop a run in an orderly way. No answer; a run that has ended stays as it is.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Stop {
    /// Which run.
    pub id: ConsumerId,
}

impl Handler<Stop> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Stop, _ctx: &mut Context<Self>) {
        self.stop(message.id);
    }
}

/// To [`Supervisor`]: stop every run in an orderly way. No answer.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopAll;

impl Handler<StopAll> for Supervisor {
    type Result = ();

    fn handle(&mut self, _message: StopAll, _ctx: &mut Context<Self>) {
        let ids: Vec<_> = self.running.keys().copied().collect();
        for id in ids {
            self.stop(id);
        }
    }
}

/// To [`Supervisor`]: how does everybody do? Answered with the runs in the order of their starts, ended ones (the
/// last 64) among them.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Listed>")]
pub struct List;

/// One run in a list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Listed {
    /// The run.
    pub id: ConsumerId,
    /// What it consumes.
    pub subscription_id: SubscriptionId,
    /// How it does.
    pub health: Health,
    /// Its figures.
    pub stats: Stats,
    /// How it failed, if it has.
    pub error: Option<RunError>,
}

impl Listed {
    fn of(id: ConsumerId, run: &RunState) -> Self {
        Self {
            id,
            subscription_id: run.subscription_id,
            health: run.health(),
            stats: run.seen().stats,
            error: run.ended().and_then(Result::err),
        }
    }
}

impl Handler<List> for Supervisor {
    type Result = MessageResult<List>;

    fn handle(&mut self, _message: List, _ctx: &mut Context<Self>) -> MessageResult<List> {
        let running = self.running.iter().map(|(id, entry)| Listed::of(*id, &entry.spec.run));
        let mut listed: Vec<_> = running.chain(self.ended.iter().map(|(id, run)| Listed::of(*id, run))).collect();
        listed.sort_by_key(|one| one.id);
        MessageResult(listed)
    }
}

/// To [`Supervisor`], from a subscription's custody: its shell is gone. With an estate it crashed, without one its run
/// is over.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Exited {
    /// Which run.
    pub id: ConsumerId,
    /// How the shell ended.
    pub exit: Exit,
    /// The machine that it left.
    pub estate: Option<Estate>,
}

impl Handler<Exited> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Exited, ctx: &mut Context<Self>) {
        let Exited { id, exit, estate } = message;
        match estate {
            Some(estate) => {
                tracing::error!(exit = ?exit, interrupted = estate.interrupted, "perilune.subscription_lost");
                self.inherit(id, estate, ctx);
            }
            None => {
                if let Some(entry) = self.running.remove(&id) {
                    self.leave(id, &entry);
                }
            }
        }
    }
}

#[cfg(test)]
impl Supervisor {
    pub(crate) fn pass_on(&self, crash: crate::crash::Crash) {
        if let Some(entry) = self.running.get(&crash.id) {
            entry.subscription.do_send(crash);
        }
    }
}
