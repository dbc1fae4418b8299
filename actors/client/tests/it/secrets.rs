//! Nothing secret is logged, even at TRACE.

use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use perilune_client::{MessageId, NewMessageId as _};
use perilune_proto::RawJson;
use perilune_proto::wire::ServerFrame;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

use crate::peer::Peer;
use crate::peer::frames::{self, delivery_with, error};
use crate::{TOKEN, client, dial_error, open, registration};

/// Everything that any crate of this process logs.
static LOGGED: Mutex<String> = Mutex::new(String::new());

fn logged() -> MutexGuard<'static, String> {
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The far end of a test that runs beside this one says what it sends; the client does not contain it.
fn is_far_end(target: &str) -> bool {
    target.starts_with("tungstenite") || target.starts_with("tokio_tungstenite")
}

struct Everything;

impl Visit for Everything {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(logged(), " {field}={value:?}");
    }
}

impl tracing::Subscriber for Everything {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !is_far_end(metadata.target())
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Self);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Self);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let _ = write!(logged(), "\n{}", event.metadata().target());
        event.record(&mut Self);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl log::Log for Everything {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if !is_far_end(record.target()) {
            let _ = write!(logged(), "\n{} {}", record.target(), record.args());
        }
    }

    fn flush(&self) {}
}

#[actix_rt::test]
async fn no_secret_payload_or_remote_text_is_logged_at_trace() {
    tracing::subscriber::set_global_default(Everything).expect("the only one");
    log::set_logger(&Everything).expect("the only one");
    log::set_max_level(log::LevelFilter::Trace);

    let peer = Peer::plain().await;
    let client = client(&peer);
    let mut shown = format!("{client:?}");
    let problem = "content-type: application/problem+json\r\n";
    let (refused, _) = tokio::join!(client.dial_events(registration(1)), async {
        peer.accept().await.refuse(401, problem, r#"{"code":"UNAUTHENTICATED","detail":"remote detail"}"#).await
    });
    let _ = write!(shown, "{refused:?}");
    let rejected = dial_error(Default::default(), async |peer: Peer| {
        let mut socket = peer.accept().await.upgrade().await;
        socket.send(&ServerFrame::Error(frames::early_error("RATE_LIMITED", None))).await;
        socket
    })
    .await;
    let _ = write!(shown, "{rejected} {rejected:?}");

    let (connection, mut socket) = open(1).await;
    let payload = RawJson::parse(r#"{"iban":"business payload"}"#, 8).expect("json");
    socket.send(&delivery_with(1, payload)).await;
    let received = connection.next().await.expect("a delivery");
    let (receipt, ack) = tokio::join!(connection.ack(MessageId::new(), received.proof()), async {
        let ack = socket.ack().await;
        socket.acked(&ack).await;
        ack
    });
    let _ = write!(shown, "{received:?} {:?} {receipt:?} {connection:?}", received.proof());
    socket.send(&error("HISTORY_GAP", None)).await;
    let _ = write!(shown, "{:?}", connection.next().await);

    let all = shown + &logged();
    assert!(all.contains("perilune_client") && all.contains("actix"), "the logs were caught:\n{all}");
    let secret = ack.secret.expose_text();
    for forbidden in [TOKEN, &secret, "business payload", "remote detail"] {
        assert!(!all.contains(forbidden), "{forbidden} was shown:\n{all}");
    }
}
