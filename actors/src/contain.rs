//! Containment of user code: a panic becomes a value, wherever it comes from.
//!
//! User code runs here and nowhere else: handlers, factories, callbacks, and the drop of whatever they leave behind.
//! Two panics at once (one while another unwinds) abort the process; no program can contain that.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// User code panicked. What it said is not kept: it may hold business data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs user code that is not async.
pub(crate) fn contain<T>(code: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(code)).map_err(swallow)
}

/// Drops a panic's payload, which is user code too: its own drop may panic.
fn swallow(payload: Box<dyn Any + Send>) -> Panicked {
    if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        // A payload whose drop panics with a payload: no third attempt.
        std::mem::forget(second);
    }
    Panicked
}

/// A user's future, contained in every poll and in its drop, whether it ended or was given up.
pub(crate) struct Contained<F>(Option<Pin<Box<F>>>)
where
    F: Future + ?Sized;

impl<F: Future + ?Sized> Contained<F> {
    /// Contains a future.
    pub(crate) const fn new(future: Pin<Box<F>>) -> Self {
        Self(Some(future))
    }
}

impl<F: Future + ?Sized> Future for Contained<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.0.as_mut() else {
            // Polled after its end, which executors don't do.
            return Poll::Ready(Err(Panicked));
        };
        let outcome = match contain(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panicked) => Err(panicked),
        };
        // The drop is part of the run: a panic in it spoils an `Ok`.
        let left = self.0.take();
        match contain(move || drop(left)) {
            Ok(()) => Poll::Ready(outcome),
            Err(panicked) => {
                let _ = contain(move || drop(outcome));
                Poll::Ready(Err(panicked))
            }
        }
    }
}

impl<F: Future + ?Sized> Drop for Contained<F> {
    fn drop(&mut self) {
        let left = self.0.take();
        let _ = contain(move || drop(left));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("drop");
        }
    }

    #[test]
    fn a_panic_becomes_a_value() {
        assert_eq!(contain(|| 7), Ok(7));
        assert_eq!(contain(|| -> u8 { panic!("sync") }), Err(Panicked));
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_contained() {
        assert_eq!(contain(|| -> u8 { panic_any(PanicsOnDrop) }), Err(Panicked));
    }

    #[actix::test]
    async fn a_future_is_contained_in_its_polls_and_its_drop() {
        assert_eq!(Contained::new(Box::pin(async { 7 })).await, Ok(7));
        assert_eq!(Contained::new(Box::pin(async { panic!("async") })).await, Err::<u8, _>(Panicked));
        // Captured, never awaited past: dropped when the future ends.
        let bomb = PanicsOnDrop;
        let spoiled = Contained::new(Box::pin(std::future::poll_fn(move |_| {
            let _ = &bomb;
            Poll::Ready(7)
        })));
        assert_eq!(spoiled.await, Err(Panicked));
        let bomb = PanicsOnDrop;
        let given_up = Contained::new(Box::pin(async move {
            std::future::pending::<()>().await;
            drop(bomb);
        }));
        drop(given_up);
    }
}
