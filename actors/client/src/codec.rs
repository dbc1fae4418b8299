//! WebSocket messages out of bytes: awc's frame codec behind a guard, and the joining of fragments.

use actix_codec::Decoder as _;
use actix_http::ws::Item;
use awc::ws::{CloseReason, Codec, Frame};
use bytes::{Bytes, BytesMut};
use perilune_proto::limits;
use perilune_proto::session::Breach;
use perilune_proto::wire::{CloseCode, FrameError};
use zeroize::{Zeroize as _, Zeroizing};

/// Room to read into while no frame has begun.
const READ_BYTES: usize = 8 * 1024;

/// What a peer may send. Pongs are swallowed.
pub(crate) enum Message {
    Text(Text),
    Ping(Bytes),
    Close(CloseCode),
}

/// A text message. It is wiped when it is dropped.
pub(crate) enum Text {
    /// One frame, just where it was read, and where its payload begins.
    Whole(BytesMut, usize),
    /// The payloads of several.
    Joined(Zeroizing<Vec<u8>>),
}

impl Text {
    /// Its bytes, which nobody has checked yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(frame, begins) => &frame[*begins..],
            Self::Joined(bytes) => bytes,
        }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if let Self::Whole(frame, _) = self {
            frame[..].zeroize();
        }
    }
}

/// Turns bytes into messages. After a breach it gives nothing more: the codec below would repeat some
/// errors for ever and skip what caused others.
pub(crate) struct MessageReader {
    codec: Codec,
    input: BytesMut,
    /// The fragments so far of a message that is not complete.
    joined: Option<Zeroizing<Vec<u8>>>,
    over: bool,
}

impl MessageReader {
    /// `already_read` is what came in one segment with the 101.
    pub(crate) fn new(already_read: BytesMut) -> Self {
        let codec = Codec::new().max_size(limits::FRAME_BYTES_MAX).client_mode();
        Self { codec, input: already_read, joined: None, over: false }
    }

    /// Where the socket's bytes go, with room for them.
    pub(crate) fn input(&mut self) -> &mut BytesMut {
        if self.input.capacity() - self.input.len() < READ_BYTES / 2 {
            self.make_room(READ_BYTES);
        }
        &mut self.input
    }

    /// Whether there are bytes that belong to no message yet.
    pub(crate) fn has_more(&self) -> bool {
        !self.input.is_empty()
    }

    /// The next complete message, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Breach> {
        if self.over {
            return Ok(None);
        }
        self.next_message().inspect_err(|_| self.over = true)
    }

    fn next_message(&mut self) -> Result<Option<Message>, Breach> {
        while let Some((header, mut frame)) = self.next_frame()? {
            if self.joined.is_none() && header.is_whole_text() {
                // Nearly every message. It is read in place: the codec would add nothing to the guard but copies.
                return Ok(Some(Message::Text(Text::Whole(frame, header.bytes))));
            }
            // A copy of its own, so that the frame's bytes can be wiped where they were read.
            let parsed = self.codec.decode(&mut BytesMut::from(&frame[..]));
            frame[..].zeroize();
            let Some(parsed) = parsed.map_err(|_| Breach::Framing)? else {
                // The guard cut a whole frame out; less than one to the codec is a contradiction.
                return Err(Breach::Framing);
            };
            if let Some(message) = self.join(parsed)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Cuts the next whole frame out of the input, and judges the header before the rest is there.
    fn next_frame(&mut self) -> Result<Option<(Header, BytesMut)>, Breach> {
        let Some(header) = Header::read(&self.input) else {
            return Ok(None);
        };
        header.check(self.joined.as_ref().map_or(0, |joined| joined.len()))?;
        // In range: the check above has bounded the length.
        let whole = header.bytes + header.payload as usize;
        if self.input.len() < whole {
            // And for what `input` keeps ready, so that it moves once.
            self.make_room(whole - self.input.len() + READ_BYTES / 2);
            return Ok(None);
        }
        Ok(Some((header, self.input.split_to(whole))))
    }

    /// Makes room for so many more bytes. Part of a frame is moved by hand, so that its old place is wiped.
    fn make_room(&mut self, bytes: usize) {
        if self.input.is_empty() || self.input.capacity() - self.input.len() >= bytes {
            return self.input.reserve(bytes);
        }
        let mut larger = BytesMut::with_capacity(self.input.len() + bytes);
        larger.extend_from_slice(&self.input);
        self.input[..].zeroize();
        self.input = larger;
    }

    fn join(&mut self, frame: Frame) -> Result<Option<Message>, Breach> {
        match frame {
            Frame::Text(bytes) => Ok(Some(Message::Text(Text::Joined(owned(bytes))))),
            Frame::Binary(_) | Frame::Continuation(Item::FirstBinary(_)) => Err(FrameError::Binary.into()),
            Frame::Continuation(Item::FirstText(bytes)) => {
                self.joined = Some(owned(bytes));
                Ok(None)
            }
            Frame::Continuation(Item::Continue(bytes)) => {
                self.append(bytes)?;
                Ok(None)
            }
            Frame::Continuation(Item::Last(bytes)) => {
                self.append(bytes)?;
                Ok(self.joined.take().map(|joined| Message::Text(Text::Joined(joined))))
            }
            Frame::Ping(bytes) => Ok(Some(Message::Ping(bytes))),
            Frame::Pong(_) => Ok(None),
            Frame::Close(reason) => Ok(Some(Message::Close(close_code(reason)))),
        }
    }

    fn append(&mut self, bytes: Bytes) -> Result<(), Breach> {
        let joined = self.joined.as_mut().ok_or(Breach::Framing)?;
        let needed = joined.len() + bytes.len();
        if joined.capacity() < needed {
            // By hand, so that the outgrown buffer is wiped.
            let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(joined.capacity() * 2)));
            larger.extend_from_slice(joined);
            *joined = larger;
        }
        joined.extend_from_slice(&owned(bytes));
        Ok(())
    }
}

