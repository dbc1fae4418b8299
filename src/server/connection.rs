//! One TCP connection, watched: a peer that takes no byte of what waits is cut off, and so is one that its
//! session gives up.
//!
//! It stands below TLS, so that it tells what the peer's socket took and not what a buffer took.

use std::cell::{Cell, RefCell};
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use actix_rt::net::{ActixStream, Ready, TcpStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A peer that takes no byte of what waits for this long is cut off (settled.md).
const STALL_MAX: Duration = Duration::from_secs(5);

/// What a session knows of its connection, and does to it.
#[derive(Default)]
pub(crate) struct Wire {
    stalled: Cell<bool>,
    cut: Cell<bool>,
    /// The connection's task.
    task: RefCell<Option<Waker>>,
}

impl Wire {
    /// Whether the connection was dropped since the peer took nothing.
    pub(crate) fn stalled(&self) -> bool {
        self.stalled.get()
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
}

/// A TCP stream with its [`Wire`].
pub(crate) struct Watched<G> {
    stream: TcpStream,
    wire: Rc<Wire>,
    /// Runs while a write waits.
    stall: Option<Pin<Box<Sleep>>>,
    /// Counts the connection for as long as it lives.
    _guard: G,
}

impl<G> Watched<G> {
    /// Watches a stream, with Nagle's algorithm off: frames are small and answered.
    pub(crate) fn new(stream: TcpStream, guard: G) -> Self {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "a connection goes on without TCP_NODELAY");
        }
        Self { stream, wire: Rc::default(), stall: None, _guard: guard }
    }

    /// Ends a write that waits for too long.
    fn bound<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stall = None;
            return outcome;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_MAX)));
        if stall.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.wire.stalled.set(true);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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

impl<G: Unpin> AsyncRead for Watched<G> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.wire.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<G: Unpin> AsyncWrite for Watched<G> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.wire.check(cx)?;
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bound(cx, outcome)
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
        self.bound(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<G: Unpin> ActixStream for Watched<G> {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        self.wire.check(cx)?;
        ActixStream::poll_read_ready(&self.stream, cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        self.wire.check(cx)?;
        ActixStream::poll_write_ready(&self.stream, cx)
    }
}
