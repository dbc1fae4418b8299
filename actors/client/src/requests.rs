//! Who waits for which answer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use perilune_proto::scalar::MessageId;
use perilune_proto::session::Answer;

/// The requests that somebody waits for: at most as many as the session has in flight, and those whose answer
/// nobody has taken yet.
#[derive(Default)]
pub(crate) struct Requests {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    next: u64,
}

struct Waiting {
    /// An id may be used again once its answer has come, so it does not name the place.
    number: u64,
    id: MessageId,
    waker: Option<Waker>,
    answer: Option<Answer>,
}

/// A place among those who wait, given up when it is dropped.
pub(crate) struct Place<'r> {
    requests: &'r Requests,
    number: u64,
}

impl Requests {
    /// Takes a place for the answer to the request `id`.
    pub(crate) fn wait_for(&self, id: MessageId) -> Place<'_> {
        let mut state = self.state.borrow_mut();
        let number = state.next;
        state.next += 1;
        state.waiting.push(Waiting { number, id, waker: None, answer: None });
        Place { requests: self, number }
    }

    /// Hands an answer on. Nobody waits any more where the caller dropped its future.
    pub(crate) fn answer(&self, id: MessageId, answer: Answer) {
        let mut state = self.state.borrow_mut();
        let waiting = state.waiting.iter_mut().find(|waiting| waiting.id == id && waiting.answer.is_none());
        if let Some(waiting) = waiting {
            waiting.answer = Some(answer);
            let waker = waiting.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Whether an answer waits for somebody to take it.
    pub(crate) fn any_untaken(&self) -> bool {
        self.state.borrow().waiting.iter().any(|waiting| waiting.answer.is_some())
    }

    /// No more answers come. Those that have come can still be taken.
    pub(crate) fn end(&self) {
        let mut state = self.state.borrow_mut();
        let wakers: Vec<_> = state.waiting.iter_mut().filter_map(|waiting| waiting.waker.take()).collect();
        state.waiting.retain(|waiting| waiting.answer.is_some());
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Place<'_> {
    /// The answer; `None` where no more come.
    pub(crate) async fn answer(self) -> Option<Answer> {
        poll_fn(|cx| self.poll_answer(cx)).await
    }

    fn poll_answer(&self, cx: &Context<'_>) -> Poll<Option<Answer>> {
        let mut state = self.requests.state.borrow_mut();
        let Some(waiting) = state.waiting.iter_mut().find(|waiting| waiting.number == self.number) else {
            return Poll::Ready(None);
        };
        match waiting.answer.take() {
            None => {
                let replaced = waiting.waker.replace(cx.waker().clone());
                drop(state);
                drop(replaced);
                Poll::Pending
            }
            answer => Poll::Ready(answer),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.requests.state.borrow_mut();
        let at = state.waiting.iter().position(|waiting| waiting.number == self.number);
        let given_up = at.map(|at| state.waiting.swap_remove(at));
        // What a waker does is not known here, not even when it is dropped.
        drop(state);
        drop(given_up);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use perilune_proto::scalar::SessionId;
    use perilune_proto::wire::Pong;

    use super::*;

    fn pong(enabled: bool) -> Answer {
        let (session_id, reply_to) = (SessionId::from_u128(1), MessageId::from_u128(1));
        Answer::Pong(Pong { session_id, reply_to, enabled })
    }

    #[test]
    fn an_id_that_is_used_again_names_the_later_request() {
        let (requests, id) = (Requests::default(), MessageId::from_u128(1));
        let first = requests.wait_for(id);
        requests.answer(id, pong(true));
        let mut second = pin!(requests.wait_for(id).answer());
        assert!(second.as_mut().now_or_never().is_none());
        requests.answer(id, pong(false));
        assert_eq!(second.now_or_never(), Some(Some(pong(false))));
        assert_eq!(first.answer().now_or_never(), Some(Some(pong(true))));
    }

    #[test]
    fn an_answer_that_came_before_the_end_is_still_taken() {
        let requests = Requests::default();
        let [answered, open] = [1, 2].map(|id| requests.wait_for(MessageId::from_u128(id)));
        requests.answer(MessageId::from_u128(1), pong(true));
        requests.end();
        assert_eq!(answered.answer().now_or_never(), Some(Some(pong(true))));
        assert_eq!(open.answer().now_or_never(), Some(None));
    }

    #[test]
    fn who_gives_up_leaves_no_place_behind() {
        let requests = Requests::default();
        drop(requests.wait_for(MessageId::from_u128(1)));
        requests.answer(MessageId::from_u128(1), pong(true));
        assert!(requests.state.borrow().waiting.is_empty());
    }
}
