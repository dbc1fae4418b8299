//! Who gets which delivery.

use std::time::{Duration, Instant};

use perilune_proto::EventProof;
use perilune_proto::dispatch::Credits;
use perilune_proto::lease::{Delivery, Judgement, Lapsed, Moment, Phase, SecretMatch, window_room};
use perilune_proto::limits::{BUDGET_DEFAULT, WINDOW_DEFAULT};
use perilune_proto::scalar::{DeliveryId, Secret};
use perilune_proto::session::server::{AckVerdict, Effect};
use perilune_proto::wire::Ack;

use super::{ConnectionId, Output, REDELIVERY, Rules, SUBSCRIPTION};
use crate::testkit::journal::{Record, Verdict};
use crate::testkit::script::DeliveryFault;

/// What is left of a lease that lapses at once.
const LEASE_LAPSING_MS: u32 = 1;

/// A delivery with what the rules leave to the store.
pub(super) struct Entry {
    delivery: Delivery,
    /// Its event's place in the log.
    place: usize,
    secret: Secret,
}

impl Rules {
    /// Ends lapsed leases, takes events off the log, hands deliveries to whoever has credit.
    pub(super) fn pump(&mut self, now: Instant) {
        let moment = self.moment(now);
        self.pumped = moment;
        for (id, entry) in &mut self.deliveries {
            if entry.delivery.lapse(moment, &REDELIVERY, &mut self.rng).is_some() {
                // The clock may have been put forward, and sessions have clocks of their own.
                let generation = entry.delivery.generation();
                self.connections.values_mut().for_each(|one| one.session.settle(*id, generation));
            }
        }
        self.take_off_the_log(moment);
        if self.paused {
            return;
        }
        let due = |entry: &Entry| matches!(entry.delivery.phase(), Phase::Ready { from } if from <= moment);
        let ready: Vec<_> = self.deliveries.iter().filter(|(_, entry)| due(entry)).map(|(id, _)| *id).collect();
        let sessions: Vec<_> = self.connections.iter().map(|(id, one)| (*id, one.session.credit(now))).collect();
        let mut credits = Credits::new(sessions.iter().map(|(_, credit)| u32::from(*credit)));
        for delivery in ready {
            let Some(place) = credits.spend() else { break };
            self.lease(delivery, sessions[place].0, now);
        }
    }

