//! Bytes on their way to the socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_http::ws::{CloseReason, OpCode, Parser};
use bytes::BytesMut;
use perilune_proto::wire::CloseCode;
use tokio::io::AsyncWrite;
use zeroize::Zeroize as _;

/// The frames that are being written. The line adds to it only when it is empty, so that it stays small.
#[derive(Default)]
pub(crate) struct Outgoing {
    bytes: BytesMut,
    written: usize,
    /// Written, but perhaps still in a TLS buffer.
    unflushed: bool,
}

impl Outgoing {
    pub(crate) fn is_idle(&self) -> bool {
        self.bytes.is_empty() && !self.unflushed
    }

    pub(crate) fn text(&mut self, text: &[u8]) {
        self.put(text, OpCode::Text);
    }

    pub(crate) fn pong(&mut self, payload: &[u8]) {
        self.put(payload, OpCode::Pong);
    }

    fn put(&mut self, payload: &[u8], opcode: OpCode) {
        Parser::write_message(&mut self.bytes, payload, opcode, true, true);
    }

    pub(crate) fn close(&mut self, code: CloseCode) {
        // 1005 and 1006 stand for a close without a code and must not be written.
        let reason = (!matches!(code.0, 1005 | 1006)).then(|| CloseReason::from(awc::ws::CloseCode::from(code.0)));
        Parser::write_close(&mut self.bytes, reason, true);
    }

    /// Makes some progress.
    pub(crate) fn poll_write(
        &mut self,
        socket: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = Pin::new(socket);
        if self.bytes.is_empty() {
            ready!(socket.poll_flush(cx))?;
            self.unflushed = false;
            return Poll::Ready(Ok(()));
        }
        let count = ready!(socket.poll_write(cx, &self.bytes[self.written..]))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.written += count;
        self.unflushed = true;
        if self.written == self.bytes.len() {
            self.wipe();
        }
        Poll::Ready(Ok(()))
    }

    fn wipe(&mut self) {
        self.bytes[..].zeroize();
        self.bytes.clear();
        self.written = 0;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.wipe();
    }
}
