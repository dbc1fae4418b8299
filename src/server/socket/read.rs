//! Bytes of a client to WebSocket messages. Pure: it is fed and asked, and knows no socket.

use bytes::Bytes;
use perilune_proto::wire::CloseCode;

/// A whole message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A text message, its fragments joined.
    Text(String),
    /// A ping, to be answered with the same bytes.
    Ping(Bytes),
    /// A pong. Means nothing to the contract.
    Pong,
    /// The client closes, with its code where it gave one.
    Close(Option<u16>),
}

/// Why a connection can't go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breach {
    /// A frame or a joined message announces more than the limit.
    TooLarge,
    /// A binary message.
    Binary,
    /// A text message or close reason that is not UTF-8.
    InvalidText,
    /// RFC 6455 was broken; what was wrong.
    Protocol(&'static str),
}

impl Breach {
    /// The close code that the contract answers it with.
    pub(crate) const fn close_code(self) -> CloseCode {
        match self {
            Self::TooLarge => CloseCode::TOO_LARGE,
            Self::Binary => CloseCode::UNSUPPORTED,
            Self::InvalidText => CloseCode::INVALID_TEXT,
            Self::Protocol(_) => CloseCode::PROTOCOL,
        }
    }
}

/// Longest payload of a control frame (RFC 6455 section 5.5).
const CONTROL_MAX: usize = 125;
/// Longest header of a client's frame: two bytes, an 8-byte length, the mask.
const HEADER_MAX: usize = 14;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Reads a client's frames. It holds at most one message of the limit's length and one control frame.
///
/// After a [`Breach`] it yields nothing more.
#[derive(Debug)]
pub(crate) struct Reader {
    limit: usize,
    state: State,
    /// The text message that is being joined.
    message: Vec<u8>,
    /// Whether a fragmented text message is open.
    open: bool,
    control: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Header(Vec<u8>),
    Payload(Frame),
    Dead,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    fin: bool,
    opcode: u8,
    mask: [u8; 4],
    length: usize,
    taken: usize,
}

impl Reader {
    /// Makes a reader of messages of at most `limit` bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, state: State::Header(Vec::new()), message: Vec::new(), open: false, control: Vec::new() }
    }

    /// Takes bytes off `input` until a message is complete or the input is used up.
    ///
    /// # Errors
    /// [`Breach`], once; the reader is dead from then on.
    pub(crate) fn read(&mut self, input: &mut Bytes) -> Result<Option<Incoming>, Breach> {
        let outcome = self.advance(input);
        if outcome.is_err() {
            self.state = State::Dead;
            self.message = Vec::new();
        }
        outcome
    }

    fn advance(&mut self, input: &mut Bytes) -> Result<Option<Incoming>, Breach> {
        loop {
            match &mut self.state {
                State::Dead => {
                    input.clear();
                    return Ok(None);
                }
                State::Header(header) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    header.push(input[0]);
                    let _ = input.split_to(1);
                    if let Some(frame) = parse_header(header, self.limit - self.message.len(), self.open)? {
                        self.state = State::Payload(frame);
                    }
                }
                State::Payload(frame) => {
                    let into = if frame.opcode < CLOSE { &mut self.message } else { &mut self.control };
                    unmask(frame, input, into);
                    if frame.taken < frame.length {
                        return Ok(None);
                    }
                    let frame = *frame;
                    self.state = State::Header(Vec::with_capacity(HEADER_MAX));
                    if let Some(message) = self.finish(frame)? {
                        return Ok(Some(message));
                    }
                }
            }
        }
    }

    /// What a complete frame amounts to; `None` for a fragment that others follow.
    fn finish(&mut self, frame: Frame) -> Result<Option<Incoming>, Breach> {
        match frame.opcode {
            CONTINUATION | TEXT => {
                self.open = !frame.fin;
                if !frame.fin {
                    return Ok(None);
                }
                let text = String::from_utf8(std::mem::take(&mut self.message)).map_err(|_| Breach::InvalidText)?;
                Ok(Some(Incoming::Text(text)))
            }
            PING => Ok(Some(Incoming::Ping(std::mem::take(&mut self.control).into()))),
            PONG => {
                self.control.clear();
                Ok(Some(Incoming::Pong))
            }
            _ => parse_close(&std::mem::take(&mut self.control)).map(|code| Some(Incoming::Close(code))),
        }
    }
}

