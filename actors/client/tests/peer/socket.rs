//! The peer's end of an upgraded connection, byte by byte.

use perilune_proto::scalar::MessageId;
use perilune_proto::wire::{self, Ack, ClientFrame, Ping, Register, ServerFrame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Io, frames, patiently};

/// An upgraded connection. Dropping it sends a plain FIN, without a WebSocket close.
pub struct Socket {
    io: Box<dyn Io>,
}

/// What a client sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    Text(String),
    Pong(Vec<u8>),
    /// The close code; `None` where there is none.
    Close(Option<u16>),
    /// The client has ended the connection.
    End,
}

/// The bytes of an unmasked frame; `first` is FIN, the reserved bits and the opcode.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(first, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// The header of an unmasked frame that announces so many bytes.
pub fn header(first: u8, length: u64) -> Vec<u8> {
    match length {
        0..126 => vec![first, length as u8],
        126..65_536 => [vec![first, 126], (length as u16).to_be_bytes().to_vec()].concat(),
        _ => [vec![first, 127], length.to_be_bytes().to_vec()].concat(),
    }
}

pub const TEXT: u8 = 0x81;
pub const TEXT_BEGIN: u8 = 0x01;
pub const CONTINUE: u8 = 0x00;
pub const CONTINUE_END: u8 = 0x80;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8a;

impl Socket {
    /// The peer's end of something that is upgraded already.
    pub fn new(io: Box<dyn Io>) -> Self {
        Self { io }
    }

    /// Writes bytes as they are. A client that has gone is no failure.
    pub async fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_raw(bytes).await;
    }

    /// Writes bytes as they are, and tells whether the client still takes them.
    pub async fn try_raw(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.io.write_all(bytes.as_ref()).await?;
        self.io.flush().await
    }

    pub async fn text(&mut self, text: &str) {
        self.raw(frame(TEXT, text.as_bytes())).await;
    }

    pub async fn send(&mut self, frame: &ServerFrame) {
        self.text(&wire::encode_server(frame)).await;
    }

    pub async fn close(&mut self, code: u16) {
        self.raw(frame(CLOSE, &code.to_be_bytes())).await;
    }

    /// Ends the stream in this direction.
    pub async fn fin(&mut self) {
        self.io.shutdown().await.expect("open");
    }

    /// What the client sends next.
    pub async fn got(&mut self) -> Got {
        patiently(self.read_frame()).await.unwrap_or(Got::End)
    }

    async fn read_frame(&mut self) -> std::io::Result<Got> {
        let (first, second) = (self.io.read_u8().await?, self.io.read_u8().await?);
        assert!(second & 0x80 != 0, "a client masks");
        let length = match second & 0x7f {
            126 => self.io.read_u16().await?.into(),
            127 => self.io.read_u64().await?,
            short => short.into(),
        };
        let mut mask = [0; 4];
        self.io.read_exact(&mut mask).await?;
        let mut payload = vec![0; usize::try_from(length).expect("fits")];
        self.io.read_exact(&mut payload).await?;
        payload.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= mask[at % 4]);
        Ok(match first {
            TEXT => Got::Text(String::from_utf8(payload).expect("UTF-8")),
            PONG => Got::Pong(payload),
            CLOSE => Got::Close(payload.first_chunk().map(|code| u16::from_be_bytes(*code))),
            other => panic!("a client does not send {other:#x}"),
        })
    }

    /// The next frame of the contract.
    pub async fn client_frame(&mut self) -> ClientFrame {
        match self.got().await {
            Got::Text(text) => wire::decode_client(&text).expect("a frame of the contract"),
            other => panic!("not a frame: {other:?}"),
        }
    }

    pub async fn register(&mut self) -> Register {
        match self.client_frame().await {
            ClientFrame::Register(register) => register,
            other => panic!("not a register: {other:?}"),
        }
    }

    pub async fn ack(&mut self) -> Ack {
        match self.client_frame().await {
            ClientFrame::Ack(ack) => ack,
            other => panic!("not an ack: {other:?}"),
        }
    }

    pub async fn ping(&mut self) -> Ping {
        match self.client_frame().await {
            ClientFrame::Ping(ping) => ping,
            other => panic!("not a ping: {other:?}"),
        }
    }

    /// Takes the `register` and answers with a `welcome`.
    pub async fn welcome(&mut self) {
        let register = self.register().await;
        self.send(&ServerFrame::Welcome(frames::welcome(&register))).await;
    }

    /// Delivers event number `n`.
    pub async fn deliver(&mut self, n: u128) {
        self.send(&frames::delivery(n)).await;
    }

    /// Answers an `ack` as the server that sent [`frames::delivery`] would.
    pub async fn acked(&mut self, ack: &Ack) {
        self.send(&frames::acked(ack)).await;
    }

    pub async fn pong(&mut self, reply_to: MessageId) {
        self.send(&frames::pong(reply_to)).await;
    }
}
