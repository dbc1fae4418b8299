//! What a server counts about itself, in the Prometheus text form.
//!
//! Each server has a recorder of its own, so that several in one process (tests, an application that embeds
//! one) don't mix. Labels come from closed sets; no id, name or path of a client is ever one. The table is in
//! docs/server.md.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder as _, SharedString, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::store::{StoreFigures, Swept};

const METADATA: Metadata<'static> = Metadata::new("perilune::server", Level::INFO, None);

/// Upper ends of the buckets of every duration, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];

/// Upper ends of the buckets of counts.
const COUNTS: [f64; 9] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client closed it.
    Closed,
    /// The connection was lost.
    Lost,
    /// The client broke the contract.
    Protocol,
    /// The client read too slowly.
    SlowReader,
    /// The client was silent for three heartbeats, or never registered.
    Silent,
    /// Refused: credential, permission, subscription, history, limit, store.
    Refused,
    /// The server stops.
    Shutdown,
}

impl Ended {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Closed, "closed"),
        (Self::Lost, "lost"),
        (Self::Protocol, "protocol"),
        (Self::SlowReader, "slow_reader"),
        (Self::Silent, "silent"),
        (Self::Refused, "refused"),
        (Self::Shutdown, "shutdown"),
    ];
}

/// What became of an `ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckOutcome {
    /// It confirmed.
    Acked,
    /// The same proof had confirmed before.
    Replayed,
    /// `PROOF_LOST`.
    Lost,
    /// `PROOF_INVALID`.
    Invalid,
    /// The credential or the store refused it.
    Refused,
}

impl AckOutcome {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Acked, "acked"),
        (Self::Replayed, "replayed"),
        (Self::Lost, "lost"),
        (Self::Invalid, "invalid"),
        (Self::Refused, "refused"),
    ];
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportOutcome {
    /// It is a new event.
    Written,
    /// Its idempotency key was seen with the same body.
    Seen,
    /// It was refused: malformed, bad value, conflict.
    Refused,
}

impl ReportOutcome {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Written, "written"), (Self::Seen, "seen"), (Self::Refused, "refused")];
}

/// The server's figures.
pub(crate) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    pub(crate) sessions: Gauge,
    pub(crate) requests: Gauge,
    pub(crate) sessions_opened: Counter,
    sessions_ended: Vec<Counter>,
    pub(crate) deliveries_first: Counter,
    pub(crate) deliveries_again: Counter,
    pub(crate) deliveries_unsent: Counter,
    acks: Vec<Counter>,
    pub(crate) ack_seconds: Histogram,
    proof_invalid: Counter,
    reports: Vec<Counter>,
    sweeps: Counter,
    leases_lapsed: Counter,
    deliveries_expired: Counter,
    pub(crate) events_forgotten: Counter,
    pub(crate) lease_rounds: Counter,
    pub(crate) lease_round_deliveries: Histogram,
    pub(crate) store_errors: Counter,
    pub(crate) limited: Counter,
    subscription_blocked: Gauge,
    subscriptions: Gauge,
    log_head: Gauge,
    log_events: Gauge,
    deliveries_in_progress: Gauge,
    deliveries_expired_now: Gauge,
    acknowledged: Gauge,
}

