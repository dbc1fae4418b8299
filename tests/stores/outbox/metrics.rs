//! What a relay tells the `metrics` facade.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use perilune::outbox::{Relay, SendFailure};

use super::{Receiver, message, quick, until, write};
use crate::engines::{Site, TestEngine, exercise};

/// Counts by name and labels; gauges and histograms by name alone.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counts {
    fn cell(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.0.lock().expect("no panic").entry(name).or_default())
    }

    fn of(&self, name: &str) -> Option<u64> {
        self.0.lock().expect("no panic").get(name).map(|cell| cell.load(Ordering::Relaxed))
    }
}

struct Told(Arc<AtomicU64>);

impl metrics::HistogramFn for Told {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Told(self.cell(key))))
    }
}

async fn each_end_is_counted<DB: TestEngine>(site: Site<DB>) {
    // One thread runs the relay and its tasks.
    let counts = Counts::default();
    let _guard = metrics::set_default_local_recorder(&counts);
    write(&site, [message("fine"), message("slow"), message("refused"), message("edited")]).await;
    let last = "(SELECT m FROM (SELECT MAX(id) AS m FROM {p}outbox) AS x)";
    site.run(&format!("UPDATE {{p}}outbox SET message_id = 'none' WHERE id = {last}")).await;
    let receiver = Receiver::default().fails("slow", 2, SendFailure::retry("BUSY")).fails(
        "refused",
        1,
        SendFailure::refused("HTTP_422"),
    );
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver, quick()).expect("started");
    until(&site, "SELECT COUNT(*) FROM {p}outbox WHERE state <> 2", 0).await;
    relay.drain().await;
    let ended = |outcome: &str| counts.of(&format!("perilune_outbox_messages_total{{topic=topic,outcome={outcome}}}"));
    assert_eq!((ended("sent"), ended("retried"), ended("dead")), (Some(2), Some(2), Some(1)));
    assert_eq!(counts.of("perilune_outbox_malformed_total{}"), Some(1));
    assert_eq!(counts.of("perilune_outbox_send_seconds{topic=topic}"), Some(5));
    assert!(counts.of("perilune_outbox_lag_seconds{}").is_some());
    site.close().await;
}

#[test]
fn each_end_of_a_message_is_counted() {
    exercise::<sqlx::Sqlite, _>(each_end_is_counted);
}
