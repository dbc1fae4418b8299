//! The rules of the consumer, one test a rule. `Bench` is a shell that does nothing by itself.

mod acks;
mod crashes;
mod life;
mod reconnects;
mod shutdowns;
mod totality;

use std::sync::Arc;
use std::time::{Duration, Instant};

use perilune_proto::consumer::*;
use perilune_proto::event::{ResultEvent, Snapshot, Status};
use perilune_proto::json::RawJson;
use perilune_proto::proof::EventProof;
use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, Secret, Sequence, SubscriptionId, TaskId, TaskVersion, Timestamp,
};
use perilune_proto::wire::ErrorCode;

const LEASE: Duration = Duration::from_secs(30);
const BEAT: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);

fn subscription() -> SubscriptionId {
    SubscriptionId::from_u128(0x50)
}

fn options() -> Options {
    Options::new(subscription())
}

fn event_id(n: u64) -> EventId {
    EventId::from_u128(u128::from(n))
}

fn event(n: u64) -> Arc<ResultEvent> {
    let at = Timestamp::from_unix_micros(0).expect("1970 is a year");
    let snapshot = Snapshot {
        task_id: TaskId::from_u128(u128::from(n)),
        queue: "reports".parse().expect("a name"),
        operation: "GenerateReport".parse().expect("a name"),
        status: Status::Succeeded,
        version: TaskVersion(1),
        created_at: at,
        updated_at: at,
        payload: RawJson::parse("\"confidential\"", 1).expect("a JSON string"),
        result: RawJson::null(),
        error: None,
    };
    Arc::new(ResultEvent { event_id: event_id(n), sequence: Sequence(n), occurred_at: at, snapshot })
}

fn proof(n: u64, generation: u64) -> EventProof {
    EventProof {
        subscription_id: subscription(),
        delivery_id: DeliveryId::from_u128(u128::from(n)),
        event_id: event_id(n),
        generation: Generation(generation),
        secret: Secret::from_bytes([u8::try_from(generation).expect("few generations"); 32]),
    }
}

fn error(code: ErrorCode) -> DisconnectCause {
    CauseCode::Error(code).into()
}

fn lost() -> DisconnectCause {
    CauseCode::Network.into()
}

/// A machine, its clock, and what it did last.
struct Bench {
    consumer: Consumer,
    now: Instant,
    epoch: Epoch,
    done: Vec<Action>,
}

impl Bench {
    /// A machine that has just been made.
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the origin")]
    fn new(options: &Options) -> Self {
        let now = Instant::now();
        let config = ConsumerConfig::check(options).expect("options in range");
        Self::around(Consumer::new(config, 1, now), now)
    }

    fn around(consumer: Consumer, now: Instant) -> Self {
        let mut bench = Self { consumer, now, epoch: Epoch(0), done: Vec::new() };
        bench.drain();
        bench
    }

    /// A machine with an open session.
    fn up(options: &Options) -> Self {
        let mut bench = Self::new(options);
        bench.connect();
        bench
    }

    fn drain(&mut self) {
        self.done.clear();
        while let Some(action) = self.consumer.poll_action() {
            if let Action::Dial { epoch, .. } = action {
                self.epoch = epoch;
            }
            self.done.push(action);
        }
    }

    fn hear(&mut self, input: Input) -> &mut Self {
        self.consumer.handle(input, self.now);
        self.drain();
        self
    }

    fn pass(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self.hear(Input::TimedOut)
    }

    /// Lets time pass until the machine asks to be heard, and says why it asked.
    fn pass_to_timeout(&mut self) -> Option<Reason> {
        let (at, reason) = self.consumer.poll_timeout()?;
        self.now = self.now.max(at);
        self.hear(Input::TimedOut);
        Some(reason)
    }

    fn connect(&mut self) -> &mut Self {
        let epoch = self.epoch;
        self.hear(Input::Connected { epoch, heartbeat_interval: BEAT, enabled: Enabled::Enabled })
    }

    /// Waits for the next dial and lets it succeed.
    fn reconnect(&mut self) -> &mut Self {
        let before = self.epoch;
        while self.epoch == before {
            self.pass_to_timeout().expect("a dial is to come");
        }
        self.connect()
    }

    fn disconnect(&mut self) -> &mut Self {
        self.end(lost())
    }

    fn end(&mut self, cause: DisconnectCause) -> &mut Self {
        let epoch = self.epoch;
        self.hear(Input::Disconnected { epoch, cause })
    }

    fn deliver(&mut self, n: u64, generation: u64) -> &mut Self {
        self.deliver_for(n, generation, LEASE)
    }

    fn deliver_for(&mut self, n: u64, generation: u64, lease: Duration) -> &mut Self {
        let delivery = Delivered { proof: proof(n, generation), event: event(n), lease };
        let epoch = self.epoch;
        self.hear(Input::Delivered { epoch, delivery })
    }

    fn ended(&mut self, run: u64, outcome: HandlerOutcome) -> &mut Self {
        self.hear(Input::HandlerEnded { run: RunId(run), outcome })
    }

    fn ok(&mut self, run: u64) -> &mut Self {
        self.ended(run, HandlerOutcome::Ok)
    }

    fn answer(&mut self, n: u64, generation: u64, answer: AckAnswer) -> &mut Self {
        let (epoch, event_id, generation) = (self.epoch, event_id(n), Generation(generation));
        self.hear(Input::AckAnswered { epoch, event_id, generation, answer })
    }

    fn confirm(&mut self, n: u64, generation: u64) -> &mut Self {
        self.answer(n, generation, AckAnswer::Confirmed { replay: Replay::First })
    }

    /// Handlers started by the last input, as event and generation.
    fn starts(&self) -> Vec<(EventId, u64)> {
        let started = |action: &Action| match action {
            Action::Start { event, generation, .. } => Some((event.event_id, generation.0)),
            _ => None,
        };
        self.done.iter().filter_map(started).collect()
    }

    /// Proofs reported by the last input, as event and generation.
    fn acks(&self) -> Vec<(EventId, u64)> {
        let reported = |action: &Action| match action {
            Action::Ack { proof, .. } => Some((proof.event_id, proof.generation.0)),
            _ => None,
        };
        self.done.iter().filter_map(reported).collect()
    }

    fn notices(&self) -> Vec<Notice> {
        let noticed = |action: &Action| match action {
            Action::Notify(notice) => Some(notice.clone()),
            _ => None,
        };
        self.done.iter().filter_map(noticed).collect()
    }

    fn signals(&self) -> Vec<(u64, RunSignal)> {
        let told = |action: &Action| match action {
            Action::Signal { run, signal } => Some((run.0, *signal)),
            _ => None,
        };
        self.done.iter().filter_map(told).collect()
    }

    fn report(&self) -> Option<FinishReport> {
        self.done.iter().find_map(|action| match action {
            Action::Finish(report) => Some(report.clone()),
            _ => None,
        })
    }

    fn dialled(&self) -> bool {
        self.done.iter().any(|action| matches!(action, Action::Dial { .. }))
    }

    fn closed(&self) -> bool {
        self.done.iter().any(|action| matches!(action, Action::Close { .. }))
    }

    /// How long the machine waits before its next dial.
    fn wait(&self) -> Duration {
        match self.consumer.poll_timeout() {
            Some((at, Reason::Reconnect)) => at.saturating_duration_since(self.now),
            other => panic!("the machine waits for something else: {other:?}"),
        }
    }
}

fn just(n: u64, generation: u64) -> Vec<(EventId, u64)> {
    vec![(event_id(n), generation)]
}
