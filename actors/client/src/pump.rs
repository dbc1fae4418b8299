//! The one task that owns a connection's socket.
//!
//! It reads and writes at the same time, so that neither waits for the other. The rules are the session's;
//! this file carries out its effects.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use awc::BoxedSocket;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use perilune_proto::session::{Effect, EndCause};
use perilune_proto::wire::{self, ClientFrame, CloseCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use zeroize::Zeroizing;

use crate::codec::{Message, MessageReader};
use crate::connection::Received;
use crate::error::ConnectionError;
use crate::options::Timeouts;
use crate::outgoing::Outgoing;
use crate::shared::{Shared, now};

pub(crate) struct Pump {
    shared: Rc<Shared>,
    socket: ReadHalf<BoxedSocket>,
    sink: WriteHalf<BoxedSocket>,
    reader: MessageReader,
    outgoing: Outgoing,
    /// Frames that wait for the writer: `register`, or at most 32 control requests.
    queue: VecDeque<ClientFrame>,
    /// The answer to the peer's latest ping; RFC 6455 lets earlier ones go unanswered.
    pong: Option<Bytes>,
    write_due: Option<Instant>,
    ended: Option<EndCause>,
    timeouts: Timeouts,
}

/// How far the input was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Up to an answer; more may be there.
    Answer,
    /// Up to its end.
    All,
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
        let (socket, sink) = tokio::io::split(socket);
        let reader = MessageReader::new(already_read);
        Self {
            shared,
            socket,
            sink,
            reader,
            outgoing: Outgoing::default(),
            queue: VecDeque::new(),
            pong: None,
            write_due: None,
            ended: None,
            timeouts,
        }
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

    async fn exchange(&mut self) -> Result<std::convert::Infallible, End> {
        loop {
            let came = self.read_messages();
            if came == Came::Answer {
                // Whoever waited for it may have a next request ready. That goes out before what came with the answer
                // is read, so that the peer works on the one while this side reads the other.
                tokio::task::yield_now().await;
            }
            self.hand_out(now());
            if let Some(cause) = self.ended.take() {
                return Err(cause.into());
            }
            if self.shared.is_closing() {
                return Err(End { error: ConnectionError::closed_here(), close: Some(CloseCode::NORMAL) });
            }
            self.refill();
            match came {
                Came::Answer => self.write_at_once()?,
                Came::All => self.progress().await?,
            }
        }
    }

    /// Writes what the socket takes without waiting; the rest is left to the next [`Self::progress`].
    fn write_at_once(&mut self) -> Result<(), End> {
        while !self.outgoing.is_idle() {
            let Some(wrote) = self.outgoing.write_some(&mut self.sink).now_or_never() else { break };
            wrote?;
        }
        self.wrote();
        Ok(())
    }

    /// Some bytes were written: what is left has its time anew.
    fn wrote(&mut self) {
        self.write_due = (!self.outgoing.is_idle()).then(|| now() + self.timeouts.write);
    }

    /// Waits for the first of: bytes from the peer, room for ours, a handle's wish, a deadline.
    async fn progress(&mut self) -> Result<(), End> {
        let session_due = self.shared.with_session(|session| session.poll_timeout());
        let due = session_due.map(|(due, _)| due).into_iter().chain(self.write_due).min();
        let writes = !self.outgoing.is_idle();
        tokio::select! {
            count = self.socket.read_buf(self.reader.input()) => {
                if count? == 0 {
                    self.shared.with_session(|session| session.peer_closed(CloseCode(1006)));
                }
            }
            wrote = self.outgoing.write_some(&mut self.sink), if writes => {
                wrote?;
                self.wrote();
            }
            () = self.shared.woken() => {}
            () = until(due), if due.is_some() => {
                let now = now();
                self.shared.with_session(|session| session.timed_out(now));
                if self.write_due.is_some_and(|due| due <= now) {
                    return Err(End { error: ConnectionError::write_stalled(), close: None });
                }
            }
        }
        Ok(())
    }

    /// Hands complete messages to the session, up to the first that answers a request.
    fn read_messages(&mut self) -> Came {
        let arrived = now();
        loop {
            match self.reader.next() {
                Ok(None) => return Came::All,
                Ok(Some(Message::Ping(payload))) => self.pong = Some(payload),
                Ok(Some(Message::Close(code))) => self.shared.with_session(|session| session.peer_closed(code)),
                Ok(Some(Message::Text(text))) => self.read_text(text.bytes()),
                Err(breach) => self.shared.with_session(|session| session.breached(breach)),
            }
            if self.hand_out(arrived) == Came::Answer {
                return Came::Answer;
            }
        }
    }

    /// Carries the session's effects out. An end is remembered: what came before it still counts.
    fn hand_out(&mut self, arrived: Instant) -> Came {
        let mut came = Came::All;
        while let Some(effect) = self.shared.with_session(|session| session.poll_effect()) {
            match effect {
                Effect::Send(frame) => self.queue.push_back(frame),
                Effect::Welcomed(welcome) => self.shared.set_welcome(welcome),
                Effect::Deliver(delivery) => self.shared.push(Received::new(delivery, arrived)),
                Effect::Answered(id, answer) => {
                    self.shared.answer(id, answer);
                    came = Came::Answer;
                }
                Effect::End(cause) => self.ended = Some(cause),
            }
        }
        came
    }

    /// Gives the writer its next bytes, once it has written the last ones.
    fn refill(&mut self) {
        if !self.outgoing.is_idle() {
            return;
        }
        if let Some(payload) = self.pong.take() {
            self.outgoing.pong(&payload);
        }
        for frame in self.queue.drain(..) {
            let text = Zeroizing::new(wire::encode_client(&frame));
            self.outgoing.text(&text);
        }
        self.wrote();
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
    async fn part(&mut self, code: CloseCode) {
        self.outgoing.close(code);
        let goodbye = async {
            while !self.outgoing.is_idle() {
                self.outgoing.write_some(&mut self.sink).await?;
            }
            self.sink.shutdown().await
        };
        let rest = async {
            let mut scrap = [0; 4096];
            while self.socket.read(&mut scrap).await.is_ok_and(|count| count > 0) {}
        };
        // A failure of either only means that the peer is gone already.
        let _ = tokio::join!(goodbye, rest);
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
