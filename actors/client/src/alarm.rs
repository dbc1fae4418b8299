//! One timer for all of a connection's deadlines.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
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
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(due.into()),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(due.into()))),
        }
    }

    /// Ready when it rings. It is silent from then on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) if self.rings.is_some() => {
                ready!(sleep.as_mut().poll(cx));
                self.rings = None;
                Poll::Ready(())
            }
            _ => Poll::Pending,
        }
    }
}
