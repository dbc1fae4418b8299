//! The consumer machine under any inputs at any times, from a shell that keeps its side of the vocabulary and from
//! one that does not.
//!
//! Whatever comes: no panic, never more runs or held events than the capacity, one run an event at a time, one ack in
//! flight a connection, no ack of what no handler said ok to, no second run of what is committed, dials numbered
//! upwards and never two at once, nothing after the end.

#![no_main]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use perilune_proto::consumer::{
    AckAnswer, Action, CauseCode, Consumer, ConsumerConfig, Delivered, DisconnectCause, Enabled, Epoch, HandlerOutcome,
    Input, Notice, Options, PingAnswer, Replay, Role, RunId,
};
use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, Secret, Sequence, SubscriptionId, TaskId, TaskVersion, Timestamp,
};
use perilune_proto::wire::{CloseCode, ErrorCode};
use perilune_proto::{EventProof, RawJson, ResultEvent, Snapshot, Status};

const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(2);

#[derive(Arbitrary, Debug)]
struct Run {
    capacity: u8,
    seed: u64,
    max_events: u8,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Connect { enabled: bool },
    FailDial(Cause),
    Disconnect(Cause),
    Deliver { delivery: u8, lease_ms: u16 },
    AnswerAck(Answer),
    AnswerPing { enabled: bool },
    RefusePing(Cause),
    EndHandler { which: u8, outcome: u8 },
    Lose(u8),
    LoseShell,
    DropNotice,
    Stop,
    Pass { milliseconds: u32 },
    /// News that nobody sent: of another epoch, of an unknown run, out of turn.
    Stray { kind: u8, epoch: u8, number: u8 },
}

#[derive(Arbitrary, Debug)]
struct Cause {
    code: u8,
    retry_after_ms: Option<u16>,
}

#[derive(Arbitrary, Debug)]
enum Answer {
    First,
    Replayed,
    Lost,
    Refused(Cause),
}

/// What the shell knows of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    None,
    Dialling(Epoch),
    Up(Epoch),
}

struct Shell {
    machine: Consumer,
    capacity: usize,
    link: Link,
    epoch: Epoch,
    running: BTreeMap<RunId, EventId>,
    /// Said ok to, or running when the shell was lost: only these may be acknowledged.
    approved: BTreeSet<EventId>,
    /// Said ok to and not settled: these must not run again.
    committed: BTreeSet<EventId>,
    /// Handed over to the connection, the oldest first; answers come in this order.
    handed: VecDeque<(Epoch, EventId, Generation)>,
    stopped: bool,
    finished: bool,
    now: Instant,
}

fuzz_target!(|run: Run| {
    let now = Instant::now();
    let mut options = Options::new(SUBSCRIPTION);
    options.capacity = run.capacity % 32 + 1;
    options.max_events = u64::from(run.max_events).try_into().ok();
    let config = ConsumerConfig::check(&options).expect("in range");
    let mut shell = Shell {
        machine: Consumer::new(config, run.seed, now),
        capacity: usize::from(options.capacity),
        link: Link::None,
        epoch: Epoch(0),
        running: BTreeMap::new(),
        approved: BTreeSet::new(),
        committed: BTreeSet::new(),
        handed: VecDeque::new(),
        stopped: false,
        finished: false,
        now,
    };
    shell.drain();
    for step in run.steps {
        shell.step(step);
        shell.drain();
        shell.check();
    }
});

impl Shell {
    fn hear(&mut self, input: Input) {
        self.machine.handle(input, self.now);
    }