impl Drop for MessageReader {
    fn drop(&mut self) {
        self.input[..].zeroize();
    }
}

/// Takes a payload out of the codec's buffer, which nothing else uses.
fn owned(bytes: Bytes) -> Zeroizing<Vec<u8>> {
    match bytes.try_into_mut() {
        Ok(mut unique) => {
            let copy = Zeroizing::new(unique.to_vec());
            unique[..].zeroize();
            copy
        }
        Err(shared) => Zeroizing::new(shared.to_vec()),
    }
}

fn close_code(reason: Option<CloseReason>) -> CloseCode {
    // RFC 6455, 7.1.5: a close without a code counts as 1005.
    CloseCode(reason.map_or(1005, |reason| reason.code.into()))
}

/// The fixed part of a frame (RFC 6455, 5.2).
struct Header {
    first: u8,
    /// How long the header is.
    bytes: usize,
    /// How long the payload is.
    payload: u64,
    minimal: bool,
    masked: bool,
}

impl Header {
    fn read(input: &[u8]) -> Option<Self> {
        let &[first, second, ref rest @ ..] = input else {
            return None;
        };
        let (bytes, payload, least) = match second & 0x7f {
            126 => (4, u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 126),
            127 => (10, u64::from_be_bytes(*rest.first_chunk()?), 65_536),
            short => (2, u64::from(short), 0),
        };
        Some(Self { first, bytes, payload, minimal: payload >= least, masked: second & 0x80 != 0 })
    }

    /// Whether the frame is a whole text message: final, and no continuation.
    const fn is_whole_text(&self) -> bool {
        self.first == 0x81
    }

    /// Refuses what no later byte can mend; `joined` is the length of the fragments before this frame.
    fn check(&self, joined: usize) -> Result<(), Breach> {
        let opcode = self.first & 0x0f;
        let is_control = opcode & 0x08 != 0;
        let is_final = self.first & 0x80 != 0;
        let reserved_bits = self.first & 0x70 != 0;
        let reserved_opcode = !matches!(opcode, 0..=2 | 8..=10);
        let bad_control = is_control && (!is_final || self.payload > 125);
        // A binary message is one whatever its length.
        if opcode == 2 {
            return Err(FrameError::Binary.into());
        }
        if reserved_bits || reserved_opcode || bad_control || self.masked || !self.minimal {
            return Err(Breach::Framing);
        }
        let before = if is_control { 0 } else { joined as u64 };
        if before.saturating_add(self.payload) > limits::FRAME_BYTES_MAX as u64 {
            return Err(FrameError::TooLong.into());
        }
        Ok(())
    }
}
