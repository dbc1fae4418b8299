//! Housekeeping in memory.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use perilune_proto::lease::{Moment, Phase, is_blocked};
use perilune_proto::limits::REPLAY_RETENTION;
use perilune_proto::scalar::Sequence;

use super::super::bounds::{BLOCKED_MAX, SCAN_MAX, SWEEP_MAX};
use super::super::{Answer, PastCursors, Retained, Retention, StoreError, StoreFigures, Swept, Upkeep, Wake, Wakes};
use super::state::{Reader, State};
use super::task::is_kept;
use super::{MemoryStore, Times};

impl Upkeep for MemoryStore {
    fn sweep(&self) -> Answer<'_, Swept> {
        self.ask(|state, times| {
            let mut swept = Swept::default();
            let mut readers = std::mem::take(&mut state.subscriptions);
            for reader in readers.values_mut() {
                state.sweep_reader(reader, times.now, &mut swept);
            }
            state.subscriptions = readers;
            let kept = state.keys.len();
            state.keys.retain(|_, key| is_kept(key, times.now));
            swept.forgotten += wide(kept - state.keys.len());
            std::mem::take(&mut state.lapses).tell(&mut swept);
            Ok(swept)
        })
    }

    fn next_wakeup(&self) -> Answer<'_, Option<Duration>> {
        self.ask(|state, times| {
            let journeys = state.subscriptions.values().flat_map(|reader| reader.open.values());
            let lapses = journeys.filter_map(|journey| match journey.rules.phase() {
                Phase::Leased { until } => Some(until.since(times.now)),
                _ => None,
            });
            Ok(lapses.min())
        })
    }

    fn retain(&self, retention: Retention) -> Answer<'_, Retained> {
        self.ask(move |state, times| Ok(state.retain(retention, times)))
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.ask(|_, _| Ok(()))
    }

    fn figures(&self) -> Answer<'_, StoreFigures> {
        self.ask(|state, _| {
            let readers = || state.subscriptions.values();
            let expired = |reader: &Reader| reader.count(|journey| journey.rules.phase() == Phase::Expired);
            let blocked = readers().filter(|reader| is_blocked(reader.settings.window, expired(reader)));
            Ok(StoreFigures {
                head: Sequence(state.head),
                events: wide(state.events.len()),
                subscriptions: wide(state.subscriptions.len()),
                in_progress: readers().map(|reader| wide(reader.open.len()) - u64::from(expired(reader))).sum(),
                expired: readers().map(|reader| u64::from(expired(reader))).sum(),
                acknowledged: readers().map(|reader| reader.acknowledged).sum(),
                blocked: blocked.take(BLOCKED_MAX).map(|reader| reader.settings.subscription_id).collect(),
            })
        })
    }

    fn wakes(&self) -> Wakes {
        self.waker.wakes()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.waker.close();
        let closed = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(std::future::ready(closed.map(|_| ()).ok_or(StoreError::Closed)))
    }
}

impl State {
    fn sweep_reader(&mut self, reader: &mut Reader, now: Moment, swept: &mut Swept) {
        let subscription_id = reader.settings.subscription_id;
        let lapses = reader.lapse(now, &mut self.rng);
        if !lapses.is_empty() {
            self.wakes.push(Wake::Subscription(subscription_id));
            self.lapses.append(lapses);
        }
        let confirmed = reader.confirmed.len();
        reader.confirmed.retain(|_, journey| match journey.rules.phase() {
            Phase::Confirmed { at } => now.since(at) < REPLAY_RETENTION,
            _ => true,
        });
        swept.forgotten += wide(confirmed - reader.confirmed.len());
        if reader.settings.enabled && !self.has_gap(reader) && !self.is_revoked(reader.settings.credential_id) {
            let mut scanned = 0;
            while self.take_one(reader, now, &mut scanned).is_some() {
                swept.taken += 1;
            }
            swept.more |= scanned >= SCAN_MAX;
        }
    }

    fn retain(&mut self, retention: Retention, times: Times) -> Retained {
        // What the slowest reader of each queue has passed.
        let mut passed = BTreeMap::new();
        if retention.past_cursors == PastCursors::Keep {
            let live = self.subscriptions.values().filter(|reader| !self.is_revoked(reader.settings.credential_id));
            for reader in live {
                for queue in &reader.settings.queues {
                    let slowest = passed.entry(queue.clone()).or_insert(reader.cursor);
                    *slowest = reader.cursor.min(*slowest);
                }
            }
        }
        let beyond = retention.max_events.map_or(0, |kept| self.head.saturating_sub(kept));
        let goes = |event: &super::state::Event| {
            let old = retention.max_age.is_some_and(|age| times.wall.since(event.written) > age);
            let held_back = passed.get(&event.queue).is_some_and(|slowest| event.sequence > *slowest);
            (old || event.sequence <= beyond) && !held_back
        };
        let mut going = self.events.values().filter(|event| goes(event)).cloned();
        let now: Vec<_> = going.by_ref().take(SWEEP_MAX).collect();
        let more = going.next().is_some();
        drop(going);
        for event in &now {
            self.events.remove(&event.sequence);
            self.queues.entry(event.queue.clone()).or_default().forgotten = event.sequence;
        }
        Retained { forgotten: wide(now.len()), more }
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
