//! RFC 6455 below the contract's frames, on actix's codec.

use actix_http::ws::{CloseCode as WsCloseCode, CloseReason, OpCode, Parser, ProtocolError};
use bytes::BytesMut;
use perilune_proto::limits::FRAME_BYTES_MAX;
use perilune_proto::wire::{CloseCode, FrameError};

/// What came.
#[derive(Debug)]
pub(super) enum Incoming {
    Text(String),
    Broken(FrameError),
    Ping(Vec<u8>),
    /// With the close's payload, to be answered by the same.
    Close(Vec<u8>),
    /// RFC 6455 itself was broken.
    Garbage,
}

/// Joins frames to messages.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The fragments of a text so far.
    begun: Option<Vec<u8>>,
}

impl Reader {
    /// The next message, once all of it is there. Pongs are passed over.
    pub(super) fn next(&mut self, bytes: &mut BytesMut) -> Option<Incoming> {
        loop {
            let (last, code, payload) = match Parser::parse(bytes, true, FRAME_BYTES_MAX) {
                Ok(frame) => frame?,
                Err(ProtocolError::Overflow) => return Some(Incoming::Broken(FrameError::TooLong)),
                Err(_) => return Some(Incoming::Garbage),
            };
            let payload = payload.map(|payload| payload.to_vec()).unwrap_or_default();
            match code {
                OpCode::Ping => return Some(Incoming::Ping(payload)),
                OpCode::Pong => {}
                OpCode::Close => return Some(Incoming::Close(payload)),
                OpCode::Binary => return Some(Incoming::Broken(FrameError::Binary)),
                OpCode::Text if self.begun.is_none() => self.begun = Some(payload),
                OpCode::Continue => match &mut self.begun {
                    Some(begun) => begun.extend_from_slice(&payload),
                    None => return Some(Incoming::Garbage),
                },
                _ => return Some(Incoming::Garbage),
            }
            let too_long = self.begun.as_ref().is_some_and(|begun| begun.len() > FRAME_BYTES_MAX);
            if too_long {
                return Some(Incoming::Broken(FrameError::TooLong));
            }
            if last && matches!(code, OpCode::Text | OpCode::Continue) {
                let text = String::from_utf8(self.begun.take().unwrap_or_default());
                return Some(text.map_or(Incoming::Broken(FrameError::NotUtf8), Incoming::Text));
            }
        }
    }
}

pub(super) fn text(text: &str) -> BytesMut {
    frame(text.as_bytes(), OpCode::Text)
}

pub(super) fn pong(payload: &[u8]) -> BytesMut {
    frame(payload, OpCode::Pong)
}

pub(super) fn close(code: CloseCode) -> BytesMut {
    let mut bytes = BytesMut::new();
    let code = WsCloseCode::from(code.0);
    Parser::write_close(&mut bytes, Some(CloseReason { code, description: None }), false);
    bytes
}

/// The answer to a close: its own payload.
pub(super) fn close_again(payload: &[u8]) -> BytesMut {
    frame(payload, OpCode::Close)
}

fn frame(payload: &[u8], code: OpCode) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(payload.len() + 10);
    Parser::write_message(&mut bytes, payload, code, true, false);
    bytes
}
