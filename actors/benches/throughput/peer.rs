//! The least platform that keeps the contract: everything in memory, one thread, 32 deliveries outstanding.

use std::net::SocketAddr;
use std::sync::mpsc;

use futures_util::{SinkExt as _, StreamExt as _};
use perilune_actors::proto::scalar::{DeliveryId, EventId, Generation, Secret, SessionId, SubscriptionId};
use perilune_actors::proto::wire::{
    Acked, ClientFrame, ServerFrame, Welcome, decode_client, encode_delivery, encode_server,
};
use perilune_actors::proto::{EventProof, RawJson};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Starts it on a thread of its own.
pub(crate) fn start() -> SocketAddr {
    let (sender, address) = mpsc::channel();
    let thread = std::thread::Builder::new().name("peer".to_owned());
    let serving = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            sender.send(listener.local_addr().expect("bound")).expect("the bench waits");
            while let Ok((socket, _)) = listener.accept().await {
                crate::placement::take_peer();
                serve(socket).await;
            }
        });
    });
    serving.expect("a thread");
    address.recv().expect("the peer listens")
}

#[expect(clippy::unnecessary_wraps, clippy::result_large_err, reason = "the library's callback")]
fn choose_protocol(_: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("orbit.events.v1"));
    Ok(response)
}

async fn serve(socket: TcpStream) {
    socket.set_nodelay(true).expect("a TCP socket");
    // The library clears its whole read buffer at each read: 128 KiB by default, which would cost the peer more than all
    // that it does for an event, and make it the bottleneck.
    let config = WebSocketConfig::default().read_buffer_size(4 * 1_024);
    let accepted = tokio_tungstenite::accept_hdr_async_with_config(socket, choose_protocol, Some(config)).await;
    let mut socket = accepted.expect("an upgrade");
    let session_id = SessionId::from_u128(1);
    let mut next = 1;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        match decode_client(&text).expect("a frame") {
            ClientFrame::Register(register) => {
                let welcome = ServerFrame::Welcome(Welcome {
                    reply_to: register.message_id,
                    session_id,
                    subscription_id: register.subscription_id,
                    subscription_name: "bench".to_owned(),
                    enabled: true,
                    capacity: register.capacity,
                    heartbeat_interval_ms: 15_000,
                    lease_ms: 30_000,
                    server_time: "2026-01-01T00:00:00Z".parse().expect("a time"),
                });
                socket.feed(Message::text(encode_server(&welcome))).await.expect("fed");
                for _ in 0..register.capacity {
                    socket.feed(Message::text(delivery(session_id, next))).await.expect("fed");
                    next += 1;
                }
            }
            ClientFrame::Ack(ack) => {
                let acked = ServerFrame::Acked(Acked {
                    session_id,
                    reply_to: ack.message_id,
                    delivery_id: ack.delivery_id,
                    event_id: EventId::from_bytes(*ack.delivery_id.as_bytes()),
                    generation: ack.generation,
                    replayed: false,
                });
                socket.feed(Message::text(encode_server(&acked))).await.expect("fed");
                socket.feed(Message::text(delivery(session_id, next))).await.expect("fed");
                next += 1;
            }
            _ => {}
        }
        if socket.flush().await.is_err() {
            return;
        }
    }
}

fn delivery(session_id: SessionId, n: u64) -> String {
    let proof = EventProof {
        subscription_id: SubscriptionId::from_u128(1),
        delivery_id: DeliveryId::from_u128(n.into()),
        event_id: EventId::from_u128(n.into()),
        generation: Generation(1),
        secret: Secret::from_bytes([7; 32]),
    };
    let payload = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000));
    let null = RawJson::null();
    let event = format!(
        r#"{{"event_id":"{n:032x}","sequence":"{n}","type":"task.succeeded","queue":"bench","task_id":"{n:032x}","task_version":"1","occurred_at":"2026-01-01T00:00:00Z","snapshot":{{"task_id":"{n:032x}","queue":"bench","operation":"Bench","status":"succeeded","version":"1","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","payload":{payload},"result":{},"error":null}}}}"#,
        null.as_str()
    );
    encode_delivery(session_id, &proof, 30_000, &event)
}