fn unmask(frame: &mut Frame, input: &mut Bytes, into: &mut Vec<u8>) {
    let chunk = input.split_to(input.len().min(frame.length - frame.taken));
    into.reserve(chunk.len());
    let offset = frame.taken;
    into.extend(chunk.iter().enumerate().map(|(i, byte)| byte ^ frame.mask[(offset + i) % 4]));
    frame.taken += chunk.len();
}

/// Judges a header as its bytes come, so that what is refused is refused before its payload is read.
///
/// `None` while more bytes of the header are needed.
fn parse_header(header: &[u8], room: usize, open: bool) -> Result<Option<Frame>, Breach> {
    let &[first, second, ref rest @ ..] = header else { return Ok(None) };
    let (fin, opcode) = (first & 0x80 != 0, first & 0x0f);
    judge_start(first, second, open)?;
    let short = usize::from(second & 0x7f);
    let Some((length, rest)) = parse_length(short, rest)? else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| Breach::TooLarge)?;
    if opcode < CLOSE && length > room {
        return Err(Breach::TooLarge);
    }
    let Ok(mask) = rest.try_into() else { return Ok(None) };
    Ok(Some(Frame { fin, opcode, mask, length, taken: 0 }))
}

fn judge_start(first: u8, second: u8, open: bool) -> Result<(), Breach> {
    let (fin, opcode) = (first & 0x80 != 0, first & 0x0f);
    if first & 0x70 != 0 {
        return Err(Breach::Protocol("a reserved bit is set and no extension was agreed"));
    }
    if second & 0x80 == 0 {
        return Err(Breach::Protocol("a client's frame must be masked"));
    }
    match opcode {
        CONTINUATION if !open => Err(Breach::Protocol("a continuation without a start")),
        TEXT | BINARY if open => Err(Breach::Protocol("a new message inside a fragmented one")),
        BINARY => Err(Breach::Binary),
        CONTINUATION | TEXT => Ok(()),
        CLOSE | PING | PONG if !fin => Err(Breach::Protocol("a control frame must not be fragmented")),
        CLOSE | PING | PONG if usize::from(second & 0x7f) > CONTROL_MAX => {
            Err(Breach::Protocol("a control frame has 125 bytes at most"))
        }
        CLOSE | PING | PONG => Ok(()),
        _ => Err(Breach::Protocol("a reserved opcode")),
    }
}

/// The payload's length and what follows it in the header.
fn parse_length(short: usize, rest: &[u8]) -> Result<Option<(u64, &[u8])>, Breach> {
    const LONG: Breach = Breach::Protocol("a length must be written in its shortest form");
    let length = match short {
        126 => rest.split_first_chunk().map(|(bytes, rest)| (u64::from(u16::from_be_bytes(*bytes)), rest)),
        127 => rest.split_first_chunk().map(|(bytes, rest)| (u64::from_be_bytes(*bytes), rest)),
        short => Some((short as u64, rest)),
    };
    match length {
        Some((length, _)) if short == 126 && length < 126 => Err(LONG),
        Some((length, _)) if short == 127 && length < 65_536 => Err(LONG),
        Some((length, _)) if length >> 63 != 0 => Err(Breach::Protocol("the top bit of a length must be zero")),
        other => Ok(other),
    }
}

fn parse_close(payload: &[u8]) -> Result<Option<u16>, Breach> {
    match payload {
        [] => Ok(None),
        [_] => Err(Breach::Protocol("a close code has two bytes")),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                return Err(Breach::Protocol("a close code that must not be sent"));
            }
            std::str::from_utf8(reason).map_err(|_| Breach::InvalidText)?;
            Ok(Some(code))
        }
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
