//! What a handler is told beside the event.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use perilune_proto::instant::later;
use perilune_proto::scalar::{Generation, SubscriptionId};
use tokio::sync::Notify;

use crate::clock::now;

/// What a handler is told beside the event. Cheap to clone; never holds the delivery's secret.
#[derive(Debug, Clone)]
pub struct EventContext {
    subscription_id: SubscriptionId,
    generation: Generation,
    lease_until: Instant,
    cancellation: Cancellation,
}

impl EventContext {
    /// A context by hand, for tests of a handler: generation and lease are the caller's choice.
    #[must_use]
    pub fn new(subscription_id: SubscriptionId, generation: Generation, lease_left: Duration) -> Self {
        Self::until(subscription_id, generation, later(now(), lease_left), Cancellation::default())
    }

    pub(crate) const fn until(
        subscription_id: SubscriptionId,
        generation: Generation,
        lease_until: Instant,
        cancellation: Cancellation,
    ) -> Self {
        Self { subscription_id, generation, lease_until, cancellation }
    }

    /// The subscription that the event came by.
    #[must_use]
    pub const fn subscription_id(&self) -> SubscriptionId {
        self.subscription_id
    }

    /// Which lease of the delivery this is: 1 for the first. A higher one says that an earlier attempt was not
    /// confirmed; it does not say that it had no effect.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// What is left of the lease; zero once it has lapsed. It is never extended.
    ///
    /// After the lapse another consumer may get the event; an `Ok` is acknowledged all the same.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        self.lease_until.saturating_duration_since(now())
    }

    /// When the lease ends, by the local clock.
    #[must_use]
    pub const fn lease_until(&self) -> Instant {
        self.lease_until
    }

    /// Tells when to hurry: the consumer is stopping, or the lease has lapsed.
    #[must_use]
    pub const fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }
}

/// Why a handler is asked to come to an end. It may go on: an `Ok` counts however late it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// The consumer stops and waits for what runs, up to its `shutdown_timeout`.
    Stopping,
    /// The lease has run out, so another consumer may work on the same event.
    LeaseLapsed,
}

/// A handler's cancellation token. It asks and never forces: no future is dropped by it.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Facts>);

#[derive(Default)]
struct Facts {
    /// One bit a reason; bits are only ever set.
    told: AtomicU8,
    changed: Notify,
}

impl CancelReason {
    const fn bit(self) -> u8 {
        match self {
            Self::Stopping => 1,
            Self::LeaseLapsed => 2,
        }
    }
}

impl Cancellation {
    /// Tells the handler. Public for tests of a handler; the consumer calls it by itself.
    pub fn cancel(&self, reason: CancelReason) {
        self.0.told.fetch_or(reason.bit(), Ordering::Release);
        self.0.changed.notify_waiters();
    }

    /// Whether this was told. Usable from blocking code: it takes no runtime.
    #[must_use]
    pub fn is_cancelled(&self, reason: CancelReason) -> bool {
        self.0.told.load(Ordering::Acquire) & reason.bit() != 0
    }

    /// The reason that was told, [`CancelReason::Stopping`] before the other where both were.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        [CancelReason::Stopping, CancelReason::LeaseLapsed].into_iter().find(|reason| self.is_cancelled(*reason))
    }

    /// Resolves once the consumer is stopping.
    pub async fn stopping(&self) {
        self.told(|| self.is_cancelled(CancelReason::Stopping).then_some(())).await;
    }

    /// Resolves once the lease has lapsed.
    pub async fn lease_lapsed(&self) {
        self.told(|| self.is_cancelled(CancelReason::LeaseLapsed).then_some(())).await;
    }

    /// Resolves with the first reason that is told.
    pub async fn cancelled(&self) -> CancelReason {
        self.told(|| self.reason()).await
    }

    async fn told<T>(&self, check: impl Fn() -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // Registered before the check, so that nothing told in between is missed.
            changed.as_mut().enable();
            if let Some(found) = check() {
                return found;
            }
            changed.await;
        }
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancellation").field(&self.reason()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(lease: Duration) -> EventContext {
        EventContext::new(SubscriptionId::from_u128(1), Generation(2), lease)
    }

    #[actix::test]
    async fn a_token_tells_stopping_from_a_lapsed_lease() {
        let token = Cancellation::default();
        assert_eq!(token.reason(), None);
        token.cancel(CancelReason::LeaseLapsed);
        assert_eq!(token.cancelled().await, CancelReason::LeaseLapsed);
        assert!(!token.is_cancelled(CancelReason::Stopping));
        token.cancel(CancelReason::Stopping);
        token.stopping().await;
        token.lease_lapsed().await;
    }

    #[actix::test]
    async fn a_waiting_handler_is_woken_by_the_token() {
        let token = Cancellation::default();
        let waits = actix_rt::spawn({
            let token = token.clone();
            async move { token.cancelled().await }
        });
        actix_rt::task::yield_now().await;
        token.cancel(CancelReason::Stopping);
        assert_eq!(waits.await.expect("no panic"), CancelReason::Stopping);
    }

    #[actix::test]
    async fn the_lease_runs_out_by_the_runtimes_clock() {
        tokio::time::pause();
        let context = context(Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(29)).await;
        assert_eq!(context.lease_left(), Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(context.lease_left(), Duration::ZERO);
    }

    #[test]
    fn a_lease_may_be_longer_than_any_clock_can_tell() {
        let years = Duration::from_secs(29 * 365 * 86_400);
        assert!(context(Duration::MAX).lease_left() > years);
    }
}