    /// When a lease lapses or a delivery may be leased again.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.deliveries.values().filter_map(|entry| match entry.delivery.phase() {
            Phase::Leased { until } => Some(until),
            // One that was ready already waits for a session and not for the time.
            Phase::Ready { from } if from > self.pumped => Some(from),
            _ => None,
        });
        due.map(|moment| self.origin + Duration::from_micros(moment.0).saturating_sub(self.ahead)).min()
    }

    fn take_off_the_log(&mut self, moment: Moment) {
        let open = self.deliveries.values().filter(|entry| entry.delivery.is_open()).count();
        for _ in 0..window_room(WINDOW_DEFAULT, u32::try_from(open).unwrap_or(u32::MAX)) {
            if self.taken == self.log.len() {
                break;
            }
            let delivery = Delivery::taken(BUDGET_DEFAULT, moment);
            let entry = Entry { delivery, place: self.taken, secret: Secret::from_bytes([0; 32]) };
            let id = DeliveryId::from_u128(self.next_id().into());
            self.deliveries.insert(id, entry);
            self.taken += 1;
        }
    }

    /// Leases a delivery for a session, as the script will have it.
    fn lease(&mut self, delivery: DeliveryId, to: ConnectionId, now: Instant) {
        let moment = self.moment(now);
        let fault = self.script.next_delivery();
        self.journal.set_unplayed(self.script.unplayed());
        let lease_ms = if fault == Some(DeliveryFault::Lapse) { LEASE_LAPSING_MS } else { self.terms.lease_ms };
        let Some(text) = self.granted(delivery, to, moment, lease_ms, now) else { return };
        match fault {
            None | Some(DeliveryFault::Lapse) => self.put(to, Output::now(text)),
            Some(DeliveryFault::Lose) => {}
            Some(DeliveryFault::Delay(after)) => self.put(to, Output::Send { text, after, cut_after: None }),
            Some(DeliveryFault::Duplicate) => {
                self.put(to, Output::now(text.clone()));
                self.put(to, Output::now(text));
            }
            Some(DeliveryFault::Replace) => {
                self.put(to, Output::now(text));
                let next = self.end_lease(delivery).and_then(|from| {
                    let lease_ms = self.terms.lease_ms;
                    self.granted(delivery, to, from, lease_ms, now)
                });
                if let Some(text) = next {
                    self.put(to, Output::now(text));
                }
            }
            Some(DeliveryFault::CutAfter(bytes)) => {
                self.put(to, Output::Send { text, after: Duration::ZERO, cut_after: Some(bytes) });
                self.gone(to);
            }
            Some(DeliveryFault::GoSilent) => self.fall_silent(to),
            Some(DeliveryFault::StallReads(time)) => {
                self.put(to, Output::now(text));
                self.put(to, Output::Stall(time));
            }
        }
    }

    /// Grants a lease at `moment` and gives the frame that tells of it.
    fn granted(
        &mut self,
        id: DeliveryId,
        to: ConnectionId,
        moment: Moment,
        lease_ms: u32,
        now: Instant,
    ) -> Option<String> {
        let session = &mut self.connections.get_mut(&to)?.session;
        let entry = self.deliveries.get_mut(&id)?;
        let generation = entry.delivery.lease(moment, Duration::from_millis(lease_ms.into()))?;
        entry.secret = Secret::from_bytes(rand::random());
        let (event_id, text) = self.log.get(entry.place)?;
        let (event_id, secret) = (*event_id, entry.secret.clone());
        let proof = EventProof { subscription_id: SUBSCRIPTION, delivery_id: id, event_id, generation, secret };
        session.deliver(&proof, lease_ms, text, now).ok()?;
        self.journal.write(Record::Delivered { event_id, generation });
        match session.poll_effect() {
            Some(Effect::Send(text)) => Some(text),
            // What a session has to do is carried out before anything is leased for it.
            _ => None,
        }
    }

    /// Lets a lease lapse before its time. When the delivery may be leased again.
    fn end_lease(&mut self, id: DeliveryId) -> Option<Moment> {
        let entry = self.deliveries.get_mut(&id)?;
        let Phase::Leased { until } = entry.delivery.phase() else { return None };
        match entry.delivery.lapse(until, &REDELIVERY, &mut self.rng)? {
            Lapsed::Again { from } => Some(from),
            Lapsed::Expired => None,
        }
    }

    /// Judges a proof, and confirms where it does.
    pub(super) fn judge(&mut self, ack: &Ack, now: Instant) -> AckVerdict {
        let moment = self.moment(now);
        let Some(entry) = self.deliveries.get_mut(&ack.delivery_id) else { return AckVerdict::Lost };
        let secret = if entry.secret == ack.secret { SecretMatch::Same } else { SecretMatch::Different };
        let Some((event_id, _)) = self.log.get(entry.place) else { return AckVerdict::Lost };
        let event_id = *event_id;
        let (verdict, answer) = match entry.delivery.confirm(ack.generation, secret, moment) {
            Judgement::Confirms => (Verdict::Confirmed, AckVerdict::Confirmed { event_id, replayed: false }),
            Judgement::Replays => (Verdict::Replayed, AckVerdict::Confirmed { event_id, replayed: true }),
            Judgement::Lost => (Verdict::Lost, AckVerdict::Lost),
            Judgement::Invalid => (Verdict::Invalid, AckVerdict::Invalid),
        };
        self.journal.write(Record::Judged { event_id, generation: ack.generation, verdict });
        for connection in self.connections.values_mut() {
            connection.session.settle(ack.delivery_id, ack.generation);
        }
        answer
    }
}
