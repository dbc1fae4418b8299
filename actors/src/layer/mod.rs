//! Layers around a handler. Each is an [`EventHandler`] itself, so they stack; the last one put on is the outermost.
//!
//! A layer that counts or limits across events has to be shared by all handler threads: give it to
//! [`event_handler`](crate::ConsumerBuilder::event_handler), not to `handler_factory`.

mod breaker;
mod per_key;
mod span;
mod timeout;

use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use perilune_proto::ResultEvent;
use tracing::Span;

use crate::handler_pool::{CancelReason, EventContext, EventHandler, HandlerError, HandlerResult};

pub use breaker::CircuitBreaker;
pub use per_key::PerKey;
pub use span::InSpan;
pub use timeout::Timeout;

/// Puts layers around a handler.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
///
/// use perilune_actors::{EventHandler, EventHandlerExt as _, handler_fn};
///
/// fn handler() -> impl EventHandler + Send + Sync {
///     handler_fn(|_event, _context| async { Ok(()) })
///         .timeout(Duration::from_secs(20))
///         .one_at_a_time_per(|event| event.task_id())
///         .circuit_breaker(NonZeroU32::new(5).expect("not zero"), Duration::from_secs(1))
/// }
/// # let _ = handler();
/// ```
pub trait EventHandlerExt: EventHandler + Sized {
    /// Gives the handler this long for an event; then its future is dropped and the event has failed.
    fn timeout(self, limit: Duration) -> Timeout<Self> {
        Timeout::new(self, limit)
    }

    /// Runs the handler in a `tracing` span of the caller's own, inside the consumer's `perilune.handle`.
    fn in_span<F>(self, span: F) -> InSpan<Self, F>
    where
        F: Fn(&ResultEvent, &EventContext) -> Span + 'static,
    {
        InSpan::new(self, span)
    }

    /// Lets one event of a key be handled at a time, in the order of their coming. Others of the key wait, in their
    /// slots and within their leases; one whose lease lapses meanwhile, or that is told to stop, fails unhandled.
    ///
    /// It orders nothing across processes, nor across redeliveries.
    fn one_at_a_time_per<F, K>(self, key: F) -> PerKey<Self, F, K>
    where
        F: Fn(&ResultEvent) -> K + 'static,
        K: Ord + Clone + 'static,
    {
        PerKey::new(self, key)
    }

    /// After so many failures in a row, tries one event at a time, `rest` after the last failure at the earliest, until
    /// one succeeds. The others wait as in [`Self::one_at_a_time_per`], so that a dependency that is down does not eat
    /// up the budgets of a whole backlog.
    fn circuit_breaker(self, failures: NonZeroU32, rest: Duration) -> CircuitBreaker<Self> {
        CircuitBreaker::new(self, failures, rest)
    }
}

impl<H: EventHandler> EventHandlerExt for H {}

impl<H: EventHandler> EventHandler for Arc<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        H::handle(self, event, context).await
    }
}

impl<H: EventHandler> EventHandler for Rc<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        H::handle(self, event, context).await
    }
}

/// Why a layer let an event fail without its handler's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The handler took longer than its layer allows.
    #[error("the handler took too long")]
    TimedOut,
    /// The lease lapsed, or the consumer was stopped, while the event waited for its turn.
    #[error("the event did not get its turn in time")]
    NoTurn,
}

/// Waits for a turn as long as the event is worth it.
async fn turn<T>(waits: impl Future<Output = T>, context: &EventContext) -> Result<T, HandlerError> {
    tokio::select! {
        turn = waits => Ok(turn),
        CancelReason::Stopping | CancelReason::LeaseLapsed = context.cancellation().cancelled() => {
            Err(LayerError::NoTurn.into())
        }
    }
}
