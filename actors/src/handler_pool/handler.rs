//! What may handle an event: a closure, an [`EventHandler`], or an actor of the user's own.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use actix::{Message, Recipient};
use perilune_proto::ResultEvent;

use super::EventContext;
use crate::clock::now;

/// What a handler answers: `Ok` lets the event be acknowledged, an error leaves it to the platform.
pub type HandlerResult = Result<(), HandlerError>;

/// Why a handler did not finish an event. Anything that is an [`Error`] becomes one through `?`.
///
/// It never leaves the handler's thread and is never formatted: a failure appears as `HANDLER_FAILED` alone, so log
/// what you need where you know what may be logged.
pub struct HandlerError(Box<dyn Error + Send + Sync>);

impl HandlerError {
    /// An error that is only a text.
    #[must_use]
    pub fn msg(text: &'static str) -> Self {
        Self(text.into())
    }

    /// Whether the handler was an actor that has gone.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.0.downcast_ref(), Some(ActorFailure::Gone))
    }

    /// The error as it was given.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The user's text may hold business data.
        f.write_str("HandlerError([redacted])")
    }
}

/// Handles events, one call an event, several at a time up to the consumer's capacity.
///
/// Implement it where a closure is too small. The future need not be `Send`: it is made, polled and dropped on one
/// handler thread, which runs nothing else meanwhile, so it may also block that thread.
///
/// The same event may come again (another lease, another process): a handler must find out by itself that it has
/// done the work, as the inbox does. It must return `Ok` only when what it did is durable.
pub trait EventHandler: 'static {
    /// Handles one event. An error, a panic or a dropped future is never acknowledged and never retried in memory.
    fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> impl Future<Output = HandlerResult>;
}

/// A closure as an [`EventHandler`], so that layers can be put around it. See [`handler_fn`].
#[derive(Clone, Copy)]
pub struct HandlerFn<F>(F);

/// Makes an [`EventHandler`] of a closure.
///
/// ```
/// use perilune_actors::{EventHandler, handler_fn};
///
/// fn handler() -> impl EventHandler {
///     handler_fn(|event, _context| async move {
///         println!("{} is {}", event.task_id(), event.snapshot.status);
///         Ok(())
///     })
/// }
/// # let _ = handler();
/// ```
pub const fn handler_fn<F, Fut>(closure: F) -> HandlerFn<F>
where
    F: Fn(Arc<ResultEvent>, EventContext) -> Fut + 'static,
    Fut: Future<Output = HandlerResult> + 'static,
{
    HandlerFn(closure)
}

impl<F, Fut> EventHandler for HandlerFn<F>
where
    F: Fn(Arc<ResultEvent>, EventContext) -> Fut + 'static,
    Fut: Future<Output = HandlerResult> + 'static,
{
    fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> impl Future<Output = HandlerResult> {
        (self.0)(event, context)
    }
}

impl<F> fmt::Debug for HandlerFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandlerFn")
    }
}

/// Asks an actor of the user's own to handle an event.
///
/// Sent by a consumer that was built with [`actor`](crate::ConsumerBuilder::actor). The answer is a
/// [`HandlerResult`]; an actor that drops it, stops or takes longer than the lease has failed the event.
#[derive(Debug, Message)]
#[rtype(result = "HandlerResult")]
pub struct HandleEvent {
    /// What happened.
    pub event: Arc<ResultEvent>,
    /// Generation, lease and cancellation token.
    pub context: EventContext,
}

/// Why an event was not finished, where no user's error tells.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ActorFailure {
    #[error("the handler actor is gone or dropped its answer")]
    Gone,
    #[error("the handler actor did not answer within the lease")]
    Late,
}

/// A user's actor as an [`EventHandler`]: a `SyncArbiter`'s too. The lease is its time limit.
#[derive(Debug, Clone)]
pub struct ActorHandler(Recipient<HandleEvent>);

impl ActorHandler {
    /// Handles events by asking this actor.
    #[must_use]
    pub const fn new(actor: Recipient<HandleEvent>) -> Self {
        Self(actor)
    }
}

impl EventHandler for ActorHandler {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let lease_until = context.lease_until();
        let answer = self.0.send(HandleEvent { event, context });
        // A full mailbox counts against the lease, too.
        match tokio::time::timeout(lease_until.saturating_duration_since(now()), answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(ActorFailure::Gone.into()),
            Err(_) => Err(ActorFailure::Late.into()),
        }
    }
}

/// A handler on its own thread, its type forgotten.
pub(crate) trait LocalHandler {
    /// Starts on an event. What runs before the returned future is user code as well.
    fn start(self: Rc<Self>, event: Arc<ResultEvent>, context: EventContext) -> LocalRun;
}

/// A run of a handler. It may borrow nothing but what it owns.
pub(crate) type LocalRun = Pin<Box<dyn Future<Output = HandlerResult>>>;

/// Makes each handler thread's handler.
pub(crate) type HandlerFactory = Arc<dyn Fn() -> Rc<dyn LocalHandler> + Send + Sync>;

struct Owned<H>(H);

impl<H: EventHandler> LocalHandler for Owned<H> {
    fn start(self: Rc<Self>, event: Arc<ResultEvent>, context: EventContext) -> LocalRun {
        Box::pin(async move { self.0.handle(event, context).await })
    }
}

struct Shared<H>(Arc<H>);

impl<H: EventHandler> LocalHandler for Shared<H> {
    fn start(self: Rc<Self>, event: Arc<ResultEvent>, context: EventContext) -> LocalRun {
        Box::pin(async move { self.0.handle(event, context).await })
    }
}

/// One handler for all threads.
pub(crate) fn shared<H: EventHandler + Send + Sync>(handler: H) -> HandlerFactory {
    let handler = Arc::new(handler);
    Arc::new(move || Rc::new(Shared(Arc::clone(&handler))))
}

/// A handler of its own for each thread, made there when the first event comes to it.
pub(crate) fn per_thread<H: EventHandler>(make: impl Fn() -> H + Send + Sync + 'static) -> HandlerFactory {
    Arc::new(move || Rc::new(Owned(make())))
}
