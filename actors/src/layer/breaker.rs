//! A circuit breaker that tries one event at a time.
//!
//! ```text
//! closed ──N failures in a row──▶ open ──one event, rest after the last failure──▶ tried
//!   ▲                               ▲                                                │
//!   └────────────success────────────┼────────────────────────────────────────────────┤
//!                                   └─────────────────────failure────────────────────┘
//! ```

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use perilune_proto::ResultEvent;
use perilune_proto::instant::later;
use tokio::sync::Semaphore;

use super::turn;
use crate::clock::now;
use crate::handler_pool::{EventContext, EventHandler, HandlerResult};

/// See [`circuit_breaker`](super::EventHandlerExt::circuit_breaker).
#[derive(Debug)]
pub struct CircuitBreaker<H> {
    inner: H,
    failures_max: NonZeroU32,
    rest: Duration,
    row: Mutex<Row>,
    /// Whoever may try while the breaker is open.
    probe: Semaphore,
}

/// Failures in a row.
#[derive(Debug, Default)]
struct Row {
    failures: u32,
    last: Option<Instant>,
}

impl<H> CircuitBreaker<H> {
    pub(super) fn new(inner: H, failures_max: NonZeroU32, rest: Duration) -> Self {
        Self { inner, failures_max, rest, row: Mutex::default(), probe: Semaphore::new(1) }
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next event may be tried, while the breaker is open.
    fn open_until(&self) -> Option<Instant> {
        let row = self.row();
        let open = row.failures >= self.failures_max.get();
        row.last.filter(|_| open).map(|last| later(last, self.rest))
    }
}

/// A try; a failure unless it is told otherwise, so that a panic and a dropped future count.
struct Try<'a, H> {
    breaker: &'a CircuitBreaker<H>,
    ok: bool,
}

impl<H> Drop for Try<'_, H> {
    fn drop(&mut self) {
        let mut row = self.breaker.row();
        *row =
            if self.ok { Row::default() } else { Row { failures: row.failures.saturating_add(1), last: Some(now()) } };
    }
}

impl<H: EventHandler> EventHandler for CircuitBreaker<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let mut probe = None;
        if self.open_until().is_some() {
            probe = Some(turn(self.probe.acquire(), &context).await?);
        }
        match self.open_until() {
            Some(until) => turn(tokio::time::sleep_until(until.into()), &context).await?,
            // Whoever tried before has succeeded: no need to queue any longer.
            None => probe = None,
        }
        let mut tried = Try { breaker: self, ok: false };
        let result = self.inner.handle(event, context).await;
        tried.ok = result.is_ok();
        drop(tried);
        drop(probe);
        result
    }
}

#[cfg(test)]
mod tests {
    use perilune_proto::scalar::Generation;

    use super::*;
    use crate::handler_pool::{CancelReason, HandlerError, handler_fn};
    use crate::support::{event, subscription_id};

    #[actix::test]
    async fn a_breaker_may_rest_for_ever() {
        let fails = handler_fn(|_, _| async { Err(HandlerError::msg("as it should")) });
        let breaker = CircuitBreaker::new(fails, NonZeroU32::MIN, Duration::MAX);
        let context = EventContext::new(subscription_id(), Generation(1), Duration::from_secs(30));
        assert!(breaker.handle(Arc::new(event(1)), context.clone()).await.is_err());
        context.cancellation().cancel(CancelReason::Stopping);
        assert!(breaker.handle(Arc::new(event(2)), context).await.is_err(), "it waits until it is told to stop");
    }
}
