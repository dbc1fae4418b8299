//! Deliveries in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use perilune_proto::lease::{Judgement, Lapsed, Moment, Phase, SecretMatch, window_room};
use perilune_proto::scalar::{DeliveryId, Sequence, TaskVersion};

use super::super::bounds::{LEASE_BYTES_MAX, LEASES_MAX, SCAN_MAX};
use super::super::frozen::timestamp;
use super::super::lapses::{Lapses, Window};
use super::super::{
    AddBudget, Answer, Confirmation, Confirmed, Deliveries, DeliveryRecord, DeliveryState, EventBrief, Lease,
    LeaseRequest, Leases, ListDeliveries, Page, Resource, Scope, SecretHash, SessionRequest, Standing, StoreError,
    SubscriptionKey, Supply, Wake, fresh,
};
use super::state::{Journey, Reader, State};
use super::subscription::state_at;
use super::{MemoryStore, Times};

impl Deliveries for MemoryStore {
    fn standing(&self, request: SessionRequest) -> Answer<'_, Standing> {
        self.ask(move |state, times| Ok(state.standing(request, times)))
    }

    fn lease(&self, request: LeaseRequest) -> Answer<'_, Leases> {
        let began = Instant::now();
        self.ask(move |state, times| Ok(state.lease(&request, times, began)))
    }

    fn confirm(&self, confirmation: Confirmation) -> Answer<'_, Confirmed> {
        self.ask(move |state, times| Ok(state.confirm(&confirmation, times)))
    }

    fn deliveries(&self, list: ListDeliveries) -> Answer<'_, Page<DeliveryRecord, DeliveryId>> {
        self.ask(move |state, times| {
            let reader = state.reader(list.key)?;
            let from = list.after.map_or(Bound::Unbounded, Bound::Excluded);
            let is_wanted = |record: &DeliveryRecord| match list.states.is_empty() {
                true => record.state != DeliveryState::Acknowledged,
                false => list.states.contains(&record.state),
            };
            let journeys =
                reader.open.range((from, Bound::Unbounded)).chain(reader.confirmed.range((from, Bound::Unbounded)));
            let wanted = journeys.map(|(id, journey)| record(*id, journey, times.now)).filter(is_wanted);
            let mut wanted =
                wanted.map(|record| (record.delivery_id, record)).collect::<BTreeMap<_, _>>().into_values();
            let limit = usize::try_from(list.limit).unwrap_or(usize::MAX);
            let items: Vec<_> = wanted.by_ref().take(limit).collect();
            let next = wanted.next().and(items.last()).map(|last| last.delivery_id);
            Ok(Page { items, next })
        })
    }

    fn add_budget(&self, add: AddBudget) -> Answer<'_, DeliveryRecord> {
        self.ask(move |state, times| {
            let reader = state.reader(add.key)?;
            let found = reader.open.get_mut(&add.delivery_id);
            let journey = found.ok_or(StoreError::NotFound(Resource::Delivery))?;
            if state_at(journey, times.now) != DeliveryState::Expired {
                return Err(StoreError::NotExpired);
            }
            let lapses = reader.lapse(times.now, &mut perilune_proto::rng::Rng::new(fresh::seed()));
            let found = reader.open.get_mut(&add.delivery_id);
            let journey = found.ok_or(StoreError::NotFound(Resource::Delivery))?;
            journey.rules.add_budget(add.add, times.now).map_err(|_| StoreError::NotExpired)?;
            let record = record(add.delivery_id, journey, times.now);
            state.lapses.append(lapses);
            state.wakes.push(Wake::Subscription(add.key.subscription_id));
            Ok(record)
        })
    }

    fn add_budget_to_expired(&self, key: SubscriptionKey, add: u32) -> Answer<'_, u64> {
        self.ask(move |state, times| {
            let reader = state.reader(key)?;
            let lapses = reader.lapse(times.now, &mut perilune_proto::rng::Rng::new(fresh::seed()));
            let journeys = reader.open.values_mut();
            let given = journeys.filter_map(|journey| journey.rules.add_budget(add, times.now).ok()).count();
            state.lapses.append(lapses);
            state.wakes.push(Wake::Subscription(key.subscription_id));
            Ok(u64::try_from(given).unwrap_or(u64::MAX))
        })
    }
}

