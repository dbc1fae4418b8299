//! What bounds one application of an event: time, attempts, and somebody who says stop.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use perilune_proto::instant::later;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Attempts at one event where others' transactions are in the way.
pub(super) const ATTEMPTS_MAX: u32 = 10;
/// First wait before another attempt; it doubles up to [`WAIT_MAX`], and a draw from its upper half is taken.
const WAIT_MIN: Duration = Duration::from_millis(10);
const WAIT_MAX: Duration = Duration::from_millis(640);

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What bounds one call of `apply_once`.
///
/// By default attempts end after the contract's lease of 30 s, and dropping the call cancels it.
pub struct Scope {
    pub(super) deadline: Instant,
    cancelled: Option<BoxFuture>,
}

impl Default for Scope {
    fn default() -> Self {
        Self::lease(Duration::from_millis(perilune_proto::limits::LEASE_MS_DEFAULT.into()))
    }
}

impl Scope {
    /// No attempt begins later than `left` from now: what is left of the event's lease.
    ///
    /// An attempt that is running then is not cut short: its result may still be acknowledged as long as no newer
    /// generation exists.
    #[must_use]
    pub fn lease(left: Duration) -> Self {
        Self { deadline: later(Instant::now().into_std(), left).into(), cancelled: None }
    }

    /// Rolls back when `signal` resolves before the commit has begun.
    #[must_use]
    pub fn cancelled_by(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cancelled = Some(Box::pin(signal));
        self
    }

    /// The signals to stop, and the guard whose drop is one of them.
    pub(super) fn into_stop(self) -> (Stop, StopOnDrop) {
        let (guard, dropped) = oneshot::channel();
        (Stop { dropped, asked: self.cancelled, heard: false }, StopOnDrop(guard))
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Held by the caller's future; when that future is dropped, the transaction's task hears of it.
pub(super) struct StopOnDrop(#[expect(dead_code, reason = "it is its drop that tells")] oneshot::Sender<()>);

/// Whether the caller went away or was told to stop. Once heard, it stays heard.
pub(super) struct Stop {
    dropped: oneshot::Receiver<()>,
    asked: Option<BoxFuture>,
    heard: bool,
}

impl Stop {
    /// Resolves when the transaction is to be rolled back. May be awaited again and again.
    pub(super) async fn heard(&mut self) {
        if self.heard {
            return;
        }
        poll_fn(|cx| {
            let dropped = Pin::new(&mut self.dropped).poll(cx).is_ready();
            let asked = self.asked.as_mut().is_some_and(|asked| asked.as_mut().poll(cx).is_ready());
            if dropped || asked { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.heard = true;
    }
}

/// How long to wait before attempt `next` (from 2): doubling, drawn from the upper half so that twins part.
pub(super) fn wait_before(next: u32) -> Duration {
    let full = WAIT_MIN.saturating_mul(1 << next.saturating_sub(2).min(16)).min(WAIT_MAX);
    full.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_their_limit_and_are_drawn_from_the_upper_half() {
        for (next, full) in [(2, 10), (3, 20), (8, 640), (40, 640)] {
            let full = Duration::from_millis(full);
            for _ in 0..100 {
                let wait = wait_before(next);
                assert!(wait >= full / 2 && wait <= full, "{next}: {wait:?}");
            }
        }
    }

    #[test]
    fn a_lease_may_be_longer_than_any_clock_can_tell() {
        let years = Duration::from_secs(29 * 365 * 86_400);
        assert!(Scope::lease(Duration::MAX).deadline > Instant::now() + years);
    }

    #[tokio::test]
    async fn a_dropped_caller_is_heard() {
        let (mut stop, guard) = Scope::default().into_stop();
        drop(guard);
        stop.heard().await;
        stop.heard().await;
    }

    #[tokio::test]
    async fn a_signal_is_heard_while_the_caller_waits() {
        let (mut stop, _guard) = Scope::default().cancelled_by(std::future::ready(())).into_stop();
        stop.heard().await;
    }
}