impl Metrics {
    /// Registers every figure, so that each is there from the first scrape on.
    pub(crate) fn new() -> Self {
        let counts = Matcher::Full("perilune_lease_round_deliveries".to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(counts, &COUNTS))
            // An empty slice is all that can be wrong with buckets.
            .expect("buckets are given")
            .build_recorder();
        let new = Registrar(&recorder);
        Self {
            sessions: new.gauge("perilune_sessions", "WebSocket sessions, registered or not"),
            requests: new.gauge("perilune_requests", "HTTP requests with a credential that are being answered"),
            sessions_opened: new.counter("perilune_sessions_opened_total", "WebSockets accepted", None),
            sessions_ended: new.by("perilune_sessions_ended_total", "Sessions ended, by cause", "cause", &Ended::ALL),
            deliveries_first: new.counter(
                DELIVERIES,
                "Deliveries sent, by whether it was their first lease",
                Some(("lease", "first")),
            ),
            deliveries_again: new.counter(
                DELIVERIES,
                "Deliveries sent, by whether it was their first lease",
                Some(("lease", "again")),
            ),
            deliveries_unsent: new.counter(
                "perilune_deliveries_unsent_total",
                "Leases that were not sent, since their session had gone",
                None,
            ),
            acks: new.by("perilune_acks_total", "Acknowledgements, by outcome", "outcome", &AckOutcome::ALL),
            ack_seconds: new.histogram("perilune_ack_seconds", "From an ack to its receipt", Unit::Seconds),
            proof_invalid: new.counter(
                "perilune_proof_invalid_total",
                "Proofs with a wrong secret or a generation never leased",
                None,
            ),
            reports: new.by("perilune_reports_total", "Reports, by outcome", "outcome", &ReportOutcome::ALL),
            sweeps: new.counter("perilune_sweeps_total", "Runs of the sweeper", None),
            leases_lapsed: new.counter(
                "perilune_leases_lapsed_total",
                "Leases that ran out and will be tried again",
                None,
            ),
            deliveries_expired: new.counter(
                "perilune_deliveries_expired_total",
                "Deliveries whose budget was spent",
                None,
            ),
            events_forgotten: new.counter("perilune_events_forgotten_total", "Events removed by log retention", None),
            lease_rounds: new.counter("perilune_lease_rounds_total", "Times the store was asked for leases", None),
            lease_round_deliveries: new.histogram(
                "perilune_lease_round_deliveries",
                "Deliveries that one question leased",
                Unit::Count,
            ),
            store_errors: new.counter("perilune_store_errors_total", "Questions that the store could not answer", None),
            limited: new.counter("perilune_limited_total", "Requests and sessions refused by a limit", None),
            subscription_blocked: new
                .gauge("perilune_subscription_blocked", "Subscriptions whose window is full of EXPIRED deliveries"),
            subscriptions: new.gauge("perilune_subscriptions", "Subscriptions"),
            log_head: new.gauge("perilune_log_head", "Newest sequence of the log"),
            log_events: new.gauge("perilune_log_events", "Events that the log holds"),
            deliveries_in_progress: new.gauge("perilune_deliveries_open", "Open deliveries that are not EXPIRED"),
            deliveries_expired_now: new.gauge("perilune_deliveries_expired", "EXPIRED deliveries"),
            acknowledged: new
                .gauge("perilune_deliveries_acknowledged", "Deliveries confirmed by the subscriptions that there are"),
            handle: recorder.handle(),
            recorder,
        }
    }

    /// Counts a session's end.
    pub(crate) fn ended(&self, cause: Ended) {
        pick(&Ended::ALL, &self.sessions_ended, &cause);
    }

    /// Counts an ack.
    pub(crate) fn acked(&self, outcome: AckOutcome, took: Duration) {
        pick(&AckOutcome::ALL, &self.acks, &outcome);
        self.ack_seconds.record(took);
        if outcome == AckOutcome::Invalid {
            self.proof_invalid.increment(1);
        }
    }

    /// Counts a report.
    pub(crate) fn reported(&self, outcome: ReportOutcome) {
        pick(&ReportOutcome::ALL, &self.reports, &outcome);
    }

    /// Counts a sweep.
    pub(crate) fn swept(&self, swept: &Swept) {
        self.sweeps.increment(1);
        self.leases_lapsed.increment(swept.lapsed);
        self.deliveries_expired.increment(swept.expired.iter().map(|expired| expired.count).sum());
    }

