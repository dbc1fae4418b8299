//! The consumer's figures for the `metrics` facade. Names and labels are stable; docs/consumer.md has the table.
//!
//! Labels are bounded: the subscription's id, outcomes, causes and roles from fixed sets. The handles are made once a
//! run, so install the recorder before the consumer starts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use perilune_proto::consumer::{AckAnswer, HandlerOutcome, Notice, Replay, Role, Stats};
use perilune_proto::scalar::{EventId, SubscriptionId};

use crate::cause::label;
use crate::handler_pool::{RunEnded, outcome_text};

/// The metrics of one run.
pub(crate) struct Telemetry {
    subscription: String,
    waiting: Gauge,
    running: Gauge,
    committed: Gauge,
    started: Counter,
    acknowledged: Counter,
    replayed: Counter,
    ack_seconds: Histogram,
    lease_left_seconds: Histogram,
    handler_seconds: [Histogram; 4],
    /// The last figures written: a gauge that stands still is not written again.
    written: Stats,
    /// When the leases of started events end, in the order of their starts, which is nearly that in which they go.
    /// Bounded by the slots: an entry goes with its event.
    leases: VecDeque<(EventId, Instant)>,
}

const OUTCOMES: [HandlerOutcome; 4] =
    [HandlerOutcome::Ok, HandlerOutcome::Error, HandlerOutcome::Panicked, HandlerOutcome::Gone];

impl Telemetry {
    pub(crate) fn new(subscription_id: SubscriptionId) -> Self {
        let id = subscription_id.to_string();
        let label = || id.clone();
        Self {
            waiting: gauge!("perilune_consumer_waiting", "subscription" => label()),
            running: gauge!("perilune_consumer_running", "subscription" => label()),
            committed: gauge!("perilune_consumer_committed", "subscription" => label()),
            started: counter!("perilune_consumer_handlers_started_total", "subscription" => label()),
            acknowledged: counter!(
                "perilune_consumer_acknowledged_total", "subscription" => label(), "replayed" => "false"
            ),
            replayed: counter!(
                "perilune_consumer_acknowledged_total", "subscription" => label(), "replayed" => "true"
            ),
            ack_seconds: histogram!("perilune_consumer_ack_seconds", "subscription" => label()),
            lease_left_seconds: histogram!("perilune_consumer_lease_left_seconds", "subscription" => label()),
            handler_seconds: OUTCOMES.map(|outcome| {
                histogram!(
                    "perilune_consumer_handler_seconds",
                    "subscription" => label(),
                    "outcome" => outcome_text(outcome)
                )
            }),
            written: Stats::default(),
            leases: VecDeque::new(),
            subscription: id,
        }
    }

    /// A handler is about to start.
    pub(crate) fn started(&mut self, event_id: EventId, lease_until: Instant) {
        self.started.increment(1);
        self.leases.push_back((event_id, lease_until));
    }

    /// A handler has ended.
    pub(crate) fn ended(&mut self, ended: &RunEnded) {
        let place = OUTCOMES.iter().position(|outcome| *outcome == ended.outcome).unwrap_or_default();
        self.handler_seconds[place].record(ended.took);
        if ended.outcome != HandlerOutcome::Ok {
            self.lease_of(ended.event.event_id);
        }
    }

    /// Takes what is known of an event's lease.
    fn lease_of(&mut self, event_id: EventId) -> Option<Instant> {
        let at = self.leases.iter().position(|(of, _)| *of == event_id)?;
        self.leases.remove(at).map(|(_, lease_until)| lease_until)
    }

    /// A proof was answered.
    pub(crate) fn answered(&mut self, event_id: EventId, answer: &AckAnswer, took: Duration, now: Instant) {
        self.ack_seconds.record(took);
        let lease_until = self.lease_of(event_id);
        if let AckAnswer::Confirmed { replay } = answer {
            match replay {
                Replay::First => self.acknowledged.increment(1),
                Replay::Replayed => self.replayed.increment(1),
            }
            if let Some(lease_until) = lease_until {
                self.lease_left_seconds.record(lease_until.saturating_duration_since(now));
            }
        }
    }

    /// A child has crashed.
    pub(crate) fn crashed(&mut self, role: Role) {
        if role == Role::HandlerPool {
            // Its runs end unheard.
            self.leases.clear();
        }
        counter!(
            "perilune_consumer_actors_lost_total", "subscription" => self.subscription.clone(), "actor" => role.as_str()
        )
        .increment(1);
    }

    /// Something rare that a listener is told, too.
    pub(crate) fn noticed(&self, notice: &Notice) {
        let subscription = || self.subscription.clone();
        match notice {
            Notice::Connected => counter!("perilune_consumer_connects_total", "subscription" => subscription()),
            Notice::Disconnected { cause } => counter!(
                "perilune_consumer_disconnects_total", "subscription" => subscription(), "cause" => label(&cause.code)
            ),
            Notice::ProofLost { .. } => {
                counter!("perilune_consumer_proofs_lost_total", "subscription" => subscription())
            }
            Notice::LeaseLapsed { .. } => {
                counter!("perilune_consumer_leases_lapsed_total", "subscription" => subscription())
            }
            _ => return,
        }
        .increment(1);
    }

    /// Writes the gauges that have changed.
    pub(crate) fn show(&mut self, stats: &Stats) {
        let before = std::mem::replace(&mut self.written, *stats);
        for (gauge, was, is) in [
            (&self.waiting, before.waiting, stats.waiting),
            (&self.running, before.running, stats.running),
            (&self.committed, before.committed, stats.committed),
        ] {
            if was != is {
                // Never more than 64.
                gauge.set(u32::try_from(is).unwrap_or(u32::MAX));
            }
        }
        if before.dropped_notices != stats.dropped_notices {
            counter!("perilune_consumer_notices_dropped_total", "subscription" => self.subscription.clone())
                .absolute(stats.dropped_notices);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn a_lost_pool_leaves_no_leases_behind() {
        let mut telemetry = Telemetry::new(SubscriptionId::from_u128(1));
        let (event_id, soon) = (EventId::from_u128(2), now());
        telemetry.started(event_id, soon);
        telemetry.crashed(Role::HandlerPool);
        let later = soon + Duration::from_secs(30);
        telemetry.started(event_id, later);
        assert_eq!(telemetry.lease_of(event_id), Some(later));
        assert_eq!(telemetry.lease_of(event_id), None);
    }
}
