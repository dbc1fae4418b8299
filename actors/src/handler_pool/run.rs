//! One run of the user's handler: token, start, guard, classify, report.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use perilune_proto::ResultEvent;
use perilune_proto::consumer::{HandlerOutcome, RunId};
use perilune_proto::scalar::{EventId, Generation};
use tracing::Instrument as _;

use super::EventContext;
use super::handler::{HandlerFactory, HandlerResult, LocalHandler};
use super::queue::Queue;
use crate::clock::now;
use crate::contain::{Contained, contain};

/// What has to be run, and the obligation to report it.
pub(crate) struct Run {
    /// What happened.
    pub(crate) event: Arc<ResultEvent>,
    /// What the handler is told.
    pub(crate) context: EventContext,
    /// Reports this run, whatever becomes of it.
    pub(crate) report: Report,
}

/// How a run ended. Exactly one comes from each [`Run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunEnded {
    /// The run.
    pub run: RunId,
    /// The event.
    pub event_id: EventId,
    /// The generation that was handled.
    pub generation: Generation,
    /// How it ended.
    pub outcome: HandlerOutcome,
    /// How long the handler had it.
    pub took: Duration,
    /// When the lease ends, for the figure of what was left of it.
    pub lease_until: Instant,
}

/// Reports a run's end once; dropped before it, because its thread or its queue went away, it says that the handler is
/// gone.
pub(crate) struct Report {
    ended: RunEnded,
    dispatched: Instant,
    /// Weak: a queue that is closed drops its runs, and nobody collects their results.
    to: Weak<Queue>,
}

impl Report {
    pub(super) fn new(run: RunId, event: &ResultEvent, context: &EventContext, to: &Arc<Queue>) -> Self {
        let ended = RunEnded {
            run,
            event_id: event.event_id,
            generation: context.generation(),
            outcome: HandlerOutcome::Gone,
            took: Duration::ZERO,
            lease_until: context.lease_until(),
        };
        Self { ended, dispatched: now(), to: Arc::downgrade(to) }
    }

    /// What it would say if it were dropped, which is left out.
    #[cfg(test)]
    pub(super) fn unsent(mut self) -> RunEnded {
        self.to = Weak::new();
        self.ended
    }

    fn send(mut self, outcome: HandlerOutcome, took: Duration) {
        self.ended.outcome = outcome;
        self.ended.took = took;
        // The drop sends.
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(to) = self.to.upgrade() {
            to.report(self.ended, self.dispatched, now);
        }
    }
}

/// The handler of one thread, made when the first run comes.
pub(crate) struct ThreadHandler {
    factory: HandlerFactory,
    made: Option<Rc<dyn LocalHandler>>,
}

impl ThreadHandler {
    pub(crate) const fn new(factory: HandlerFactory) -> Self {
        Self { factory, made: None }
    }

    /// The handler; a factory that panics fails this run and is asked again by the next.
    fn ready(&mut self) -> Option<Rc<dyn LocalHandler>> {
        if self.made.is_none() {
            self.made = contain(|| (self.factory)()).ok();
        }
        self.made.clone()
    }
}

impl Drop for ThreadHandler {
    fn drop(&mut self) {
        let made = self.made.take();
        let _ = contain(move || drop(made));
    }
}

/// Runs the handler on one event and reports how it ended.
pub(crate) async fn run(run: Run, handler: &mut ThreadHandler) {
    let Run { event, context, report } = run;
    let began = now();
    let span = tracing::info_span!(
        "perilune.handle",
        subscription_id = %context.subscription_id(),
        event_id = %event.event_id,
        generation = %context.generation(),
        outcome = tracing::field::Empty,
    );
    let outcome = guarded(event, context, handler).instrument(span.clone()).await;
    span.record("outcome", outcome_text(outcome));
    report.send(outcome, now().saturating_duration_since(began));
}

async fn guarded(event: Arc<ResultEvent>, context: EventContext, handler: &mut ThreadHandler) -> HandlerOutcome {
    let Some(handler) = handler.ready() else {
        return HandlerOutcome::Panicked;
    };
    let Ok(future) = contain(move || handler.start(event, context)) else {
        return HandlerOutcome::Panicked;
    };
    match Contained::new(future).await {
        Ok(result) => classify(result),
        Err(_) => HandlerOutcome::Panicked,
    }
}

fn classify(result: HandlerResult) -> HandlerOutcome {
    match result {
        Ok(()) => HandlerOutcome::Ok,
        Err(error) => {
            let outcome = if error.is_gone() { HandlerOutcome::Gone } else { HandlerOutcome::Error };
            // The error is the user's, and so is its drop.
            contain(move || drop(error)).map_or(HandlerOutcome::Panicked, |()| outcome)
        }
    }
}

/// An outcome as one lower-case word, for spans and metrics.
pub(crate) const fn outcome_text(outcome: HandlerOutcome) -> &'static str {
    match outcome {
        HandlerOutcome::Ok => "ok",
        HandlerOutcome::Error => "error",
        HandlerOutcome::Panicked => "panicked",
        HandlerOutcome::Gone => "gone",
    }
}
