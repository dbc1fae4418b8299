//! A stranger's client: tokio-tungstenite, and frames written by hand.

use std::collections::VecDeque;
use std::panic::Location;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::http_harness::{PATIENCE, TestServer};

/// A WebSocket of the server, with what the last `welcome` said.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session_id: String,
    sent: u128,
    /// Frames that came while an answer was awaited.
    early: VecDeque<Value>,
}

/// How a server ended a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With this close code, after these `error` codes.
    Closed(u16, Vec<String>),
    /// Without a close.
    Cut,
}

impl Client {
    /// Dials with the subprotocol.
    pub(crate) async fn dial(server: &TestServer, credential: &str) -> Result<Self, Error> {
        Self::dial_offering(server, credential, Some("orbit.events.v1")).await
    }

    /// Dials with other offers.
    pub(crate) async fn dial_offering(
        server: &TestServer,
        credential: &str,
        offers: Option<&str>,
    ) -> Result<Self, Error> {
        Self::dial_at(&server.url(""), credential, offers).await
    }

    /// Dials a platform by its URL.
    pub(crate) async fn dial_at(url: &str, credential: &str, offers: Option<&str>) -> Result<Self, Error> {
        let url = format!("{}/v1/events", url.replacen("http", "ws", 1));
        let mut request = url.into_client_request().expect("a request");
        let headers = request.headers_mut();
        headers.insert("authorization", format!("Bearer {credential}").parse().expect("a header"));
        if let Some(offers) = offers {
            headers.insert("sec-websocket-protocol", offers.parse().expect("a header"));
        }
        let (socket, _) = timeout(PATIENCE, connect_async(request)).await.expect("an answer in time")?;
        Ok(Self { socket, session_id: String::new(), sent: 0, early: VecDeque::new() })
    }

    /// Dials and registers with the server's own credential.
    pub(crate) async fn consume(server: &TestServer, subscription: &str, capacity: u8) -> Self {
        let mut client = Self::dial(server, &server.credential).await.expect("a websocket");
        let welcome = client.register(subscription, capacity).await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        client
    }

    /// Registers and gives the answer.
    pub(crate) async fn register(&mut self, subscription: &str, capacity: u8) -> Value {
        let message_id = self.message_id();
        let register = json!({
            "type": "register", "message_id": message_id, "subscription_id": subscription, "capacity": capacity,
        });
        self.send(&register).await;
        let answer = self.frame().await;
        self.session_id = answer["session_id"].as_str().unwrap_or_default().to_owned();
        answer
    }

    /// A new message id.
    pub(crate) fn message_id(&mut self) -> String {
        self.sent += 1;
        format!("{:032x}", self.sent)
    }

    /// A ping of this session.
    pub(crate) fn ping_frame(&mut self) -> Value {
        json!({"type": "ping", "session_id": self.session_id, "message_id": self.message_id()})
    }

    /// An ack of this session for a delivery.
    pub(crate) fn ack_frame(&mut self, delivery: &Value) -> Value {
        let delivery = &delivery["delivery"];
        json!({
            "type": "ack", "session_id": self.session_id, "message_id": self.message_id(),
            "delivery_id": delivery["delivery_id"], "generation": delivery["generation"], "secret": delivery["secret"],
        })
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_message(Message::text(frame.to_string())).await;
    }

    pub(crate) async fn send_message(&mut self, message: Message) {
        timeout(PATIENCE, self.socket.send(message)).await.expect("in time").expect("sent");
    }

    /// Sends a frame and gives its answer; deliveries that come before it are kept.
    #[track_caller]
    pub(crate) fn ask(&mut self, frame: &Value) -> impl Future<Output = Value> {
        let (caller, message_id) = (Location::caller(), frame["message_id"].clone());
        async move {
            self.send(frame).await;
            loop {
                let answer = self.read(caller).await;
                if answer["reply_to"] == message_id || answer["type"] == "error" {
                    return answer;
                }
                self.early.push_back(answer);
            }
        }
    }

    /// Pings and gives the answer.
    pub(crate) async fn ping(&mut self) -> Value {
        let ping = self.ping_frame();
        self.ask(&ping).await
    }

    /// Acknowledges a delivery and gives the answer.
    pub(crate) async fn ack(&mut self, delivery: &Value) -> Value {
        let ack = self.ack_frame(delivery);
        self.ask(&ack).await
    }

    /// Acknowledges a delivery, and where its lease has lapsed meanwhile, its newest generation.
    pub(crate) async fn settle(&mut self, mut delivery: Value) {
        loop {
            let answer = self.ack(&delivery).await;
            if answer["type"] == "acked" {
                return;
            }
            assert_eq!(answer["code"], "PROOF_LOST", "{answer}");
            delivery = self.delivery().await;
        }
    }

    /// The next frame of the contract.
    #[track_caller]
    pub(crate) fn frame(&mut self) -> impl Future<Output = Value> {
        let caller = Location::caller();
        async move {
            match self.early.pop_front() {
                Some(frame) => frame,
                None => self.read(caller).await,
            }
        }
    }

    async fn read(&mut self, caller: &Location<'_>) -> Value {
        loop {
            match timeout(PATIENCE, self.socket.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => return serde_json::from_str(&text).expect("json"),
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                other => panic!("no frame but {other:?} at {caller}"),
            }
        }
    }

    /// The next delivery.
    #[track_caller]
    pub(crate) fn delivery(&mut self) -> impl Future<Output = Value> {
        let caller = Location::caller();
        async move {
            let frame = self.frame().await;
            assert_eq!(frame["type"], "delivery", "{frame} at {caller}");
            frame
        }
    }

    /// Reads to the end, collecting the codes of `error` frames.
    pub(crate) async fn end(&mut self) -> End {
        let mut codes = Vec::new();
        loop {
            match timeout(PATIENCE, self.socket.next()).await.expect("an end in time") {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).expect("json");
                    if frame["type"] == "error" {
                        codes.push(frame["code"].as_str().expect("a code").to_owned());
                    }
                }
                Some(Ok(Message::Close(close))) => {
                    return End::Closed(close.map_or(1005, |close| close.code.into()), codes);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return End::Cut,
            }
        }
    }
}

/// An end with a close code and one `error` before it.
pub(crate) fn closed_with(code: u16, error: &str) -> End {
    End::Closed(code, vec![error.to_owned()])
}
