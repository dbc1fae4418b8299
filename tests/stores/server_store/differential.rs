//! Any sequence of questions gets the same answers from every engine as from the memory store, which lives by the
//! contract's rules.
//!
//! A seed makes a sequence; a difference names it. `SEED=7 RUNS=100` runs a hundred from the seventh on.

use std::fmt::Write as _;
use std::time::Duration;

use perilune::server::store::{
    AddBudget, Confirmation, DeliveryState, Figures, Lease, ListDeliveries, PastCursors, Report, Retention, Start,
    SubscriptionRecord, Switch, Verdict,
};
use perilune_proto::backoff::Backoff;
use perilune_proto::event::Status;
use perilune_proto::rng::Rng;
use perilune_proto::scalar::{Generation, Secret, Sequence, TaskId};
use perilune_proto::wire::decode_event;

use super::world::{Reader, World, confirmation, key, keyed, name, names, report, session};

const STEPS: usize = 120;
const QUEUES: [&str; 2] = ["q", "r"];

/// One question, with numbers in place of what the engines draw themselves.
#[derive(Debug, Clone)]
enum Step {
    Report { task: u128, queue: usize, status: usize, operation: usize, key: Option<u64> },
    Lease { reader: usize, capacities: Vec<u8> },
    Confirm { lease: u64, flaw: u64 },
    Pass { seconds: u64 },
    Sweep,
    Retain { kept: u64, forget: bool },
    Switch { reader: usize, resume: bool },
    Seek { reader: usize, to: u64 },
    AddBudget { reader: usize, delivery: u64, add: u32 },
    AddToAll { reader: usize, add: u32 },
    Look { reader: usize },
}

fn step(rng: &mut Rng) -> Step {
    let reader = usize::try_from(rng.below(3)).unwrap_or(0);
    match rng.below(100) {
        0..30 => Step::Report {
            task: u128::from(rng.below(40)),
            queue: usize::try_from(rng.below(2)).unwrap_or(0),
            status: usize::try_from(rng.below(8)).unwrap_or(0),
            operation: usize::try_from(rng.below(2)).unwrap_or(0),
            key: rng.chance(40).then(|| rng.below(4)),
        },
        30..50 => {
            let sessions = rng.below(3) + 1;
            Step::Lease { reader, capacities: (0..sessions).map(|_| u8::try_from(rng.below(4)).unwrap_or(0)).collect() }
        }
        50..72 => Step::Confirm { lease: rng.next_u64(), flaw: rng.below(8) },
        72..80 => {
            let times = [1, 10, 29, 30, 31, 3_600, 86_400, 100_000];
            Step::Pass { seconds: times[usize::try_from(rng.below(8)).unwrap_or(0)] }
        }
        80..85 => Step::Sweep,
        85..87 => Step::Retain { kept: rng.below(20), forget: rng.chance(20) },
        87..90 => Step::Switch { reader, resume: rng.chance(70) },
        90..92 => Step::Seek { reader, to: rng.below(30) },
        92..94 => Step::AddBudget { reader, delivery: rng.below(8), add: 1 },
        94..96 => Step::AddToAll { reader, add: 2 },
        _ => Step::Look { reader },
    }
}

/// A store under test with what was drawn in it.
struct Run {
    world: World,
    readers: Vec<Reader>,
    leases: Vec<(usize, Lease)>,
}

impl Run {
    async fn new(world: World) -> Self {
        let mut readers = Vec::new();
        for n in 0..3_u32 {
            let reader = world
                .reader_with(|new| {
                    new.queues = if n == 0 { names(&QUEUES) } else { names(&["q"]) };
                    (new.window, new.budget) = (4 + 4 * n, 1 + n);
                    new.backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
                    if n == 1 {
                        new.statuses = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
                    }
                    if n == 2 {
                        new.operations = names(&["A"]);
                    }
                })
                .await;
            readers.push(reader);
        }
        Self { world, readers, leases: Vec::new() }
    }

    /// Takes a step; what it came to, without ids.
    async fn take(&mut self, step: &Step) -> String {
        let store = &self.world.store;
        match step {
            Step::Report { task, queue, status, operation, key } => {
                let task_id = TaskId::from_u128(*task);
                let (queue, status) = (QUEUES[*queue], Status::ALL[*status]);
                let operation = name(["A", "B"][*operation]);
                let idempotency = key.and_then(|key| {
                    keyed(task_id, status, &format!("k{key}"), &format!("{queue}{status}{operation}")).idempotency
                });
                let report = Report { idempotency, operation, ..report(queue, task_id, status) };
                match store.report(report).await.expect("a verdict") {
                    Verdict::Written(event) => format!("written {} {}", event.sequence, event.task_version),
                    Verdict::Seen(event) => format!("seen {} {}", event.sequence, event.task_version),
                    other => format!("{other:?}"),
                }
            }
            Step::Lease { reader, capacities } => self.lease(*reader, capacities).await,
            Step::Confirm { lease, flaw } => self.confirm(*lease, *flaw).await,
            Step::Pass { seconds } => {
                self.world.pass(Duration::from_secs(*seconds)).await;
                String::new()
            }
            Step::Sweep => {
                let swept = store.sweep().await.expect("a sweep");
                let expired: u64 = swept.expired.iter().map(|expired| expired.count).sum();
                format!("{} {expired} {} {} {}", swept.lapsed, swept.taken, swept.forgotten, swept.more)
            }
            Step::Retain { kept, forget } => {
                let past_cursors = if *forget { PastCursors::Forget } else { PastCursors::Keep };
                let retention = Retention { max_age: None, max_events: Some(*kept), past_cursors };
                format!("{:?}", store.retain(retention).await.expect("retained"))
            }
            Step::Switch { reader, resume } => {
                let to = if *resume { Switch::Resume } else { Switch::Pause };
                let record = store.switch_subscription(key(&self.readers[*reader]), to).await.expect("switched");
                figures(&record)
            }
            Step::Seek { reader, to } => {
                let to = match to {
                    0..5 => Start::Earliest,
                    5..10 => Start::Latest,
                    to => Start::Sequence(Sequence(to - 10)),
                };
                let record = store.seek_subscription(key(&self.readers[*reader]), to).await.expect("sought");
                figures(&record)
            }
            Step::AddBudget { reader, delivery, add } => self.add_budget(*reader, *delivery, *add).await,
            Step::AddToAll { reader, add } => {
                format!("{:?}", store.add_budget_to_expired(key(&self.readers[*reader]), *add).await.expect("given"))
            }
            Step::Look { reader } => self.look(*reader).await,
        }
    }

