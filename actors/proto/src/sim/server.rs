//! The platform: a log, one subscription kept by [`crate::lease`] and [`crate::dispatch`], and sessions that
//! are the server's real ones. A crash loses the sessions and keeps the store.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bug::Bug;
use super::event;
use super::oracle::Check;
use super::plan::SUBSCRIPTION;
use super::step::{ConnId, End, Message, Step};
use super::world::World;
use crate::dispatch::Credits;
use crate::lease::{Delivery, Judgement, Moment, Phase, SecretMatch, window_room};
use crate::proof::EventProof;
use crate::scalar::{DeliveryId, EventId, Generation, MessageId, Secret, SessionId, Timestamp};
use crate::session::server::{AckVerdict, Admission, Effect, Refusal};
use crate::wire::{Ack, ErrorCode, Register};

/// Whether the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Power {
    On,
    Off,
}

/// A delivery with what the rules leave to the store.
pub(super) struct Entry {
    pub(super) delivery: Delivery,
    event: usize,
    secret: Secret,
}

/// The server's store and its state.
pub(super) struct Server {
    pub(super) power: Power,
    /// Counts restarts: what was under way before one is lost.
    pub(super) boot: u32,
    pub(super) paused: bool,
    pub(super) revoked: bool,
    pub(super) deliveries: BTreeMap<DeliveryId, Entry>,
    /// The log: each event with its text.
    pub(super) log: Vec<(EventId, String)>,
    pub(super) cursor: usize,
    /// Sessions, the oldest first.
    pub(super) sessions: Vec<ConnId>,
    /// The last lease of each delivery, by the oracle's own account.
    latest: BTreeMap<DeliveryId, Generation>,
    last_id: u128,
    sweep: u64,
}

impl Server {
    pub(super) const fn new() -> Self {
        Self {
            power: Power::On,
            boot: 0,
            paused: false,
            revoked: false,
            deliveries: BTreeMap::new(),
            log: Vec::new(),
            cursor: 0,
            sessions: Vec::new(),
            latest: BTreeMap::new(),
            last_id: 0,
            sweep: 0,
        }
    }

    pub(super) fn next_id(&mut self) -> u128 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn open(&self) -> usize {
        self.deliveries.values().filter(|entry| entry.delivery.is_open()).count()
    }

    /// Whether every event of the log is confirmed.
    pub(super) fn is_settled(&self) -> bool {
        self.cursor == self.log.len() && self.open() == 0
    }
}

fn refusal(code: ErrorCode, retry_after_ms: Option<u32>) -> Refusal {
    Refusal { retry_after_ms, ..Refusal::new(code, "remote detail") }
}

