//! What the memory store holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use perilune_proto::event::Status;
use perilune_proto::lease::{Delivery, Moment};
use perilune_proto::rng::Rng;
use perilune_proto::scalar::{DeliveryId, EventId, Name, SessionId, SubscriptionId, TaskId};
use perilune_proto::task::TaskStanding;

use super::super::lapses::Lapses;
use super::super::{
    CredentialId, CredentialRecord, Resource, SecretHash, StoreError, Subscription, SubscriptionKey, Wake, fresh,
};

/// Everything, under one lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) credentials: Vec<Held>,
    /// The log, by sequence.
    pub(super) events: BTreeMap<u64, Arc<Event>>,
    pub(super) head: u64,
    pub(super) queues: BTreeMap<Name, Queue>,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) keys: BTreeMap<(CredentialId, TaskId, String), Key>,
    pub(super) subscriptions: BTreeMap<SubscriptionId, Reader>,
    /// Told once the question is answered.
    pub(super) wakes: Vec<Wake>,
    /// Told by the next sweep.
    pub(super) lapses: Lapses,
    pub(super) rng: Rng,
}

/// A credential with its secrets, the newest last.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) record: CredentialRecord,
    pub(super) expires: Option<Moment>,
    pub(super) secrets: Vec<(SecretHash, Option<Moment>)>,
}

/// A frozen event with what filters ask of it.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) event_id: EventId,
    pub(super) sequence: u64,
    pub(super) queue: Name,
    pub(super) status: Status,
    pub(super) operation: Name,
    pub(super) task_id: TaskId,
    pub(super) version: u64,
    pub(super) written: Moment,
    pub(super) json: Box<str>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The newest sequence that retention took.
    pub(super) forgotten: u64,
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) standing: TaskStanding,
    pub(super) created: Moment,
    pub(super) latest: Arc<Event>,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) body_sha256: [u8; 32],
    pub(super) written: Moment,
    pub(super) event: Arc<Event>,
}

/// A subscription with its deliveries.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) settings: Subscription,
    pub(super) cursor: u64,
    /// What retention had taken of each queue when the subscription started there: no gap of its.
    pub(super) origin: BTreeMap<Name, u64>,
    pub(super) acknowledged: u64,
    pub(super) open: BTreeMap<DeliveryId, Journey>,
    pub(super) confirmed: BTreeMap<DeliveryId, Journey>,
}

/// A delivery.
#[derive(Debug, Clone)]
pub(super) struct Journey {
    pub(super) rules: Delivery,
    pub(super) event: Arc<Event>,
    /// Who has the latest lease.
    pub(super) session: Option<SessionId>,
    /// The latest lease's secret.
    pub(super) secret: Option<SecretHash>,
    /// When the latest lease ends or ended.
    pub(super) lapse: Moment,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            credentials: Vec::new(),
            events: BTreeMap::new(),
            head: 0,
            queues: BTreeMap::new(),
            tasks: BTreeMap::new(),
            keys: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            wakes: Vec::new(),
            lapses: Lapses::default(),
            rng: Rng::new(fresh::seed()),
        }
    }

    pub(super) fn forgotten(&self, queue: &Name) -> u64 {
        self.queues.get(queue).map_or(0, |queue| queue.forgotten)
    }

    pub(super) fn reader(&mut self, key: SubscriptionKey) -> Result<&mut Reader, StoreError> {
        let reader = self.subscriptions.get_mut(&key.subscription_id);
        reader
            .filter(|reader| reader.settings.credential_id == key.credential_id)
            .ok_or(StoreError::NotFound(Resource::Subscription))
    }

    /// Whether the log has lost an event that the reader has yet to take.
    pub(super) fn has_gap(&self, reader: &Reader) -> bool {
        reader.settings.queues.iter().any(|queue| {
            let passed = reader.cursor.max(reader.origin.get(queue).copied().unwrap_or(0));
            self.forgotten(queue) > passed
        })
    }
}

impl Reader {
    pub(super) fn wants(&self, event: &Event) -> bool {
        let settings = &self.settings;
        settings.queues.contains(&event.queue)
            && (settings.statuses.is_empty() || settings.statuses.contains(&event.status))
            && (settings.operations.is_empty() || settings.operations.contains(&event.operation))
    }

    pub(super) fn count(&self, which: impl Fn(&Journey) -> bool) -> u32 {
        let count = self.open.values().filter(|journey| which(journey)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}
