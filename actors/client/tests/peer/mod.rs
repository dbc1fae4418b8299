//! A scripted peer: a server of `orbit.events.v1` whose every byte the test decides.
//!
//! It shares no WebSocket code with the client. A test accepts a [`Request`], answers or upgrades it, and
//! then plays the server on a [`Socket`]. Nothing happens by itself.

pub mod frames;
pub mod socket;
pub mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

pub use socket::{Got, Socket};

/// Plain TCP or TLS.
pub trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Longer than anything that a client does by itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fails the test, instead of hanging it, when the client does nothing.
async fn patiently<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("the client should have done something by now")
}

/// Listens on loopback.
pub struct Peer {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    ending: Ending,
}

/// What a dropped socket sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Fin,
    Reset,
}

impl Peer {
    pub async fn plain() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port"), tls: None, ending: Ending::Fin }
    }

    pub async fn encrypted(config: ServerConfig) -> Self {
        Self { tls: Some(TlsAcceptor::from(Arc::new(config))), ..Self::plain().await }
    }

    /// A socket that is dropped resets its connection.
    pub fn resetting(self) -> Self {
        Self { ending: Ending::Reset, ..self }
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("bound")
    }

    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://localhost:{}", self.address().port())
    }

    /// The next connection before a byte was read.
    pub async fn accept_tcp(&self) -> TcpStream {
        let (tcp, _) = patiently(self.listener.accept()).await.expect("a connection");
        tcp.set_nodelay(true).expect("open");
        if self.ending == Ending::Reset {
            tcp.set_zero_linger().expect("open");
        }
        tcp
    }

    /// The next connection's request.
    pub async fn accept(&self) -> Request {
        self.try_accept().await.expect("a request")
    }

    /// As [`Self::accept`], where the client may give up within the TLS handshake or before its request.
    pub async fn try_accept(&self) -> std::io::Result<Request> {
        let tcp = self.accept_tcp().await;
        match &self.tls {
            None => patiently(Request::read(Box::new(tcp))).await,
            Some(acceptor) => patiently(async { Request::read(Box::new(acceptor.accept(tcp).await?)).await }).await,
        }
    }

    /// Accepts and upgrades, then plays the server up to the `welcome`.
    pub async fn welcome(&self) -> Socket {
        let mut socket = self.accept().await.upgrade().await;
        socket.welcome().await;
        socket
    }
}

/// A client's upgrade request.
pub struct Request {
    /// The request line and the headers, as they came.
    pub head: String,
    io: Box<dyn Io>,
}

impl Request {
    async fn read(mut io: Box<dyn Io>) -> std::io::Result<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            // A client that keeps the contract sends nothing before the answer.
            head.push(io.read_u8().await?);
        }
        Ok(Self { head: String::from_utf8(head).expect("ASCII"), io })
    }

    /// The value of a header, however its name is written.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The right value of `Sec-WebSocket-Accept`.
    pub fn accept_key(&self) -> String {
        derive_accept_key(self.header("sec-websocket-key").expect("a key").as_bytes())
    }

    /// Answers with these bytes and keeps the connection open.
    pub async fn answer(mut self, bytes: impl AsRef<[u8]>) -> Socket {
        self.io.write_all(bytes.as_ref()).await.expect("the client reads");
        self.io.flush().await.expect("the client reads");
        Socket::new(self.io)
    }

    /// Answers with a status, headers (each ending in CRLF) and a body of stated length.
    pub async fn refuse(self, status: u16, headers: &str, body: &str) -> Socket {
        let length = body.len();
        self.answer(format!("HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\n\r\n{body}")).await
    }

    /// Answers with a 101 that has these headers besides the right ones.
    pub async fn upgrade_with(self, headers: &str) -> Socket {
        let accept = self.accept_key();
        self.answer(format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accept}\r\n{headers}\r\n"
        ))
        .await
    }

    /// Answers as the contract says.
    pub async fn upgrade(self) -> Socket {
        self.upgrade_with("sec-websocket-protocol: orbit.events.v1\r\n").await
    }
}