impl World {
    pub(super) fn moment(&self) -> Moment {
        Moment(u64::try_from((self.now - self.origin).as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn on_publish(&mut self) {
        let n = self.server.log.len() as u64 + 1;
        let event = event(n);
        self.server.log.push((event.event_id, crate::wire::encode_event(&event)));
        self.pump();
    }

    /// Ends lapsed leases, takes events off the log, hands deliveries to whoever has credit.
    pub(super) fn pump(&mut self) {
        if self.server.power == Power::Off {
            return;
        }
        let now = self.moment();
        for entry in self.server.deliveries.values_mut() {
            entry.delivery.lapse(now, &self.plan.backoff, &mut self.rng);
        }
        if self.healed {
            self.add_budget();
        }
        self.take_off_the_log(now);
        let ready: Vec<DeliveryId> =
            self.server.deliveries.iter().filter(|(_, entry)| is_due(entry, now)).map(|(id, _)| *id).collect();
        let leases = !self.server.paused || self.bug == Some(Bug::PauseIgnored);
        if leases && !ready.is_empty() {
            self.lease_out(&ready);
        }
        self.plan_sweep(now);
    }

    fn take_off_the_log(&mut self, now: Moment) {
        let open = u32::try_from(self.server.open()).unwrap_or(u32::MAX);
        let window = if self.bug == Some(Bug::WindowIgnored) { u32::MAX } else { self.plan.window };
        for _ in 0..window_room(window, open) {
            if self.server.cursor >= self.server.log.len() {
                break;
            }
            let delivery = Delivery::taken(self.plan.budget, now);
            let entry = Entry { delivery, event: self.server.cursor, secret: Secret::from_bytes([0; 32]) };
            let id = DeliveryId::from_u128(self.server.next_id());
            self.server.deliveries.insert(id, entry);
            self.server.cursor += 1;
        }
        let open = self.server.open();
        self.check(Check::WindowKept, open <= self.plan.window as usize, || format!("{open} open"));
    }

    fn lease_out(&mut self, ready: &[DeliveryId]) {
        let sessions = self.server.sessions.clone();
        let now = self.now;
        let beyond = u32::from(self.bug == Some(Bug::CreditIgnored));
        let credit = |id| self.conns.get(id).map_or(0, |conn| u32::from(conn.server.credit(now)) + beyond);
        let mut credits = Credits::new(sessions.iter().map(credit));
        for id in ready {
            let Some(place) = credits.spend() else { break };
            self.lease_to(*id, sessions[place]);
        }
    }

    fn lease_to(&mut self, id: DeliveryId, conn_id: ConnId) {
        let (now, moment) = (self.now, self.moment());
        let lease = Duration::from_millis(self.plan.terms.lease_ms.into());
        let secret = Secret::from_bytes(std::array::from_fn(|_| self.rng.next_u64().to_le_bytes()[0]));
        let paused = self.server.paused;
        self.check(Check::PausedLeasesNothing, !paused, || format!("{id}"));
        let Some(entry) = self.server.deliveries.get_mut(&id) else { return };
        let before = entry.delivery.generation();
        let Some(generation) = entry.delivery.lease(moment, lease) else { return };
        entry.secret = secret.clone();
        self.server.latest.insert(id, generation);
        let (event_id, text) = &self.server.log[entry.event];
        let proof =
            EventProof { subscription_id: SUBSCRIPTION, delivery_id: id, event_id: *event_id, generation, secret };
        let text = text.clone();
        self.check(Check::OneLiveGeneration, generation.0 == before.0 + 1, || format!("{id} {before} {generation}"));
        let lease_ms = self.plan.terms.lease_ms;
        let Some(conn) = self.conns.get_mut(&conn_id) else { return };
        let sent = conn.server.deliver(&proof, lease_ms, &text, now);
        self.check(Check::CreditKept, sent.is_ok(), || format!("{sent:?}"));
        self.tally.leases += 1;
        self.drain_server(conn_id);
    }

    fn plan_sweep(&mut self, now: Moment) {
        let due = self.server.deliveries.values().filter_map(|entry| match entry.delivery.phase() {
            Phase::Ready { from } if from > now => Some(from),
            Phase::Leased { until } => Some(until),
            _ => None,
        });
        self.server.sweep += 1;
        if let Some(at) = due.min() {
            let token = self.server.sweep;
            self.agenda.plan(self.origin + Duration::from_micros(at.0), Step::Sweep { token });
        }
    }

    pub(super) fn on_sweep(&mut self, token: u64) {
        if token == self.server.sweep {
            self.pump();
        }
    }

    /// Carries out what a server's session asks for.
    pub(super) fn drain_server(&mut self, id: ConnId) {
        while let Some(effect) = self.conns.get_mut(&id).and_then(|conn| conn.server.poll_effect()) {
            let at = self.now + self.rng.duration_within(&self.plan.store_latency);
            match effect {
                Effect::Send(text) => self.send(id, End::Server, Message::Text(text)),
                Effect::Close(code) => {
                    self.send(id, End::Server, Message::Close(code));
                    self.server_end_gone(id);
                }
                Effect::Register(register) => self.agenda.plan(at, Step::Registered { conn: id, register }),
                Effect::Confirm(ack) => {
                    let boot = self.server.boot;
                    self.agenda.plan(at, Step::Judge { conn: id, boot, ack });
                }
                Effect::Check { message_id } => {
                    let checked = if self.server.revoked {
                        Err(refusal(ErrorCode::Unauthenticated, None))
                    } else {
                        Ok(!self.server.paused)
                    };
                    self.agenda.plan(at, Step::Checked { conn: id, message_id, checked });
                }
            }
        }
        self.arm(id, End::Server);
    }

    pub(super) fn server_end_gone(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.server.gone();
            *conn.over.of_mut(End::Server) = true;
        }
        self.server.sessions.retain(|session| *session != id);
        self.bury(id);
    }

    pub(super) fn on_registered(&mut self, id: ConnId, register: &Register) {
        let refused = if self.server.revoked {
            Some(refusal(ErrorCode::PermissionDenied, None))
        } else if self.rng.chance(self.plan.chances.register_refused) {
            let retry_after_ms = u32::try_from(self.rng.within(&(0..=40_000))).ok();
            Some(refusal(ErrorCode::RateLimited, retry_after_ms))
        } else {
            None
        };
        let now = self.now;
        let bits = self.server.next_id();
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(refusal) = refused {
            conn.server.refuse(refusal);
            return self.drain_server(id);
        }
        conn.server.accept(
            Admission {
                session_id: SessionId::from_u128(bits),
                subscription_name: "simulated".to_owned(),
                enabled: !self.server.paused,
                server_time: Timestamp::from_unix_micros(0).expect("1970 is a year"),
            },
            now,
        );
        debug_assert_eq!(register.subscription_id, SUBSCRIPTION);
        if conn.server.open().is_some() {
            self.server.sessions.push(id);
        }
        self.drain_server(id);
        self.pump();
    }

    pub(super) fn on_checked(&mut self, id: ConnId, message_id: MessageId, checked: Result<bool, Refusal>) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.server.answer_ping(message_id, checked);
            self.drain_server(id);
        }
    }

