//! Wakes whoever waits for a change of something that stays on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Rings for all who wait. Nobody misses one: each looks before it waits, and nothing changes between the two.
///
/// What a waker does is not known here, not even when it is dropped: it never happens while the list is borrowed.
#[derive(Default)]
pub(crate) struct Bell {
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    next: Cell<u64>,
}

/// One who waits. Its place is given up when it is dropped.
struct Place<'b> {
    bell: &'b Bell,
    number: u64,
}

impl Bell {
    /// Wakes all who wait.
    pub(crate) fn ring(&self) {
        let waiting = self.waiting.borrow().len();
        for _ in 0..waiting {
            let Some((_, waker)) = self.waiting.borrow_mut().pop_front() else { break };
            waker.wake();
        }
    }

    /// Waits until `ready` gives something. Dropping the future at any point loses nothing.
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        let number = self.next.get();
        self.next.set(number + 1);
        let place = Place { bell: self, number };
        poll_fn(|cx| match ready() {
            Some(value) => Poll::Ready(value),
            None => place.wait(cx),
        })
        .await
    }
}

impl Place<'_> {
    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        let mut waiting = self.bell.waiting.borrow_mut();
        match waiting.iter_mut().find(|(number, _)| *number == self.number) {
            Some((_, waker)) => {
                let replaced = std::mem::replace(waker, cx.waker().clone());
                drop(waiting);
                drop(replaced);
            }
            None => waiting.push_back((self.number, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.bell.waiting.borrow_mut();
        let at = waiting.iter().position(|(number, _)| *number == self.number);
        let given_up = at.and_then(|at| waiting.remove(at));
        drop(waiting);
        drop(given_up);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[actix_rt::test]
    async fn all_who_wait_are_woken() {
        let (bell, open) = (Bell::default(), Cell::new(false));
        let wait = || bell.until(|| open.get().then_some(()));
        let ring = async {
            open.set(true);
            bell.ring();
        };
        tokio::join!(wait(), wait(), ring);
    }

    #[test]
    fn who_gives_up_leaves_no_place_behind() {
        let bell = Bell::default();
        for _ in 0..3 {
            assert!(bell.until(|| None::<()>).now_or_never().is_none());
        }
        assert!(bell.waiting.borrow().is_empty());
    }
}