    /// Counts an HTTP request by its route's pattern.
    pub(crate) fn requested(&self, method: &'static str, route: String, status: u16, took: Duration) {
        let status = ["1xx", "2xx", "3xx", "4xx", "5xx"][usize::from(status / 100).clamp(1, 5) - 1];
        let labels = vec![Label::from_static_parts("method", method), Label::new("route", route)];
        let by_status = [labels.clone(), vec![Label::from_static_parts("status", status)]].concat();
        self.recorder
            .register_counter(&Key::from_parts("perilune_http_requests_total", by_status), &METADATA)
            .increment(1);
        self.recorder
            .register_histogram(&Key::from_parts("perilune_http_request_seconds", labels), &METADATA)
            .record(took);
    }

    /// The text of one scrape, with the store's figures where it answered.
    pub(crate) fn render(&self, figures: Option<&StoreFigures>) -> String {
        if let Some(figures) = figures {
            // Gauges are floating-point in Prometheus; counts beyond 2^53 lose their last digits there.
            let set = |gauge: &Gauge, value: u64| gauge.set(value as f64);
            set(&self.subscription_blocked, figures.blocked.len() as u64);
            set(&self.subscriptions, figures.subscriptions);
            set(&self.log_head, figures.head.0);
            set(&self.log_events, figures.events);
            set(&self.deliveries_in_progress, figures.in_progress);
            set(&self.deliveries_expired_now, figures.expired);
            set(&self.acknowledged, figures.acknowledged);
        }
        self.handle.run_upkeep();
        self.handle.render()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

const DELIVERIES: &str = "perilune_deliveries_total";

fn pick<T: PartialEq>(all: &[(T, &'static str)], counters: &[Counter], value: &T) {
    let place = all.iter().position(|(known, _)| known == value);
    if let Some(counter) = place.and_then(|place| counters.get(place)) {
        counter.increment(1);
    }
}

struct Registrar<'r>(&'r PrometheusRecorder);

impl Registrar<'_> {
    fn counter(&self, name: &'static str, help: &'static str, label: Option<(&'static str, &'static str)>) -> Counter {
        self.0.describe_counter(name.into(), None, SharedString::const_str(help));
        let labels = label.map(|(key, value)| Label::from_static_parts(key, value)).into_iter().collect::<Vec<_>>();
        let counter = self.0.register_counter(&Key::from_parts(name, labels), &METADATA);
        // A counter that was never touched is not shown.
        counter.increment(0);
        counter
    }

    fn by<T>(
        &self,
        name: &'static str,
        help: &'static str,
        key: &'static str,
        all: &[(T, &'static str)],
    ) -> Vec<Counter> {
        all.iter().map(|(_, value)| self.counter(name, help, Some((key, value)))).collect()
    }

    fn gauge(&self, name: &'static str, help: &'static str) -> Gauge {
        self.0.describe_gauge(name.into(), None, SharedString::const_str(help));
        let gauge = self.0.register_gauge(&Key::from_static_name(name), &METADATA);
        gauge.set(0.0);
        gauge
    }

    fn histogram(&self, name: &'static str, help: &'static str, unit: Unit) -> Histogram {
        self.0.describe_histogram(name.into(), Some(unit), SharedString::const_str(help));
        self.0.register_histogram(&Key::from_static_name(name), &METADATA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_there_before_anything_happened() {
        let text = Metrics::new().render(None);
        for line in [
            "perilune_sessions 0",
            "perilune_proof_invalid_total 0",
            "perilune_subscription_blocked 0",
            "perilune_sessions_ended_total{cause=\"slow_reader\"} 0",
            "perilune_acks_total{outcome=\"lost\"} 0",
            "perilune_reports_total{outcome=\"written\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn an_invalid_proof_is_a_security_event_of_its_own() {
        let metrics = Metrics::new();
        metrics.acked(AckOutcome::Invalid, Duration::from_millis(3));
        metrics.acked(AckOutcome::Lost, Duration::from_millis(3));
        let text = metrics.render(None);
        assert!(text.contains("perilune_proof_invalid_total 1"), "{text}");
        assert!(text.contains("perilune_ack_seconds_bucket{le=\"0.005\"} 2"), "{text}");
    }
}