    /// The store judges a proof, and a confirmation is durable from here on.
    pub(super) fn on_judge(&mut self, id: ConnId, boot: u32, ack: &Ack) {
        if boot != self.server.boot || self.server.power == Power::Off {
            return;
        }
        let verdict = self.verdict(ack);
        let durable = matches!(verdict, AckVerdict::Confirmed { .. });
        if durable && self.rng.chance(self.plan.chances.answer_lost) {
            self.tally.answers_lost += 1;
            self.lose_answers(id);
        }
        let at = self.now + self.rng.duration_within(&(Duration::ZERO..=Duration::from_millis(2)));
        self.agenda.plan(at, Step::Judged { conn: id, message_id: ack.message_id, verdict });
        self.pump();
        self.stop_all_if_settled();
    }

    fn verdict(&mut self, ack: &Ack) -> AckVerdict {
        if self.server.revoked {
            return AckVerdict::Refused(refusal(ErrorCode::Unauthenticated, None));
        }
        if self.rng.chance(self.plan.chances.ack_refused) {
            let retry_after_ms = u32::try_from(self.rng.within(&(0..=40_000))).ok();
            return AckVerdict::Refused(refusal(ErrorCode::Unavailable, retry_after_ms));
        }
        if self.rng.chance(self.plan.chances.proof_invalid) {
            return AckVerdict::Invalid;
        }
        let now = self.moment();
        let Some(entry) = self.server.deliveries.get_mut(&ack.delivery_id) else { return AckVerdict::Lost };
        let same = if entry.secret == ack.secret { SecretMatch::Same } else { SecretMatch::Different };
        let event_id = self.server.log[entry.event].0;
        let mut judgement = entry.delivery.confirm(ack.generation, same, now);
        if self.bug == Some(Bug::SupersededConfirms) && judgement == Judgement::Lost {
            judgement = Judgement::Confirms;
        }
        let latest = self.server.latest.get(&ack.delivery_id) == Some(&ack.generation);
        let effects = self.inbox.effects(event_id);
        let sound = judgement != Judgement::Invalid;
        self.check(Check::ProofsAreOwn, sound, || format!("{event_id} generation {}", ack.generation));
        match judgement {
            Judgement::Lost | Judgement::Invalid => AckVerdict::Lost,
            confirmed => {
                self.check(Check::OnlyTheLatestConfirms, latest, || format!("{event_id} {}", ack.generation));
                self.check(Check::ConfirmedWasApplied, effects == 1, || format!("{event_id} has {effects} effects"));
                self.settle_everywhere(ack.delivery_id, ack.generation);
                let replayed = confirmed == Judgement::Replays;
                self.tally.replays += u64::from(replayed);
                AckVerdict::Confirmed { event_id, replayed }
            }
        }
    }

    fn settle_everywhere(&mut self, delivery_id: DeliveryId, generation: Generation) {
        for id in &self.server.sessions {
            if let Some(conn) = self.conns.get_mut(id) {
                conn.server.settle(delivery_id, generation);
            }
        }
    }

    pub(super) fn on_judged(&mut self, id: ConnId, message_id: MessageId, verdict: AckVerdict) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.server.answer_ack(message_id, verdict);
            self.drain_server(id);
            self.pump();
        }
    }

    /// Drops the open deliveries and takes the log again from an earlier event on, under new delivery ids.
    pub(super) fn seek(&mut self) {
        let dropped: Vec<(DeliveryId, Generation)> = self
            .server
            .deliveries
            .iter()
            .filter(|(_, entry)| entry.delivery.is_open())
            .map(|(id, entry)| (*id, entry.delivery.generation()))
            .collect();
        for (id, generation) in dropped {
            let earliest = self.server.deliveries.remove(&id).map_or(0, |entry| entry.event);
            self.server.cursor = self.server.cursor.min(earliest);
            self.settle_everywhere(id, generation);
        }
        self.server.cursor = self.server.cursor.min(super::plan::pick(&mut self.rng, self.server.cursor + 1));
        self.pump();
    }

    /// An operator gives budget to whatever has spent its own.
    fn add_budget(&mut self) {
        let now = self.moment();
        for entry in self.server.deliveries.values_mut() {
            // Only EXPIRED ones take it; the others have enough.
            let _ = entry.delivery.add_budget(1_000, now);
        }
    }
}

fn is_due(entry: &Entry, now: Moment) -> bool {
    matches!(entry.delivery.phase(), Phase::Ready { from } if from <= now)
}
