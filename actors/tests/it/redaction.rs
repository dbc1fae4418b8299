//! At TRACE, under faults: no secret, credential, payload or remote text in anything that is written.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Recorder, SharedString, Unit};
use perilune_actors::proto::wire::ErrorCode;
use perilune_actors::{Consumer, HandlerError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{CREDENTIAL, Peer, REMOTE_TEXT, Sent, client, soon, subscription_id, until};

static WRITTEN: Mutex<String> = Mutex::new(String::new());

/// Writes everything of everybody down.
struct Everything(AtomicU64);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

fn write_down(what: impl FnOnce(&mut Fields<'_>)) {
    let mut written = WRITTEN.lock().expect("no test panics here");
    what(&mut Fields(&mut written));
    written.push('\n');
}

impl Subscriber for Everything {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // The peer of the tests runs in this process, too, and its library writes whole frames.
        !metadata.target().starts_with("tungstenite") && !metadata.target().starts_with("tokio_tungstenite")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        write_down(|fields| span.record(fields));
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        write_down(|fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        write_down(|fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Writes the names and labels of all figures down.
struct Figures;

impl Figures {
    fn seen(key: &Key) {
        write_down(|fields| {
            let _ = write!(fields.0, "metric {key:?}");
        });
        METRICS.lock().expect("no test panics here").insert(key.name().to_owned());
    }
}

static METRICS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

impl Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> Counter {
        Self::seen(key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Self::seen(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        Self::seen(key);
        Histogram::noop()
    }
}

#[actix::test]
async fn nothing_that_is_written_tells_a_secret() {
    tracing::subscriber::set_global_default(Everything(AtomicU64::new(0))).expect("the only one in this binary");
    metrics::set_global_recorder(Figures).map_err(|_| "a second recorder").expect("the only one in this binary");
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .reconnect_min_delay(Duration::from_millis(10))
        .handler(|event, _context| async move {
            if event.sequence.0 == 1 { Err(HandlerError::msg("business-detail-of-the-tests")) } else { Ok(()) }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    peer.refuse(503).await;
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    until("the failure", || handle.stats().handler_failures == 1).await;
    let sent = session.deliver(2, 1).await;
    session.ack().await;
    session.error(None, ErrorCode::Unavailable).await;
    session.closed().await;
    let mut session = peer.session().await;
    let ack = session.ack().await;
    session.error(Some(ack.message_id), ErrorCode::ProofLost).await;
    until("the loss", || handle.stats().proofs_lost == 1).await;
    session.error(None, ErrorCode::from_wire("a code with remote-detail-of-the-tests")).await;
    session.closed().await;
    let error = soon("the end", handle.ended()).await.expect_err("permanent");
    write_down(|fields| {
        let _ = write!(fields.0, "{error} {handle:?} {consumer:?}");
    });
    let documented = include_str!("../../../docs/consumer.md");
    for name in &*METRICS.lock().expect("no test panics here") {
        assert!(documented.contains(&format!("| `{name}` |")), "{name} is not in docs/consumer.md");
    }
    let written = WRITTEN.lock().expect("no test panics here");
    assert!(written.contains("perilune.disconnected"), "something was written");
    assert!(written.contains("perilune.handler_failed"));
    let secrets = [Sent { n: 1, generation: 1 }, sent].map(|sent| sent.proof().secret.expose_text().to_string());
    for told in [CREDENTIAL, REMOTE_TEXT, "business-detail", &secrets[0], &secrets[1]] {
        assert!(!written.contains(told), "{told} was written");
    }
}
