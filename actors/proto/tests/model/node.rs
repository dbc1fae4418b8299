//! A consumer process of the small system: the real machine, its connection, its handlers.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use perilune_proto::consumer::{Consumer, ConsumerConfig, Epoch, Input, Options, RunId};
use perilune_proto::event::{ResultEvent, Snapshot, Status};
use perilune_proto::json::RawJson;
use perilune_proto::proof::EventProof;
use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, Secret, Sequence, SubscriptionId, TaskId, TaskVersion, Timestamp,
};

/// Longer than all connections of a path together wait.
pub(crate) const LEASE: Duration = Duration::from_secs(30 * 60);
/// The one wait between two connections.
pub(crate) const WAIT: Duration = Duration::from_millis(10);
/// Longer than a lease and any stop.
pub(crate) const JUMP: Duration = Duration::from_secs(60 * 60);

const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(9);

/// What travels from the server to a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Down {
    Delivery { event: usize, generation: u64 },
    Answer { event: usize, generation: u64, answer: Answer },
}

/// The server's answer to a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Confirmed,
    Replayed,
    Lost,
}

/// A connection with what travels on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub(crate) open: bool,
    pub(crate) down: VecDeque<Down>,
    /// Proofs: event and generation.
    pub(crate) up: VecDeque<(usize, u64)>,
}

/// A consumer process that lives.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) machine: Consumer,
    pub(crate) now: Instant,
    pub(crate) epoch: Epoch,
    pub(crate) link: Link,
    pub(crate) runs: BTreeMap<usize, RunId>,
    /// What handlers said ok to and nobody has answered: by the model's own account.
    pub(crate) owed: BTreeMap<usize, u64>,
    pub(crate) stopped: bool,
    print: u64,
}

impl Node {
    /// A process that has just started.
    pub(crate) fn start() -> Self {
        let options = Options {
            capacity: 1,
            reconnect_min_delay: WAIT,
            reconnect_max_delay: WAIT,
            shutdown_timeout: Duration::from_secs(300),
            ..Options::new(SUBSCRIPTION)
        };
        let config = ConsumerConfig::check(&options).expect("options in range");
        let now = origin();
        Self {
            machine: Consumer::new(config, 1, now),
            now,
            epoch: Epoch(0),
            link: Link::default(),
            runs: BTreeMap::new(),
            owed: BTreeMap::new(),
            stopped: false,
            print: 0,
        }
    }

    pub(crate) fn hear(&mut self, input: Input) {
        self.machine.handle(input, self.now);
    }

    /// Sums up what decides how the process goes on. Numbers that only count do not make another state.
    pub(crate) fn sum_up(&mut self) {
        let mut hasher = DefaultHasher::new();
        (self.machine.outline(), &self.link, &self.owed, self.stopped).hash(&mut hasher);
        self.runs.keys().for_each(|event| event.hash(&mut hasher));
        self.print = hasher.finish();
    }

    pub(crate) const fn print(&self) -> u64 {
        self.print
    }

    /// The events whose proof is committed, by the machine's account.
    pub(crate) fn committed(&self) -> Vec<usize> {
        let mut events: Vec<usize> = self.machine.outline().proofs.iter().map(event_of).collect();
        events.sort_unstable();
        events
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.print.hash(to);
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

#[expect(clippy::disallowed_methods, reason = "any instant will do as the origin")]
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

pub(crate) fn event_id(event: usize) -> EventId {
    EventId::from_u128(event as u128 + 1)
}

pub(crate) fn event_of(id: &EventId) -> usize {
    usize::from(id.as_bytes()[15]) - 1
}

pub(crate) fn proof(event: usize, generation: u64) -> EventProof {
    EventProof {
        subscription_id: SUBSCRIPTION,
        delivery_id: DeliveryId::from_u128(event as u128 + 1),
        event_id: event_id(event),
        generation: Generation(generation),
        secret: Secret::from_bytes([0; 32]),
    }
}

pub(crate) fn result_event(event: usize) -> Arc<ResultEvent> {
    static EVENTS: OnceLock<Vec<Arc<ResultEvent>>> = OnceLock::new();
    let make = |event: usize| {
        let at = Timestamp::from_unix_micros(0).expect("1970 is a year");
        let snapshot = Snapshot {
            task_id: TaskId::from_u128(1),
            queue: "q".parse().expect("a name"),
            operation: "O".parse().expect("a name"),
            status: Status::Succeeded,
            version: TaskVersion(1),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: RawJson::null(),
            error: None,
        };
        Arc::new(ResultEvent { event_id: event_id(event), sequence: Sequence(1), occurred_at: at, snapshot })
    };
    Arc::clone(&EVENTS.get_or_init(|| (0..2).map(make).collect())[event])
}