impl State {
    fn standing(&self, request: SessionRequest, times: Times) -> Standing {
        let Some(principal) = self.principal(request.presented, times) else { return Standing::Unauthenticated };
        if !principal.scopes.contains(Scope::Consume) {
            return Standing::PermissionDenied;
        }
        let reader = self.subscriptions.get(&request.subscription_id);
        let Some(reader) = reader.filter(|reader| reader.settings.credential_id == principal.credential_id) else {
            return Standing::NotFound;
        };
        if self.has_gap(reader) {
            return Standing::HistoryGap;
        }
        Standing::Active(Box::new(reader.settings.clone()))
    }

    fn lease(&mut self, request: &LeaseRequest, times: Times, began: Instant) -> Leases {
        let nothing = |supply| Leases { granted: Vec::new(), began, again_in: None, supply };
        let Some(mut reader) = self.subscriptions.remove(&request.subscription_id) else {
            return nothing(Supply::Gone);
        };
        let now = times.now;
        let leases = if self.is_over(reader.settings.credential_id, times.wall) {
            nothing(Supply::Unauthenticated)
        } else if !reader.settings.enabled {
            nothing(Supply::Paused)
        } else if self.has_gap(&reader) {
            nothing(Supply::HistoryGap)
        } else {
            self.lapses.append(reader.lapse(now, &mut self.rng));
            self.grant(&mut reader, request, now, began)
        };
        self.subscriptions.insert(request.subscription_id, reader);
        leases
    }

    fn grant(&self, reader: &mut Reader, request: &LeaseRequest, now: Moment, began: Instant) -> Leases {
        let mut credits = perilune_proto::dispatch::Credits::new(request.sessions.iter().map(|session| {
            let held = reader.count(|journey| {
                journey.session == Some(session.session_id) && matches!(journey.rules.phase(), Phase::Leased { .. })
            });
            u32::from(session.capacity).saturating_sub(held)
        }));
        let mut granted = Vec::new();
        let mut bytes = 0;
        let mut scanned = 0;
        let mut stopped_early = false;
        while credits.total() > 0 {
            let next = reader.ready(now).or_else(|| {
                let taken = self.take_one(reader, now, &mut scanned);
                stopped_early |= taken.is_none() && scanned >= SCAN_MAX;
                taken
            });
            let Some(id) = next else { break };
            let Some(journey) = reader.open.get_mut(&id) else { break };
            let size = journey.event.json.len();
            if granted.len() >= LEASES_MAX || (bytes > 0 && bytes + size > LEASE_BYTES_MAX) {
                stopped_early = true;
                break;
            }
            bytes += size;
            // Credit is left, so there is a session for it.
            let Some(session) = credits.spend().and_then(|place| request.sessions.get(place)) else { break };
            let Some(generation) = journey.rules.lease(now, request.lease) else { break };
            let secret = fresh::secret();
            journey.secret = Some(SecretHash::of(secret.expose_bytes()));
            journey.session = Some(session.session_id);
            journey.lapse = now.plus(request.lease);
            granted.push(Lease {
                session_id: session.session_id,
                delivery_id: id,
                event_id: journey.event.event_id,
                generation,
                secret,
                event_json: journey.event.json.clone(),
            });
        }
        let again_in = if stopped_early { Some(Duration::ZERO) } else { reader.next_change(now, credits.total() > 0) };
        let expired = reader.count(|journey| journey.rules.phase() == Phase::Expired);
        let blocked = perilune_proto::lease::is_blocked(reader.settings.window, expired);
        Leases { granted, began, again_in, supply: if blocked { Supply::Blocked } else { Supply::Flowing } }
    }

    /// Takes the next event off the log that the reader wants, where its window has room.
    pub(super) fn take_one(&self, reader: &mut Reader, now: Moment, scanned: &mut usize) -> Option<DeliveryId> {
        if window_room(reader.settings.window, reader.count(|_| true)) == 0 {
            return None;
        }
        let behind = (Bound::Excluded(reader.cursor), Bound::Unbounded);
        for event in self.events.range(behind).map(|(_, event)| event) {
            if *scanned >= SCAN_MAX {
                return None;
            }
            *scanned += 1;
            reader.cursor = event.sequence;
            if reader.wants(event) {
                let id = DeliveryId::from_u128(fresh::id());
                let rules = perilune_proto::lease::Delivery::taken(reader.settings.budget, now);
                let event = std::sync::Arc::clone(event);
                reader.open.insert(id, Journey { rules, event, session: None, secret: None, lapse: now });
                return Some(id);
            }
        }
        None
    }

