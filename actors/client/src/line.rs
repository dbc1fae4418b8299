//! The socket, and what waits to be written to it.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use awc::BoxedSocket;
use bytes::{Bytes, BytesMut};
use perilune_proto::instant::later;
use perilune_proto::wire::{self, ClientFrame, CloseCode};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use zeroize::Zeroize as _;

use crate::outgoing::Outgoing;
use crate::shared::now;

/// One connection's line to the platform. The pump reads it and waits on it; whoever sends a request writes
/// what goes out at once.
pub(crate) struct Line {
    socket: BoxedSocket,
    outgoing: Outgoing,
    /// Frames that wait for the writer: `register`, or at most 32 control requests.
    queue: VecDeque<ClientFrame>,
    /// The answer to the peer's latest ping; RFC 6455 lets earlier ones go unanswered.
    pong: Option<Bytes>,
    /// How long the peer may take nothing.
    patience: Duration,
    /// When the patience ends, where the peer took nothing last time.
    write_due: Option<Instant>,
    /// What a request's writer has met; the pump tells it.
    failure: Option<io::Error>,
}

impl Line {
    pub(crate) fn new(socket: BoxedSocket, patience: Duration) -> Self {
        let outgoing = Outgoing::default();
        Self { socket, outgoing, queue: VecDeque::new(), pong: None, patience, write_due: None, failure: None }
    }

    /// Puts a frame behind those that wait.
    pub(crate) fn push(&mut self, frame: ClientFrame) {
        self.queue.push_back(frame);
    }

    /// Answers the peer's ping.
    pub(crate) fn pong(&mut self, payload: Bytes) {
        self.pong = Some(payload);
    }

    /// When the peer must have taken some bytes.
    pub(crate) const fn write_due(&self) -> Option<Instant> {
        self.write_due
    }

    /// Writes all that waits, as far as the socket takes it. Ready once nothing is left.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Err(failure));
        }
        loop {
            self.refill();
            if self.outgoing.is_idle() {
                return Poll::Ready(Ok(()));
            }
            match self.outgoing.poll_write(&mut self.socket, cx) {
                // What is left has its time anew.
                Poll::Ready(wrote) => {
                    wrote?;
                    self.write_due = None;
                }
                Poll::Pending => {
                    self.write_due.get_or_insert_with(|| later(now(), self.patience));
                    return Poll::Pending;
                }
            }
        }
    }

    /// Writes without waiting. False where the pump has to see to what is left, or to a failure.
    pub(crate) fn write_at_once(&mut self) -> bool {
        match self.poll_write(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(failure)) => {
                self.failure = Some(failure);
                false
            }
            Poll::Pending => false,
        }
    }

    /// Gives the writer its next bytes, once it has written the last ones.
    fn refill(&mut self) {
        if !self.outgoing.is_idle() {
            return;
        }
        if let Some(payload) = self.pong.take() {
            self.outgoing.pong(&payload);
        }
        while let Some(frame) = self.queue.pop_front() {
            let mut text = wire::encode_client(&frame).into_bytes();
            self.outgoing.text(&text);
            // It may hold a proof. As a slice it is wiped in bulk, as a string byte by byte.
            text.as_mut_slice().zeroize();
        }
    }

    /// Reads into the buffer, and tells how many bytes.
    pub(crate) fn poll_read(&mut self, input: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pin!(self.socket.read_buf(input)).poll(cx)
    }

    /// Makes a close the last that is written.
    pub(crate) fn close(&mut self, code: CloseCode) {
        self.outgoing.close(code);
    }

    /// Writes what was begun and the close, and ends the writing side.
    pub(crate) fn poll_goodbye(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_idle() {
            ready!(self.outgoing.poll_write(&mut self.socket, cx))?;
        }
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
