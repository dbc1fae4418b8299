//! What waits to be sent on one WebSocket.
//!
//! The session puts frames in; the connection's task takes them out as the response's body, as fast as
//! the socket takes bytes. Both live on one thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

/// The session's end, used by one task alone: only one can wait on it. Dropping it ends the body once what was put in is out.
pub(crate) struct Outbox(Rc<RefCell<Queue>>);

/// The connection's end.
pub(crate) struct OutboxBody(Rc<RefCell<Queue>>);

#[derive(Default)]
struct Queue {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// The session puts nothing more in.
    finished: bool,
    /// The connection takes nothing more out.
    gone: bool,
    body: Option<Waker>,
    session: Option<Waker>,
}

/// Makes the two ends.
pub(crate) fn outbox() -> (Outbox, OutboxBody) {
    let queue = Rc::new(RefCell::new(Queue::default()));
    (Outbox(Rc::clone(&queue)), OutboxBody(queue))
}

impl Outbox {
    /// Puts one frame in. The caller watches [`Self::waiting_bytes`]; nothing is kept for a connection
    /// that is gone.
    pub(crate) fn push(&self, frame: Bytes) {
        let mut queue = self.0.borrow_mut();
        if queue.gone {
            return;
        }
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        if let Some(waker) = queue.body.take() {
            waker.wake();
        }
    }

    /// Bytes that the connection has not taken yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.0.borrow().bytes
    }

    /// Waits until the connection has ended.
    pub(crate) async fn gone(&self) {
        std::future::poll_fn(|cx| {
            let mut queue = self.0.borrow_mut();
            if queue.gone {
                return Poll::Ready(());
            }
            queue.session = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until fewer than `bytes` wait, or the connection has ended.
    pub(crate) async fn below(&self, bytes: usize) {
        std::future::poll_fn(|cx| {
            let mut queue = self.0.borrow_mut();
            if queue.gone || queue.bytes < bytes {
                return Poll::Ready(());
            }
            queue.session = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut queue = self.0.borrow_mut();
        queue.finished = true;
        if let Some(waker) = queue.body.take() {
            waker.wake();
        }
    }
}

impl MessageBody for OutboxBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let mut queue = self.0.borrow_mut();
        let Some(frame) = queue.frames.pop_front() else {
            if queue.finished {
                return Poll::Ready(None);
            }
            queue.body = Some(cx.waker().clone());
            return Poll::Pending;
        };
        queue.bytes -= frame.len();
        if let Some(waker) = queue.session.take() {
            waker.wake();
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Drop for OutboxBody {
    fn drop(&mut self) {
        let mut queue = self.0.borrow_mut();
        queue.gone = true;
        queue.frames.clear();
        queue.bytes = 0;
        if let Some(waker) = queue.session.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn next(body: &mut OutboxBody) -> Option<Bytes> {
        poll_fn(|cx| Pin::new(&mut *body).poll_next(cx)).await.map(|Ok(frame)| frame)
    }

    #[actix_web::test]
    async fn frames_come_out_in_order_and_the_body_ends_after_the_last() {
        let (outbox, mut body) = outbox();
        outbox.push(Bytes::from_static(b"one"));
        outbox.push(Bytes::from_static(b"two"));
        assert_eq!(outbox.waiting_bytes(), 6);
        drop(outbox);
        assert_eq!(next(&mut body).await.as_deref(), Some(&b"one"[..]));
        assert_eq!(next(&mut body).await.as_deref(), Some(&b"two"[..]));
        assert_eq!(next(&mut body).await, None);
    }

    #[actix_web::test]
    async fn a_waiting_session_hears_that_there_is_room() {
        let (outbox, mut body) = outbox();
        outbox.push(Bytes::from_static(b"one"));
        let (_, taken) = tokio::join!(outbox.below(1), next(&mut body));
        assert_eq!(taken.as_deref(), Some(&b"one"[..]));
    }

    #[actix_web::test]
    async fn nothing_is_kept_for_a_connection_that_is_gone() {
        let (outbox, body) = outbox();
        outbox.push(Bytes::from_static(b"one"));
        drop(body);
        outbox.below(0).await;
        outbox.gone().await;
        outbox.push(Bytes::from_static(b"two"));
        assert_eq!(outbox.waiting_bytes(), 0);
    }
}
