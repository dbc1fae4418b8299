//! The platform's side of a socket, by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{SinkExt as _, StreamExt as _};
use perilune_actors::proto::scalar::{EventId, MessageId, SessionId};
use perilune_actors::proto::wire::{
    Ack, Acked, ClientFrame, ErrorCode, ErrorFrame, Ping, Pong, Register, ServerFrame, Welcome, decode_client,
    encode_server,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Sent, soon};

/// A listening platform. Each connection is handed to the test, which plays the platform on it.
pub struct Peer {
    address: SocketAddr,
    sockets: mpsc::UnboundedReceiver<TcpStream>,
    /// How many have connected.
    pub dials: Arc<AtomicU64>,
    next_session: u128,
    accepting: tokio::task::AbortHandle,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Peer {
    /// Listens on a free port of the loopback.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (sender, sockets) = mpsc::unbounded_channel();
        let dials = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dials);
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                if sender.send(socket).is_err() {
                    return;
                }
            }
        });
        Self { address, sockets, dials, next_session: 1, accepting: accepting.abort_handle() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn dials(&self) -> u64 {
        self.dials.load(Ordering::Relaxed)
    }

    /// The next TCP connection, nothing read from it yet.
    pub async fn socket(&mut self) -> TcpStream {
        let socket = soon("a dial", self.sockets.recv()).await.expect("the listener lives");
        socket.set_nodelay(true).expect("a TCP socket");
        socket
    }

    /// Upgrades the next connection and reads its `register`.
    pub async fn registered(&mut self) -> Session {
        let socket = self.socket().await;
        let upgraded = tokio_tungstenite::accept_hdr_async(socket, choose_protocol);
        let socket = soon("the upgrade", upgraded).await.expect("an upgrade");
        let mut session =
            Session { socket, id: SessionId::from_u128(self.next_session), register: None, last_ack: None };
        self.next_session += 1;
        match session.frame().await {
            ClientFrame::Register(register) => session.register = Some(register),
            frame => panic!("expected register, got {frame:?}"),
        }
        session
    }

    /// The next session, welcomed with the contract's terms.
    pub async fn session(&mut self) -> Session {
        let mut session = self.registered().await;
        session.welcome(true, 15_000).await;
        session
    }

    /// Refuses the next connection with an HTTP status.
    pub async fn refuse(&mut self, status: u16) {
        let mut socket = self.socket().await;
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(soon("the request", socket.read_u8()).await.expect("a whole request"));
        }
        let body = format!(r#"{{"title":"{}","status":{status}}}"#, super::REMOTE_TEXT);
        let head = format!(
            "HTTP/1.1 {status} No\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(format!("{head}{body}").as_bytes()).await.expect("the client reads");
    }
}

#[expect(clippy::unnecessary_wraps, clippy::result_large_err, reason = "the library's callback")]
fn choose_protocol(
    request: &Request,
    mut response: Response,
) -> Result<Response, tokio_tungstenite::tungstenite::handshake::server::ErrorResponse> {
    assert_eq!(request.uri().path(), "/v1/events");
    assert_eq!(request.headers()["authorization"], format!("Bearer {}", super::CREDENTIAL));
    response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("orbit.events.v1"));
    Ok(response)
}

/// One session, played by the test.
pub struct Session {
    socket: WebSocketStream<TcpStream>,
    pub id: SessionId,
    register: Option<Register>,
    last_ack: Option<Ack>,
}

/// The receipt for an `ack` of this one.
pub fn acked(session: &Session, sent: Sent, ack: &Ack, replayed: bool) -> ServerFrame {
    let proof = sent.proof();
    assert_eq!((ack.delivery_id, ack.generation), (proof.delivery_id, proof.generation));
    assert_eq!(ack.secret, proof.secret);
    ServerFrame::Acked(Acked {
        session_id: session.id,
        reply_to: ack.message_id,
        delivery_id: ack.delivery_id,
        event_id: EventId::from_u128(sent.n.into()),
        generation: ack.generation,
        replayed,
    })
}

impl Session {
    /// What the client registered with.
    pub fn register(&self) -> &Register {
        self.register.as_ref().expect("read when the session was made")
    }