    async fn lease(&mut self, reader: usize, capacities: &[u8]) -> String {
        let sessions: Vec<_> = (1..).zip(capacities).map(|(n, capacity)| session(n, *capacity)).collect();
        let leases = self.world.lease(&self.readers[reader], &sessions).await;
        let mut text = format!("{:?} {:?}:", leases.supply, leases.again_in);
        for lease in leases.granted {
            let event = decode_event(&lease.event_json).expect("an event");
            let session = lease.session_id.as_bytes()[15];
            let _ = write!(text, " {}.{} to {session}", event.sequence, lease.generation);
            self.leases.push((reader, lease));
        }
        text
    }

    async fn confirm(&self, lease: u64, flaw: u64) -> String {
        let Some(place) = lease.checked_rem(self.leases.len() as u64).and_then(|place| usize::try_from(place).ok())
        else {
            return String::new();
        };
        let (reader, lease) = &self.leases[place];
        let proof = confirmation(&self.readers[*reader], lease);
        let proof = match flaw {
            0 => Confirmation { secret: Secret::from_bytes([7; 32]), ..proof },
            1 => Confirmation { generation: Generation(proof.generation.0 + 1), ..proof },
            2 => Confirmation { generation: Generation(proof.generation.0 - 1), ..proof },
            _ => proof,
        };
        let judged = format!("{:?}", self.world.store.confirm(proof).await.expect("a judgement"));
        // Without the event's id.
        judged.split_once("event_id").map_or(judged.clone(), |(_, rest)| rest[rest.find(',').unwrap_or(0)..].to_owned())
    }

    async fn add_budget(&self, reader: usize, delivery: u64, add: u32) -> String {
        let key = key(&self.readers[reader]);
        let list = ListDeliveries { key, states: [].into(), after: None, limit: 100 };
        let mut open = self.world.store.deliveries(list).await.expect("a page").items;
        open.sort_by_key(|delivery| delivery.sequence);
        let Some(chosen) = usize::try_from(delivery).ok().and_then(|place| open.get(place)) else {
            return String::new();
        };
        let given = self.world.store.add_budget(AddBudget { key, delivery_id: chosen.delivery_id, add }).await;
        match given {
            Ok(record) => format!("{} {:?} {} {}", record.sequence, record.state, record.generation, record.budget),
            Err(error) => error.to_string(),
        }
    }

    async fn look(&self, reader: usize) -> String {
        let reader = &self.readers[reader];
        let mut text = figures(&self.world.show(reader).await);
        let states = [DeliveryState::Ready, DeliveryState::Expired].into();
        let list = ListDeliveries { key: key(reader), states, after: None, limit: 100 };
        let mut open = self.world.store.deliveries(list).await.expect("a page").items;
        open.sort_by_key(|delivery| delivery.sequence);
        for delivery in open {
            let (sequence, state, generation) = (delivery.sequence, delivery.state, delivery.generation);
            let _ = write!(text, " {sequence} {state:?} {generation}/{} {}", delivery.budget, delivery.due_at);
        }
        let figures = self.world.store.figures().await.expect("figures");
        let _ = write!(text, " {figures:?} {:?}", self.world.store.next_wakeup().await.expect("an answer"));
        // Without the subscriptions' ids.
        text.split_once(" blocked").map_or(text.clone(), |(before, _)| before.to_owned())
    }
}

/// A subscription's figures but for its cursor: engines pass over events of other queues sooner or later.
fn figures(record: &SubscriptionRecord) -> String {
    format!("{:?}", Figures { cursor: Sequence(0), ..record.figures })
}

/// Runs a seed's steps on an engine and on the reference.
async fn compare(seed: u64, world: World) {
    let mut rng = Rng::new(seed);
    let (mut reference, mut tried) = (Run::new(World::in_memory()).await, Run::new(world).await);
    let mut story = String::new();
    for number in 0..STEPS {
        let step = step(&mut rng);
        let (expected, found) = (reference.take(&step).await, tried.take(&step).await);
        let _ = writeln!(story, "{number}: {step:?}\n    {expected}");
        assert_eq!(found, expected, "SEED={seed}, after\n{story}");
    }
}

fn seeds(runs: u64) -> std::ops::Range<u64> {
    let number = |variable| std::env::var(variable).ok().and_then(|text| text.parse().ok());
    let first = number("SEED").unwrap_or(1);
    first..first + number("RUNS").unwrap_or(runs)
}

#[tokio::test]
async fn sqlite_answers_as_the_rules_do() {
    for seed in seeds(12) {
        compare(seed, World::in_sqlite().await).await;
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres_answers_as_the_rules_do() {
    for seed in seeds(4) {
        let Some((world, schema)) = super::postgres::world().await else { return };
        compare(seed, world).await;
        schema.drop().await;
    }
}
