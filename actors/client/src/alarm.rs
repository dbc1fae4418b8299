//! One timer for all of a connection's deadlines.

use std::future::Future as _;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::task::unconstrained;
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
        // Whatever the task has left to do: pending must mean that it was told whom to wake.
        if pin!(unconstrained(sleep.as_mut())).poll(cx).is_pending() {
            self.wakes = Some(cx.waker().clone());
            return Poll::Pending;
        }
        (self.rings, self.wakes) = (None, None);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    /// tokio answers a task that has done much at once with pending, and wakes it for that alone.
    #[tokio::test]
    async fn it_rings_for_a_task_that_had_nothing_left_to_do_at_its_first_look() {
        let mut alarm = Alarm::default();
        alarm.cover(tokio::time::Instant::now().into_std() + Duration::from_millis(20));
        let mut looks = 0;
        let rings = poll_fn(|cx| {
            while looks == 0 && pin!(tokio::task::consume_budget()).poll(cx).is_ready() {}
            looks += 1;
            alarm.poll(cx)
        });
        tokio::time::timeout(Duration::from_secs(10), rings).await.expect("it rings");
    }
}
