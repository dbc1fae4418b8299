//! The one task that reads a connection's socket, and writes what a request's sender could not.
//!
//! It reads and writes at the same time, so that neither waits for the other. The rules are the session's;
//! this file carries out its effects.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use awc::BoxedSocket;
use bytes::BytesMut;
use perilune_proto::session::EndCause;
use perilune_proto::wire::{self, CloseCode};
use zeroize::Zeroize as _;

use crate::codec::{Message, MessageReader};
use crate::error::ConnectionError;
use crate::line::Line;
use crate::options::Timeouts;
use crate::shared::{Came, Shared, now};

pub(crate) struct Pump {
    shared: Rc<Shared>,
    reader: MessageReader,
    /// When the latest bytes were read.
    arrived: Instant,
    timeouts: Timeouts,
}

/// Why the exchange is over, and how to part.
struct End {
    error: ConnectionError,
    /// `None` where the transport itself is gone.
    close: Option<CloseCode>,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self { error: ConnectionError::network(error), close: None }
    }
}

impl From<EndCause> for End {
    fn from(cause: EndCause) -> Self {
        let close = cause.close_code();
        Self { error: cause.into(), close: Some(close) }
    }
}

/// Tells the handles when the pump is gone, however it goes: an end, a panic, a stopped arbiter.
struct Farewell(Rc<Shared>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl Pump {
    pub(crate) fn new(shared: Rc<Shared>, socket: BoxedSocket, already_read: BytesMut, timeouts: Timeouts) -> Self {
        shared.line.replace(Some(Line::new(socket, timeouts.write)));
        Self { shared, reader: MessageReader::new(already_read), arrived: now(), timeouts }
    }

    pub(crate) async fn run(mut self) {
        let _farewell = Farewell(Rc::clone(&self.shared));
        let Err(End { error, close }) = self.exchange().await;
        tracing::debug!(code = error.code(), "connection ends");
        self.shared.end(error);
        if let Some(code) = close {
            let patience = self.timeouts.parting;
            // Out of patience or not, the socket is dropped next.
            let _ = tokio::time::timeout(patience, self.part(code)).await;
        }
    }

    async fn exchange(&mut self) -> Result<Infallible, End> {
        loop {
            let came = self.read_messages();
            if came == Came::Answer && self.reader.has_more() {
                // Whoever waited for it may have a next request ready. That goes out before what came with the answer
                // is read, so that the peer works on the one while this side reads the other.
                give_way().await;
                if self.shared.requests.any_untaken() {
                    // A thread's main future has its turn only after all tasks. This waits for it, at the price of a
                    // look at all sockets, which is a system call.
                    tokio::task::yield_now().await;
                }
            }
            self.shared.carry_out(self.arrived);
            if let Some(cause) = self.shared.take_end() {
                return Err(cause.into());
            }
            if self.shared.is_closing() {
                return Err(End { error: ConnectionError::closed_here(), close: Some(CloseCode::NORMAL) });
            }
            if came == Came::NoAnswer {
                poll_fn(|cx| self.poll_progress(cx)).await?;
            }
        }
    }

    /// Waits for the first of: a deadline, bytes from the peer, a handle's wish; and writes what there is room for.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let mut line = self.shared.line.borrow_mut();
        let line = line.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let _ = line.poll_write(cx)?;
        if self.shared.poll_wanted(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if self.poll_deadline(line.write_due(), cx)?.is_ready() {
            return Poll::Ready(Ok(()));
        }
        let Poll::Ready(count) = line.poll_read(self.reader.input(), cx)? else { return Poll::Pending };
        self.arrived = now();
        if count == 0 {
            self.shared.with_session(|session| session.peer_closed(CloseCode(1006)));
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when a deadline has been looked at.
    fn poll_deadline(&self, write_due: Option<Instant>, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let session_due = self.shared.with_session(|session| session.poll_timeout());
        let mut alarm = self.shared.alarm.borrow_mut();
        if let Some(due) = session_due.map(|(due, _)| due).into_iter().chain(write_due).min() {
            alarm.cover(due);
        }
        ready!(alarm.poll(cx));
        let now = now();
        self.shared.with_session(|session| session.timed_out(now));
        if write_due.is_some_and(|due| due <= now) {
            return Poll::Ready(Err(End { error: ConnectionError::write_stalled(), close: None }));
        }
        Poll::Ready(Ok(()))
    }

    /// Hands complete messages to the session, up to the first that answers a request.
    fn read_messages(&mut self) -> Came {
        loop {
            match self.reader.next() {
                Ok(None) => return Came::NoAnswer,
                Ok(Some(Message::Ping(payload))) => {
                    if let Some(line) = &mut *self.shared.line.borrow_mut() {
                        line.pong(payload);
                    }
                }
                Ok(Some(Message::Close(code))) => self.shared.with_session(|session| session.peer_closed(code)),
                Ok(Some(Message::Text(text))) => self.read_text(text.bytes()),
                Err(breach) => self.shared.with_session(|session| session.breached(breach)),
            }
            if self.shared.carry_out(self.arrived) == Came::Answer {
                return Came::Answer;
            }
        }
    }

    fn read_text(&self, text: &[u8]) {
        let frame = wire::message_text(text).and_then(wire::decode_server);
        self.shared.with_session(|session| match frame {
            Ok(frame) => session.receive(frame),
            Err(error) => session.breached(error.into()),
        });
    }

    /// Says goodbye, and takes what the peer still sends until it closes too: a socket that is dropped
    /// with unread bytes resets the connection, and the close frame could be lost with it.
    async fn part(&self, code: CloseCode) {
        let Some(mut line) = self.shared.line.take() else { return };
        line.close(code);
        let (mut said, mut heard) = (false, false);
        let mut scrap = BytesMut::with_capacity(4_096);
        poll_fn(|cx| {
            // A failure of either only means that the peer is gone already.
            said = said || line.poll_goodbye(cx).is_ready();
            while !heard && let Poll::Ready(read) = line.poll_read(&mut scrap, cx) {
                heard = !read.is_ok_and(|count| count > 0);
                scrap[..].zeroize();
                scrap.clear();
            }
            if said && heard { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Lets the tasks go first that are ready now.
async fn give_way() {
    let mut gave_way = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
