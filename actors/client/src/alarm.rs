//! One timer for all of a connection's deadlines.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::time::Sleep;

/// Rings no later than the earliest deadline that it was told of; perhaps for one that is no more.
///
/// A deadline comes with each request, and nearly all are met. So a later one leaves the timer as it is: to set it
/// anew would cost the runtime more than the request, and wake it from its wait for sockets as well.
#[derive(Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    rings: Option<Instant>,
    /// Whom it wakes as it is set now: to tell it again at each look would cost more than the look.
    wakes: Option<Waker>,
}

impl Alarm {
    /// Whether it will have rung by then.
    pub(crate) fn covers(&self, due: Instant) -> bool {
        self.rings.is_some_and(|rings| rings <= due)
    }

    /// Sees to it that it rings by then.
    pub(crate) fn cover(&mut self, due: Instant) {
        if self.covers(due) {
            return;
        }
        self.rings = Some(due);
        self.wakes = None;
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(due.into()),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(due.into()))),
        }
    }

    /// Ready when it rings. It is silent from then on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sleep) = self.sleep.as_mut().filter(|_| self.rings.is_some()) else { return Poll::Pending };
        let told = self.wakes.as_ref().is_some_and(|wakes| wakes.will_wake(cx.waker()));
        if told && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        if sleep.as_mut().poll(cx).is_pending() {
            self.wakes = Some(cx.waker().clone());
            return Poll::Pending;
        }
        (self.rings, self.wakes) = (None, None);
        Poll::Ready(())
    }
}
