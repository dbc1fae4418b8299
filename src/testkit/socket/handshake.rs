//! The upgrade, read and answered by hand: the script may break it at any byte.

use std::io;
use std::time::Duration;

use actix_http::ws::hash_key;
use bytes::{Buf as _, BytesMut};
use perilune_proto::limits::{EVENTS_PATH, HANDSHAKE_TIMEOUT, SUBPROTOCOL};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest request head.
const HEAD_BYTES_MAX: usize = 16_384;

/// What a client asked for.
pub(super) struct Request {
    head: String,
}

impl Request {
    /// Reads a request's head. What came behind it stays in `buffer`.
    pub(super) async fn read(socket: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Self> {
        let read = async {
            loop {
                if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
                    buffer.advance(end + 4);
                    return Ok(Self { head });
                }
                if buffer.len() > HEAD_BYTES_MAX || socket.read_buf(buffer).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        timeout(HANDSHAKE_TIMEOUT, read).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The answer: an upgrade, or the status that refuses it.
    pub(super) fn answer(&self, credential: &str) -> Result<Vec<u8>, u16> {
        let path = self.head.split(' ').nth(1).unwrap_or_default();
        if path != EVENTS_PATH {
            return Err(404);
        }
        if self.header("authorization") != Some(&format!("Bearer {credential}")) {
            return Err(401);
        }
        let offered = self.header("sec-websocket-protocol").unwrap_or_default();
        let Some(key) = self.header("sec-websocket-key") else { return Err(400) };
        if !offered.split(',').any(|protocol| protocol.trim() == SUBPROTOCOL) {
            return Err(400);
        }
        let accept = hash_key(key.as_bytes());
        let accept = String::from_utf8_lossy(&accept);
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accept}\r\nsec-websocket-protocol: {SUBPROTOCOL}\r\n\r\n"
        );
        Ok(head.into_bytes())
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.split("\r\n").skip(1);
        lines.find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A refusal with a problem document.
pub(super) fn refusal(status: u16) -> Vec<u8> {
    let body = format!(r#"{{"title":"refused by the script","status":{status}}}"#);
    let head = format!(
        "HTTP/1.1 {status} Refused\r\nconnection: close\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// How long whoever was refused may take to read it and leave.
pub(super) const LEAVING: Duration = Duration::from_secs(2);
