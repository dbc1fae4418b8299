//! One event's way: what is remembered of it, the sink.

use std::sync::Arc;

use perilune_actors::{EventContext, EventHandler, HandlerResult, ResultEvent};
use tokio::sync::mpsc;

use super::exec::Exec;
use super::forward::{Forward, Forwarder};
use super::memory::Memory;
use super::print;
use super::sink::SinkError;

/// What is done with an event, as it is given to the handler threads.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Print,
    Exec(Exec),
    Forward(Box<Forward>),
}

/// What all handler threads share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) memory: Option<Memory>,
    /// Told once what makes going on pointless.
    pub(crate) fatal: mpsc::Sender<String>,
}

/// One handler thread's part.
pub(crate) struct Worker {
    shared: Shared,
    sink: Sink,
}

enum Sink {
    Print,
    Exec(Exec),
    Forward(Forwarder),
}

impl Worker {
    pub(crate) fn new(shared: Shared) -> Self {
        let sink = match &shared.plan {
            Plan::Print => Sink::Print,
            Plan::Exec(exec) => Sink::Exec(exec.clone()),
            Plan::Forward(forward) => Sink::Forward(Forwarder::new(Forward::clone(forward))),
        };
        Self { shared, sink }
    }

    async fn run(&self, event: &ResultEvent, context: &EventContext) -> Result<(), SinkError> {
        let known = match &self.shared.memory {
            Some(memory) => memory.knows(event, context).await?,
            None => false,
        };
        if !known {
            self.sink(event, context).await?;
            if let Some(memory) = &self.shared.memory {
                memory.remember(event, context).await?;
            }
        }
        Ok(())
    }

    async fn sink(&self, event: &ResultEvent, context: &EventContext) -> Result<(), SinkError> {
        match &self.sink {
            Sink::Print => print::handle(event),
            Sink::Exec(exec) => exec.handle(event, context.cancellation().stopping()).await,
            Sink::Forward(forwarder) => forwarder.handle(event, context.lease_left()).await,
        }
    }
}

impl EventHandler for Worker {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let result = self.run(&event, &context).await;
        match &result {
            Ok(()) => {}
            Err(error @ SinkError::Stdout(cause)) => {
                // Nobody will ever see what is printed: that ends the command, not only this event.
                let _ = self.shared.fatal.try_send(format!("{error}: {cause}"));
            }
            Err(error) => tracing::warn!(event_id = %event.event_id, "not handled: {error}"),
        }
        Ok(result?)
    }
}
