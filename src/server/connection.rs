//! One TCP connection, watched: how long the peer has taken no byte, and a way to cut it.
//!
//! It stands below TLS, so that it tells what the peer's socket took and not what a buffer took.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use actix_rt::net::{ActixStream, Ready, TcpStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// What a session knows of its connection, and does to it.
#[derive(Default)]
pub(crate) struct Wire {
    /// Since when a write waits without the peer having taken a byte.
    blocked_since: Cell<Option<Instant>>,
    cut: Cell<bool>,
    /// The connection's task.
    task: RefCell<Option<Waker>>,
}

impl Wire {
    /// How long the peer has taken no byte of what waits; zero while nothing waits.
    pub(crate) fn stalled_for(&self, now: Instant) -> Duration {
        self.blocked_since.get().map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Drops the connection with whatever waits on it.
    pub(crate) fn cut(&self) {
        self.cut.set(true);
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }

    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        if self.cut.get() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
        Ok(())
    }

    fn note_write<T>(&self, outcome: &Poll<T>) {
        match outcome {
            Poll::Ready(_) => self.blocked_since.set(None),
            Poll::Pending if self.blocked_since.get().is_none() => self.blocked_since.set(Some(Instant::now())),
            Poll::Pending => {}
        }
    }
}

/// A TCP stream with its [`Wire`].
pub(crate) struct Watched {
    stream: TcpStream,
    wire: Rc<Wire>,
}

impl Watched {
    /// Watches a stream, with Nagle's algorithm off: frames are small and answered.
    pub(crate) fn new(stream: TcpStream) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "a connection goes on without TCP_NODELAY");
        }
        Self { stream, wire: Rc::default() }
    }

    /// The connection's handle for its session.
    pub(crate) fn wire(&self) -> Rc<Wire> {
        Rc::clone(&self.wire)
    }

    /// The peer's address, where it is still known.
    pub(crate) fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        self.stream.peer_addr().ok()
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.wire.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.wire.check(cx)?;
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wire.note_write(&outcome);
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wire.check(cx)?;
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wire.note_write(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl ActixStream for Watched {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        self.wire.check(cx)?;
        ActixStream::poll_read_ready(&self.stream, cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        self.wire.check(cx)?;
        ActixStream::poll_write_ready(&self.stream, cx)
    }
}
