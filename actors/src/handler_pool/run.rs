//! One run of the user's handler: token, start, guard, classify, report.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use perilune_proto::ResultEvent;
use perilune_proto::consumer::{HandlerOutcome, RunId};
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunEnded {
    /// The run.
    pub run: RunId,
    /// The event. It came from the socket's thread and goes back there with this: memory is given back cheaply only
    /// where it was taken.
    pub event: Arc<ResultEvent>,
    /// How it ended.
    pub outcome: HandlerOutcome,
    /// How long the handler had it.
    pub took: Duration,
}

/// Reports a run's end once; dropped before it, because its thread or its queue went away, it says that the handler is
/// gone.
pub(crate) struct Report {
    /// Gone once it is told.
    ended: Option<RunEnded>,
    dispatched: Instant,
    /// Weak: a queue that is closed drops its runs, and nobody collects their results.
    to: Weak<Queue>,
}

impl Report {
    /// `dispatched` is the present moment.
    pub(super) fn new(run: RunId, event: &Arc<ResultEvent>, to: &Arc<Queue>, dispatched: Instant) -> Self {
        let ended = RunEnded { run, event: Arc::clone(event), outcome: HandlerOutcome::Gone, took: Duration::ZERO };
        Self { ended: Some(ended), dispatched, to: Arc::downgrade(to) }
    }

    /// What it would say if it were dropped, which is left out.
    #[cfg(test)]
    pub(super) fn unsent(mut self) -> RunEnded {
        self.ended.take().expect("nothing was told")
    }

    fn send(mut self, outcome: HandlerOutcome, took: Duration) {
        if let Some(ended) = &mut self.ended {
            ended.outcome = outcome;
            ended.took = took;
        }
        // The drop sends.
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let (Some(to), Some(ended)) = (self.to.upgrade(), self.ended.take()) {
            to.report(ended, self.dispatched, now);
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