    fn step(&mut self, step: Step) {
        match (step, self.link) {
            (Step::Connect { enabled }, Link::Dialling(epoch)) => {
                self.link = Link::Up(epoch);
                let heartbeat_interval = Duration::from_secs(15);
                self.hear(Input::Connected { epoch, heartbeat_interval, enabled: enabled.into() });
            }
            (Step::FailDial(cause), Link::Dialling(epoch)) => {
                self.link = Link::None;
                self.hear(Input::DialFailed { epoch, cause: cause.into() });
            }
            (Step::Disconnect(cause), Link::Up(epoch)) => {
                self.part();
                self.hear(Input::Disconnected { epoch, cause: cause.into() });
            }
            (Step::Deliver { delivery, lease_ms }, Link::Up(epoch)) => {
                let delivery = delivered(delivery, 1 + u64::from(lease_ms) % 30_000);
                self.hear(Input::Delivered { epoch, delivery });
            }
            (Step::AnswerAck(answer), Link::Up(_)) => self.answer_ack(answer),
            (Step::AnswerPing { enabled }, Link::Up(epoch)) => {
                self.hear(Input::PingAnswered { epoch, answer: PingAnswer::Pong(enabled.into()) });
            }
            (Step::RefusePing(cause), Link::Up(epoch)) => {
                self.hear(Input::PingAnswered { epoch, answer: PingAnswer::Refused(cause.into()) });
            }
            (Step::EndHandler { which, outcome }, _) => self.end_handler(which, outcome),
            (Step::Lose(role), _) => self.lose(Role::ALL[usize::from(role) % Role::ALL.len()]),
            (Step::LoseShell, _) => {
                // Whatever ran is gone with the pool, and so is the connection.
                self.part();
                self.running.clear();
                // Whether the end was carried out is not known: it is told again.
                self.finished = false;
                self.hear(Input::ShellLost);
            }
            (Step::DropNotice, _) => self.hear(Input::NoticesDropped(1)),
            (Step::Stop, _) => {
                self.stopped = true;
                self.hear(Input::Stop);
            }
            (Step::Pass { milliseconds }, _) => {
                self.now += Duration::from_millis(u64::from(milliseconds) % 120_000);
                self.hear(Input::TimedOut);
            }
            (Step::Stray { kind, epoch, number }, _) => self.stray(kind, epoch, number),
            _ => {}
        }
    }

    fn part(&mut self) {
        self.link = Link::None;
        self.handed.clear();
    }

    fn answer_ack(&mut self, answer: Answer) {
        let Some((epoch, event_id, generation)) = self.handed.pop_front() else { return };
        let settles = !matches!(answer, Answer::Refused(_));
        let answer = match answer {
            Answer::First => AckAnswer::Confirmed { replay: Replay::First },
            Answer::Replayed => AckAnswer::Confirmed { replay: Replay::Replayed },
            Answer::Lost => AckAnswer::Lost,
            Answer::Refused(cause) => AckAnswer::Refused(cause.into()),
        };
        if settles {
            self.committed.remove(&event_id);
        }
        // A judgement of the session and not of the proof is the last answer there.
        if matches!(&answer, AckAnswer::Refused(cause) if cause.code != CauseCode::Error(ErrorCode::ProofInvalid)) {
            self.handed.clear();
        }
        self.hear(Input::AckAnswered { epoch, event_id, generation, answer });
    }

    fn end_handler(&mut self, which: u8, outcome: u8) {
        let at = usize::from(which) % self.running.len().max(1);
        let Some((run, event_id)) = self.running.iter().nth(at).map(|(run, event_id)| (*run, *event_id)) else { return };
        self.running.remove(&run);
        let outcome = [HandlerOutcome::Ok, HandlerOutcome::Error, HandlerOutcome::Panicked, HandlerOutcome::Gone]
            [usize::from(outcome) % 4];
        if outcome == HandlerOutcome::Ok {
            self.approved.insert(event_id);
            self.committed.insert(event_id);
        }
        self.hear(Input::HandlerEnded { run, outcome });
    }

    fn lose(&mut self, role: Role) {
        match role {
            Role::Connection => self.part(),
            Role::HandlerPool => self.running.clear(),
            // What it had is never answered; the machine hands it over again on the next connection.
            Role::Acknowledger => self.handed.clear(),
            Role::Heartbeat => {}
        }
        self.hear(Input::ChildLost(role));
    }

    fn stray(&mut self, kind: u8, epoch: u8, number: u8) {
        // An epoch before the present one, or one that never was.
        let epoch = match epoch % 2 {
            0 => Epoch(self.epoch.0.saturating_sub(1 + u64::from(epoch))),
            _ => Epoch(self.epoch.0 + 1 + u64::from(epoch)),
        };
        let cause = DisconnectCause::new(CauseCode::Network);
        let event_id = EventId::from_u128(u128::from(number / 4));
        let generation = Generation(u64::from(number % 4) + 1);
        self.hear(match kind % 7 {
            0 => Input::Connected { epoch, heartbeat_interval: Duration::from_secs(1), enabled: Enabled::Enabled },
            1 => Input::DialFailed { epoch, cause },
            2 => Input::Disconnected { epoch, cause },
            3 => Input::Delivered { epoch, delivery: delivered(number, 1_000) },
            4 => {
                let answer = AckAnswer::Confirmed { replay: Replay::First };
                Input::AckAnswered { epoch, event_id, generation, answer }
            }
            5 => Input::PingAnswered { epoch, answer: PingAnswer::Pong(Enabled::Paused) },
            _ => Input::HandlerEnded { run: RunId(u64::MAX - u64::from(number)), outcome: HandlerOutcome::Ok },
        });
    }