    fn confirm(&mut self, confirmation: &Confirmation, times: Times) -> Confirmed {
        let Some(principal) = self.principal(confirmation.session.presented, times) else {
            return Confirmed::Unauthenticated;
        };
        if !principal.scopes.contains(Scope::Consume) {
            return Confirmed::PermissionDenied;
        }
        let subscription_id = confirmation.session.subscription_id;
        let key = SubscriptionKey { credential_id: principal.credential_id, subscription_id };
        let Ok(reader) = self.reader(key) else { return Confirmed::NotFound };
        let id = confirmation.delivery_id;
        let Some(journey) = reader.open.get_mut(&id).or_else(|| reader.confirmed.get_mut(&id)) else {
            return Confirmed::Lost;
        };
        let presented = SecretHash::of(confirmation.secret.expose_bytes());
        let secret = if journey.secret == Some(presented) { SecretMatch::Same } else { SecretMatch::Different };
        let event_id = journey.event.event_id;
        match journey.rules.confirm(confirmation.generation, secret, times.now) {
            Judgement::Lost => Confirmed::Lost,
            Judgement::Invalid => Confirmed::Invalid,
            Judgement::Replays => Confirmed::Acked { event_id, replayed: true },
            Judgement::Confirms => {
                reader.acknowledged += 1;
                let confirmed = reader.open.remove(&id);
                reader.confirmed.extend(confirmed.map(|journey| (id, journey)));
                self.wakes.push(Wake::Subscription(subscription_id));
                Confirmed::Acked { event_id, replayed: false }
            }
        }
    }
}

impl Reader {
    /// Ends the leases that have lapsed.
    pub(super) fn lapse(&mut self, now: Moment, rng: &mut perilune_proto::rng::Rng) -> Lapses {
        let expired = self.count(|journey| journey.rules.phase() == Phase::Expired);
        let (before, backoff) = (Window { room: self.settings.window, expired }, self.settings.backoff);
        let ended = self.open.values_mut().filter_map(|journey| journey.rules.lapse(now, &backoff, rng));
        let (again, expired) = ended.fold((0, 0), |(again, expired), lapsed| match lapsed {
            Lapsed::Again { .. } => (again + 1, expired),
            Lapsed::Expired => (again, expired + 1),
        });
        let mut lapses = Lapses::default();
        lapses.add(self.settings.subscription_id, again, expired, before);
        lapses
    }

    /// The ready delivery that has waited longest, where one is due.
    fn ready(&self, now: Moment) -> Option<DeliveryId> {
        let due = self.open.iter().filter_map(|(id, journey)| match journey.rules.phase() {
            Phase::Ready { from } if from <= now => Some((from, journey.event.sequence, *id)),
            _ => None,
        });
        due.min().map(|(_, _, id)| id)
    }

    /// How long until time alone lets another lease succeed: a lease lapses or, with credit, a backoff ends.
    fn next_change(&self, now: Moment, credit_left: bool) -> Option<Duration> {
        let changes = self.open.values().filter_map(|journey| match journey.rules.phase() {
            Phase::Leased { until } => Some(until),
            Phase::Ready { from } if credit_left => Some(from),
            _ => None,
        });
        changes.min().map(|change| change.since(now))
    }
}

fn record(delivery_id: DeliveryId, journey: &Journey, now: Moment) -> DeliveryRecord {
    let due = match journey.rules.phase() {
        Phase::Ready { from } => from,
        Phase::Confirmed { at } => at,
        _ => journey.lapse,
    };
    let event = &journey.event;
    DeliveryRecord {
        delivery_id,
        event_id: event.event_id,
        sequence: Sequence(event.sequence),
        event: Some(EventBrief {
            status: event.status,
            task_id: event.task_id,
            task_version: TaskVersion(event.version),
        }),
        state: state_at(journey, now),
        generation: journey.rules.generation(),
        budget: journey.rules.budget(),
        due_at: timestamp(due),
    }
}
