//! `HandlerPool`: the running handlers, their tokens, and the threads they run on.
//!
//! The actor itself sits beside the socket and does nothing slow: it queues runs for handler threads and hands
//! their results on, in batches. User code runs on the handler threads alone (`run.rs`), each an arbiter of its own
//! with one event at a time, so a handler that blocks its thread, even for ever, holds up nothing but its own event.

mod context;
mod handler;
mod queue;
#[cfg(test)]
mod queue_tests;
mod run;
mod seat;
mod settled;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::WeakRecipient;
use actix::prelude::*;
use futures_util::stream::unfold;
use perilune_proto::ResultEvent;
use perilune_proto::consumer::{RunId, RunSignal};
use perilune_proto::scalar::{Generation, SubscriptionId};

pub use context::{CancelReason, Cancellation, EventContext};
pub use handler::{ActorHandler, EventHandler, HandleEvent, HandlerError, HandlerFn, HandlerResult, handler_fn};
pub(crate) use handler::{HandlerFactory, per_thread, shared};
pub(crate) use run::RunEnded;
pub(crate) use run::outcome_text;
pub use settled::Receipt;
use settled::settle;
pub(crate) use settled::{SettledCallback, settled_callback};

use crate::clock::now;
use crate::custody::ExitGuard;
pub(crate) use queue::{LINGER, Pace};
use queue::{Queue, Queued};
use run::{Report, Run as QueuedRun};
use seat::Hire;
use worker::hire;

/// How long a queued run may wait for a thread that was woken before another one is.
const NUDGE_AFTER: Duration = Duration::from_millis(50);

/// The user's code: what the handler threads run.
#[derive(Clone)]
pub(crate) struct Handlers {
    /// Makes each thread's handler.
    pub(crate) factory: HandlerFactory,
    /// Is told what was confirmed.
    pub(crate) settled: Option<SettledCallback>,
}

/// Runs the user's handler. One a subscription.
pub(crate) struct HandlerPool {
    subscription_id: SubscriptionId,
    handlers: Arc<Handlers>,
    queue: Arc<Queue>,
    tokens: BTreeMap<RunId, Cancellation>,
    up: WeakRecipient<HandlersEnded>,
    /// The last run queued, and whether a tick is armed to collect what lingers.
    dispatched: Option<Instant>,
    ticking: bool,
    /// The queue's count of taken jobs at the last nudge, while one is armed.
    nudged: Option<u64>,
    _exit: ExitGuard,
}

/// What a pool is made of.
pub(crate) struct PoolSpawn {
    pub(crate) subscription_id: SubscriptionId,
    pub(crate) capacity: u8,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) up: WeakRecipient<HandlersEnded>,
    pub(crate) exit: ExitGuard,
}

impl HandlerPool {
    pub(crate) fn new(spawn: PoolSpawn) -> Self {
        Self {
            subscription_id: spawn.subscription_id,
            handlers: spawn.handlers,
            queue: Arc::new(Queue::new(usize::from(spawn.capacity))),
            tokens: BTreeMap::new(),
            up: spawn.up,
            dispatched: None,
            ticking: false,
            nudged: None,
            _exit: spawn.exit,
        }
    }

    fn hire_if(&mut self, need: Hire) {
        if need == Hire::Thread {
            hire(&self.queue, &self.handlers);
        }
    }

    /// Tells the subscription what has ended.
    fn hand_on(&mut self, ended: Vec<RunEnded>) {
        if ended.is_empty() {
            return;
        }
        for run in &ended {
            self.tokens.remove(&run.run);
        }
        if let Some(up) = self.up.upgrade() {
            up.do_send(HandlersEnded(ended));
        }
    }

    /// Bounds how long a result or a start is left for the next occasion. Armed after a run was queued, one at a time.
    fn tick_later(&mut self, ctx: &mut Context<Self>) {
        if self.ticking {
            return;
        }
        self.ticking = true;
        ctx.run_later(LINGER, |actor, ctx| {
            actor.ticking = false;
            // Read before the tick: a result that comes behind it is then late by its own clock, too.
            let now = now();
            let fresh = actor.dispatched.is_some_and(|dispatched| now.saturating_duration_since(dispatched) < LINGER);
            let (ended, queued, need) = actor.queue.tick();
            actor.hire_if(need);
            actor.hand_on(ended);
            if queued == Queued::Some || fresh {
                actor.tick_later(ctx);
            }
        });
    }

    /// Looks after a while whether what was queued is being taken. Armed only while something is queued.
    fn nudge_later(&mut self, ctx: &mut Context<Self>) {
        if self.nudged.is_none() {
            let (count, need) = self.queue.nudge(u64::MAX);
            self.hire_if(need);
            self.nudged = count;
            if count.is_some() {
                ctx.run_later(NUDGE_AFTER, Self::nudge);
            }
        }
    }

