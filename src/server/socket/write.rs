//! Messages of the server to WebSocket frames: unmasked, unfragmented.

use bytes::{BufMut as _, Bytes, BytesMut};
use perilune_proto::wire::CloseCode;

const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
const PONG: u8 = 0x8a;

/// A text message.
pub(crate) fn text(message: &str) -> Bytes {
    frame(TEXT, message.as_bytes())
}

/// The answer to a ping, with its bytes (125 at most, as its frame had).
pub(crate) fn pong(payload: &[u8]) -> Bytes {
    frame(PONG, payload)
}

/// A close with its code and no reason: a reason would be text that somebody logs.
pub(crate) fn close(code: CloseCode) -> Bytes {
    frame(CLOSE, &code.0.to_be_bytes())
}

/// A close without a code, the answer to one.
pub(crate) fn close_without_code() -> Bytes {
    frame(CLOSE, &[])
}

fn frame(first: u8, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(payload.len() + 10);
    bytes.put_u8(first);
    match u16::try_from(payload.len()) {
        Ok(short @ 0..=125) => bytes.put_slice(&[short.to_be_bytes()[1]]),
        Ok(medium) => {
            bytes.put_u8(126);
            bytes.put_u16(medium);
        }
        Err(_) => {
            bytes.put_u8(127);
            bytes.put_u64(payload.len() as u64);
        }
    }
    bytes.put_slice(payload);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_its_shortest_form() {
        for (length, header) in [
            (0, vec![0x81, 0]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 0xff, 0xff]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let bytes = text(&"x".repeat(length));
            assert_eq!(bytes[..header.len()], header);
            assert_eq!(bytes.len(), header.len() + length);
        }
    }

    #[test]
    fn a_close_carries_its_code_alone() {
        assert_eq!(close(CloseCode::RESTART), Bytes::from_static(&[0x88, 2, 0x03, 0xf4]));
        assert_eq!(close_without_code(), Bytes::from_static(&[0x88, 0]));
    }
}