    pub async fn welcome(&mut self, enabled: bool, heartbeat_interval_ms: u32) {
        let register = self.register().clone();
        self.send(ServerFrame::Welcome(Welcome {
            reply_to: register.message_id,
            session_id: self.id,
            subscription_id: register.subscription_id,
            subscription_name: "tests".to_owned(),
            enabled,
            capacity: register.capacity,
            heartbeat_interval_ms,
            lease_ms: 30_000,
            server_time: "2026-01-01T00:00:00Z".parse().expect("a time"),
        }))
        .await;
    }

    pub async fn send(&mut self, frame: ServerFrame) {
        let text = encode_server(&frame);
        // A client that has gone is what some tests are about.
        let _ = self.socket.send(Message::text(text)).await;
    }

    /// Delivers the n-th event in a generation, under a whole lease.
    pub async fn deliver(&mut self, n: u64, generation: u64) -> Sent {
        self.deliver_for(n, generation, 30_000).await
    }

    pub async fn deliver_for(&mut self, n: u64, generation: u64, lease_ms: u32) -> Sent {
        let sent = Sent { n, generation };
        self.send(ServerFrame::Delivery(sent.delivery(self.id, lease_ms))).await;
        sent
    }

    /// The next frame; pings of the heartbeat come through too.
    pub async fn frame(&mut self) -> ClientFrame {
        let text = self.message().await.unwrap_or_else(|| panic!("the client went"));
        decode_client(&text).unwrap_or_else(|error| panic!("{error}"))
    }

    async fn message(&mut self) -> Option<String> {
        soon("a frame", async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return Some(text.as_str().to_owned()),
                    // A close is answered when the next message is asked for.
                    Some(Err(_)) | None => return None,
                    Some(Ok(_)) => {}
                }
            }
        })
        .await
    }

    /// The next `ack`; pings on the way are answered.
    pub async fn ack(&mut self) -> Ack {
        loop {
            match self.frame().await {
                ClientFrame::Ack(ack) => {
                    self.last_ack = Some(ack.clone());
                    return ack;
                }
                ClientFrame::Ping(ping) => self.pong(&ping, true).await,
                frame => panic!("expected an ack, got {frame:?}"),
            }
        }
    }

    /// The next `ping`.
    pub async fn ping(&mut self) -> Ping {
        match self.frame().await {
            ClientFrame::Ping(ping) => ping,
            frame => panic!("expected a ping, got {frame:?}"),
        }
    }

    pub async fn pong(&mut self, ping: &Ping, enabled: bool) {
        self.send(ServerFrame::Pong(Pong { session_id: self.id, reply_to: ping.message_id, enabled })).await;
    }

    /// Confirms an `ack`, after checking that it is this one's.
    pub async fn confirm(&mut self, ack: &Ack, sent: Sent, replayed: bool) {
        let receipt = acked(self, sent, ack, replayed);
        self.send(receipt).await;
    }

    /// Waits for the `ack` of this one and confirms it.
    pub async fn settle(&mut self, sent: Sent) {
        let ack = self.ack().await;
        self.confirm(&ack, sent, false).await;
    }

    /// The last `ack` that was read.
    pub fn last_ack(&self) -> Ack {
        self.last_ack.clone().expect("an ack was read")
    }

    /// Answers a request, or ends the session, with an error.
    pub async fn error(&mut self, reply_to: Option<MessageId>, code: ErrorCode) {
        self.send(ServerFrame::Error(ErrorFrame {
            session_id: Some(self.id),
            reply_to,
            code,
            message: super::REMOTE_TEXT.to_owned(),
            retry_after_ms: None,
        }))
        .await;
    }

    /// Closes with a code.
    pub async fn close(mut self, code: u16) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: "".into() };
        let _ = self.socket.close(Some(frame)).await;
    }

    /// Cuts the connection without a word.
    pub fn cut(self) {
        drop(self.socket);
    }

    /// Resolves when the client has closed.
    pub async fn closed(&mut self) {
        while self.message().await.is_some() {}
        // The server closes TCP, which the client waits for.
        let _ = self.socket.get_mut().shutdown().await;
    }
}