    fn nudge(&mut self, ctx: &mut Context<Self>) {
        let (count, need) = self.queue.nudge(self.nudged.take().unwrap_or(u64::MAX));
        self.hire_if(need);
        self.nudged = count;
        if count.is_some() {
            ctx.run_later(NUDGE_AFTER, Self::nudge);
        }
    }
}

impl Actor for HandlerPool {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        // One message for all results that are there: an actor's message costs more than a small handler.
        let queue = Arc::clone(&self.queue);
        ctx.add_stream(unfold(queue, async |queue| Some((queue.results().await, queue))));
    }
}

impl Drop for HandlerPool {
    fn drop(&mut self) {
        for token in self.tokens.values() {
            token.cancel(CancelReason::Stopping);
        }
        self.queue.close();
    }
}

impl StreamHandler<Vec<RunEnded>> for HandlerPool {
    fn handle(&mut self, ended: Vec<RunEnded>, _ctx: &mut Context<Self>) {
        self.hand_on(ended);
    }
}

/// To [`HandlerPool`]: run the user's handler on these events. Each is answered by one [`RunEnded`] in a
/// [`HandlersEnded`]; their number is bounded by the machine's slots.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Runs(pub Vec<Run>);

/// One run to be made.
#[derive(Debug)]
pub(crate) struct Run {
    /// The run.
    pub run: RunId,
    /// What happened.
    pub event: Arc<ResultEvent>,
    /// Which lease of the delivery.
    pub generation: Generation,
    /// When the lease ends, by the local clock.
    pub lease_until: Instant,
}

impl HandlerPool {
    fn prepare(&mut self, Run { run, event, generation, lease_until }: Run, now: Instant) -> QueuedRun {
        let token = Cancellation::default();
        let context = EventContext::until(self.subscription_id, generation, lease_until, token.clone());
        let report = Report::new(run, &event, &self.queue, now);
        self.tokens.insert(run, token);
        QueuedRun { event, context, report }
    }
}

impl Handler<Runs> for HandlerPool {
    type Result = ();

    fn handle(&mut self, message: Runs, ctx: &mut Context<Self>) {
        let now = now();
        let runs: Vec<_> = message.0.into_iter().map(|run| self.prepare(run, now)).collect();
        let need = self.queue.push(runs);
        self.hire_if(need);
        self.dispatched = Some(now);
        self.tick_later(ctx);
        self.nudge_later(ctx);
    }
}

/// To [`HandlerPool`]: hand on what has ended by now, and know how much the wire has to do: while a proof is in flight,
/// an `Ok` need not wake anybody. Answered by a [`HandlersEnded`] if there is something.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Collect {
    /// How much the wire has to do.
    pub pace: Pace,
}

impl Handler<Collect> for HandlerPool {
    type Result = ();

    fn handle(&mut self, message: Collect, _ctx: &mut Context<Self>) {
        let (ended, need) = self.queue.collect(message.pace);
        self.hire_if(need);
        self.hand_on(ended);
    }
}

/// To [`HandlerPool`]: tell a running handler's token. No answer; a run that has ended hears nothing.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Cancel {
    /// The run.
    pub run: RunId,
    /// What its token is told.
    pub signal: RunSignal,
}

impl Handler<Cancel> for HandlerPool {
    type Result = ();

    fn handle(&mut self, message: Cancel, _ctx: &mut Context<Self>) {
        if let Some(token) = self.tokens.get(&message.run) {
            token.cancel(match message.signal {
                RunSignal::Stopping => CancelReason::Stopping,
                RunSignal::LeaseLapsed => CancelReason::LeaseLapsed,
            });
        }
    }
}

/// To [`HandlerPool`]: tell the `settled` callback about a confirmation. No answer. More than 1,024 untold ones are
/// dropped and counted in `perilune_consumer_receipts_dropped_total`.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Settle(pub Receipt);

impl Handler<Settle> for HandlerPool {
    type Result = ();

    fn handle(&mut self, message: Settle, ctx: &mut Context<Self>) {
        if self.handlers.settled.is_none() {
            return;
        }
        let (kept, need) = self.queue.push_receipt(message.0);
        if !kept {
            metrics::counter!("perilune_consumer_receipts_dropped_total").increment(1);
        }
        self.hire_if(need);
        self.nudge_later(ctx);
    }
}

/// To [`HandlerPool`]: answered once the `settled` callback has been told everything. The asker brings the limit.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct DrainReceipts;

impl Handler<DrainReceipts> for HandlerPool {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _message: DrainReceipts, _ctx: &mut Context<Self>) -> ResponseFuture<()> {
        let queue = Arc::clone(&self.queue);
        Box::pin(async move { queue.all_settled().await })
    }
}

/// From [`HandlerPool`] to its subscription: handlers that ended, in the order in which they did.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct HandlersEnded(pub Vec<RunEnded>);
