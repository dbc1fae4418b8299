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
                Err(error) => {
                    // What is behind a broken frame is none, and the parser may have left the frame where it is.
                    bytes.clear();
                    return Some(match error {
                        ProtocolError::Overflow => Incoming::Broken(FrameError::TooLong),
                        _ => Incoming::Garbage,
                    });
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_behind_a_broken_frame() {
        // A masked text of 2^63 bytes, whose header the parser refuses without taking it.
        let mut bytes = BytesMut::from(&[0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4][..]);
        let mut reader = Reader::default();
        assert!(matches!(reader.next(&mut bytes), Some(Incoming::Broken(FrameError::TooLong))));
        assert!(reader.next(&mut bytes).is_none());
    }
}
