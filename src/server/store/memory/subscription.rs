//! Subscriptions in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use perilune_proto::lease::{Moment, Phase};
use perilune_proto::scalar::{Name, Sequence, SubscriptionId};

use super::super::frozen::timestamp;
use super::super::{
    Answer, Figures, ListSubscriptions, NewSubscription, Page, Start, Subscription, SubscriptionKey,
    SubscriptionRecord, Subscriptions, Switch, Wake, fresh,
};
use super::MemoryStore;
use super::state::{Journey, Reader, State};

impl Subscriptions for MemoryStore {
    fn create_subscription(&self, new: NewSubscription) -> Answer<'_, SubscriptionRecord> {
        self.ask(|state, times| {
            let settings = Subscription {
                subscription_id: SubscriptionId::from_u128(fresh::id()),
                credential_id: new.credential_id,
                name: new.name,
                enabled: true,
                queues: new.queues,
                statuses: new.statuses,
                operations: new.operations,
                window: new.window,
                budget: new.budget,
                backoff: new.backoff,
                created_at: timestamp(times.wall),
            };
            let (cursor, origin) = state.begin(&settings, new.start);
            let reader = Reader {
                cursor,
                origin,
                acknowledged: 0,
                open: BTreeMap::new(),
                confirmed: BTreeMap::new(),
                settings: settings.clone(),
            };
            let record = state.record(&reader, times.now);
            state.subscriptions.insert(settings.subscription_id, reader);
            Ok(record)
        })
    }

    fn subscriptions(&self, list: ListSubscriptions) -> Answer<'_, Page<SubscriptionRecord, SubscriptionId>> {
        self.ask(move |state, times| {
            let from = list.after.map_or(Bound::Unbounded, Bound::Excluded);
            let mut own = state
                .subscriptions
                .range((from, Bound::Unbounded))
                .map(|(_, reader)| reader)
                .filter(|reader| reader.settings.credential_id == list.credential_id);
            let limit = usize::try_from(list.limit).unwrap_or(usize::MAX);
            let items: Vec<_> = own.by_ref().take(limit).map(|reader| state.record(reader, times.now)).collect();
            let next = own.next().and(items.last()).map(|last| last.subscription.subscription_id);
            Ok(Page { items, next })
        })
    }

    fn subscription(&self, key: SubscriptionKey) -> Answer<'_, SubscriptionRecord> {
        self.ask(move |state, times| state.shown(key, times.now))
    }

    fn switch_subscription(&self, key: SubscriptionKey, to: Switch) -> Answer<'_, SubscriptionRecord> {
        self.ask(move |state, times| {
            state.reader(key)?.settings.enabled = to == Switch::Resume;
            state.wakes.push(match to {
                Switch::Resume => Wake::Subscription(key.subscription_id),
                Switch::Pause => Wake::Stopped(key.subscription_id),
            });
            state.shown(key, times.now)
        })
    }

    fn seek_subscription(&self, key: SubscriptionKey, to: Start) -> Answer<'_, SubscriptionRecord> {
        self.ask(move |state, times| {
            let settings = state.reader(key)?.settings.clone();
            let (cursor, origin) = state.begin(&settings, to);
            let reader = state.reader(key)?;
            (reader.cursor, reader.origin) = (cursor, origin);
            reader.open.clear();
            state.wakes.push(Wake::Subscription(key.subscription_id));
            state.shown(key, times.now)
        })
    }

    fn delete_subscription(&self, key: SubscriptionKey) -> Answer<'_, ()> {
        self.ask(move |state, _| {
            state.reader(key)?;
            state.subscriptions.remove(&key.subscription_id);
            state.wakes.push(Wake::Stopped(key.subscription_id));
            Ok(())
        })
    }
}

impl State {
    /// The cursor for a start, and what was forgotten of each queue without being missed.
    fn begin(&self, settings: &Subscription, start: Start) -> (u64, BTreeMap<Name, u64>) {
        match start {
            Start::Latest => (self.head, BTreeMap::new()),
            Start::Sequence(from) => (from.0.saturating_sub(1), BTreeMap::new()),
            Start::Earliest => {
                (0, settings.queues.iter().map(|queue| (queue.clone(), self.forgotten(queue))).collect())
            }
        }
    }

    fn shown(&mut self, key: SubscriptionKey, now: Moment) -> Result<SubscriptionRecord, super::StoreError> {
        self.reader(key)?;
        Ok(self.record(&self.subscriptions[&key.subscription_id], now))
    }

    fn record(&self, reader: &Reader, now: Moment) -> SubscriptionRecord {
        let behind = self.events.range((Bound::Excluded(reader.cursor), Bound::Unbounded));
        let lag = behind.filter(|(_, event)| reader.settings.queues.contains(&event.queue)).count();
        let figures = Figures {
            cursor: Sequence(reader.cursor),
            lag: u64::try_from(lag).unwrap_or(u64::MAX),
            ready: reader.count(|journey| state_at(journey, now) == super::super::DeliveryState::Ready),
            leased: reader.count(|journey| state_at(journey, now) == super::super::DeliveryState::Leased),
            expired: reader.count(|journey| state_at(journey, now) == super::super::DeliveryState::Expired),
            acknowledged: reader.acknowledged,
        };
        SubscriptionRecord { subscription: reader.settings.clone(), figures }
    }
}

/// The state that a delivery is in, swept or not.
pub(super) fn state_at(journey: &Journey, now: Moment) -> super::super::DeliveryState {
    use super::super::DeliveryState::{Acknowledged, Expired, Leased, Ready};
    match journey.rules.phase() {
        Phase::Ready { .. } => Ready,
        Phase::Confirmed { .. } => Acknowledged,
        Phase::Leased { until } if until > now => Leased,
        Phase::Leased { .. } if journey.rules.generation().0 < journey.rules.budget() => Ready,
        _ => Expired,
    }
}