    fn drain(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            assert!(!self.finished, "nothing follows the end: {action:?}");
            match action {
                Action::Dial { epoch, capacity } => {
                    assert!(self.link == Link::None, "two connections at once");
                    assert!(epoch > self.epoch && usize::from(capacity) <= self.capacity && capacity > 0);
                    self.epoch = epoch;
                    self.link = Link::Dialling(epoch);
                }
                Action::Close { epoch } => self.close(epoch),
                Action::Ack { epoch, proof } => {
                    assert!(self.link == Link::Up(epoch), "an ack on a connection that is not up");
                    let twice = self.handed.iter().any(|(_, handed, _)| *handed == proof.event_id);
                    assert!(!twice, "a proof handed over twice to one connection");
                    assert!(self.approved.contains(&proof.event_id), "an ack of what nobody said ok to");
                    self.handed.push_back((epoch, proof.event_id, proof.generation));
                }
                Action::Start { run, event, .. } => {
                    assert!(!self.stopped, "a start after a stop");
                    assert!(!self.committed.contains(&event.event_id), "a second run of what is committed");
                    let twin = self.running.values().any(|running| *running == event.event_id);
                    assert!(!twin, "two runs of one event at once");
                    assert!(self.running.insert(run, event.event_id).is_none(), "a run's number again");
                    assert!(self.running.len() <= self.capacity);
                }
                Action::Notify(Notice::Stopped) => self.stopped = true,
                Action::Finish(report) => {
                    assert!(self.stopped, "an end without its notice");
                    assert!(report.running.len() <= self.capacity && report.committed.len() <= self.capacity);
                    self.finished = true;
                }
                _ => {}
            }
        }
    }

    /// A connection ends at once when it is told to.
    fn close(&mut self, epoch: Epoch) {
        let cause = DisconnectCause::new(CauseCode::Closed);
        match self.link {
            Link::Dialling(dialling) if dialling == epoch => {
                self.part();
                self.hear(Input::DialFailed { epoch, cause });
            }
            Link::Up(up) if up == epoch => {
                self.part();
                self.hear(Input::Disconnected { epoch, cause });
            }
            _ => {}
        }
    }

    fn check(&self) {
        let stats = self.machine.stats();
        let held = usize::try_from(stats.running + stats.committed).expect("few");
        assert!(held <= self.capacity, "{held} events held");
        if !self.finished {
            let known = self.running.len();
            assert!(usize::try_from(stats.running).expect("few") == known, "{} run, the machine counts {}", known, stats.running);
        }
    }
}

impl From<Cause> for DisconnectCause {
    fn from(cause: Cause) -> Self {
        let code = match cause.code % 10 {
            0 => CauseCode::Error(ErrorCode::Unavailable),
            1 => CauseCode::Error(ErrorCode::Unauthenticated),
            2 => CauseCode::Close(CloseCode(1_000 + u16::from(cause.code))),
            3 => CauseCode::Http { status: 503, code: None },
            4 => CauseCode::Http { status: 404, code: Some(ErrorCode::SubscriptionNotFound) },
            5 => CauseCode::Timeout,
            6 => CauseCode::ReceiveBufferFull,
            7 => CauseCode::Protocol,
            8 => CauseCode::Local,
            _ => CauseCode::Network,
        };
        let retry_after = cause.retry_after_ms.map(|milliseconds| Duration::from_millis(milliseconds.into()));
        Self { code, retry_after }
    }
}

/// Delivery `n / 4` under generation `n % 4 + 1`; its event has the same id.
fn delivered(n: u8, lease_ms: u64) -> Delivered {
    let id = u128::from(n / 4);
    let time: Timestamp = "2026-08-01T10:00:00Z".parse().expect("a time");
    Delivered {
        proof: EventProof {
            subscription_id: SUBSCRIPTION,
            delivery_id: DeliveryId::from_u128(id),
            event_id: EventId::from_u128(id),
            generation: Generation(u64::from(n % 4) + 1),
            secret: Secret::from_bytes([n; 32]),
        },
        event: Arc::new(ResultEvent {
            event_id: EventId::from_u128(id),
            sequence: Sequence(1),
            occurred_at: time,
            snapshot: Snapshot {
                task_id: TaskId::from_u128(1),
                queue: "q".parse().expect("a name"),
                operation: "o".parse().expect("a name"),
                status: Status::Started,
                version: TaskVersion(1),
                created_at: time,
                updated_at: time,
                payload: RawJson::null(),
                result: RawJson::null(),
                error: None,
            },
        }),
        lease: Duration::from_millis(lease_ms),
    }
}
