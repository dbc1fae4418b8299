//! The small shells obey, under a paused clock: each message has its effect, each answer goes up.

use std::time::Duration;

use actix::prelude::*;
use perilune_client::TurnAnswered;
use perilune_proto::EventProof;
use perilune_proto::consumer::{AckAnswer, Enabled, Epoch, PingAnswer, Replay, Role};
use tokio::time::Instant;

use crate::acknowledger::{Acknowledger, AcksAnswered, Attach, Commit, Detach};
use crate::connection::{SendAcks, SendPing};
use crate::custody::{ChildExited, ExitGuard, Life, Owned};
use crate::heartbeat::{Heartbeat, PingAnswered, StartBeat, StopBeat};
use crate::support::Sent;

/// Stands in for the connection below and for the subscription above.
#[derive(Default)]
struct Around {
    pings: Vec<Instant>,
    acks: Vec<u64>,
    pongs: usize,
    answers: usize,
    exits: Vec<Role>,
    /// Whether acks are answered.
    silent: bool,
}

impl Actor for Around {
    type Context = Context<Self>;
}

impl Handler<SendPing> for Around {
    type Result = ResponseFuture<Option<PingAnswer>>;

    fn handle(&mut self, _: SendPing, _: &mut Context<Self>) -> Self::Result {
        self.pings.push(Instant::now());
        Box::pin(async { Some(PingAnswer::Pong(Enabled::Enabled)) })
    }
}

impl Handler<SendAcks> for Around {
    type Result = ();

    fn handle(&mut self, message: SendAcks, _: &mut Context<Self>) {
        self.acks.extend(message.proofs.iter().map(|proof| proof.generation.0));
        if self.silent {
            return;
        }
        let confirm = |proof: EventProof| TurnAnswered {
            event_id: proof.event_id,
            generation: proof.generation,
            answer: AckAnswer::Confirmed { replay: Replay::First },
            took: Duration::ZERO,
        };
        let answers = message.proofs.into_iter().map(confirm).collect();
        let answered = AcksAnswered { epoch: message.epoch, answers };
        actix_rt::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            message.answer_to.upgrade().expect("it lives").do_send(answered);
        });
    }
}

macro_rules! counts {
    ($($message:ty => $what:expr),+ $(,)?) => {$(
        impl Handler<$message> for Around {
            type Result = ();

            fn handle(&mut self, message: $message, _: &mut Context<Self>) {
                ($what)(self, message);
            }
        }
    )+};
}

counts! {
    PingAnswered => |around: &mut Around, _| around.pongs += 1,
    AcksAnswered => |around: &mut Around, answered: AcksAnswered| around.answers += answered.answers.len(),
    ChildExited => |around: &mut Around, exited: ChildExited| around.exits.push(exited.role),
}

/// Looks at what was seen.
#[derive(Message)]
#[rtype(result = "(usize, usize, usize, usize, usize)")]
struct Look;

impl Handler<Look> for Around {
    type Result = MessageResult<Look>;

    fn handle(&mut self, _: Look, _: &mut Context<Self>) -> MessageResult<Look> {
        MessageResult((self.pings.len(), self.pongs, self.acks.len(), self.answers, self.exits.len()))
    }
}

/// The generations of the proofs that were handed on.
#[derive(Message)]
#[rtype(result = "Vec<u64>")]
struct Handed;

impl Handler<Handed> for Around {
    type Result = Vec<u64>;

    fn handle(&mut self, _: Handed, _: &mut Context<Self>) -> Vec<u64> {
        self.acks.clone()
    }
}

async fn look(around: &Addr<Around>) -> (usize, usize, usize, usize, usize) {
    around.send(Look).await.expect("it lives")
}

fn guard(role: Role, around: &Addr<Around>) -> ExitGuard {
    ExitGuard::new(role, Life::default(), around.downgrade().recipient())
}

#[actix::test]
async fn the_heart_beats_once_an_interval_until_it_is_told_to_rest() {
    tokio::time::pause();
    let around = Around::default().start();
    let heartbeat = Heartbeat::new(around.downgrade().recipient(), guard(Role::Heartbeat, &around)).start();
    let beat = StartBeat { epoch: Epoch(1), interval: Duration::from_secs(15), connection: around.clone().recipient() };
    heartbeat.send(beat).await.expect("it lives");
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert_eq!(look(&around).await.0, 0, "first after one interval");
    tokio::time::sleep(Duration::from_secs(15 * 3 + 2)).await;
    assert_eq!(look(&around).await, (4, 4, 0, 0, 0));
    heartbeat.send(StopBeat { epoch: Epoch(2) }).await.expect("it lives");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(look(&around).await.0, 5, "another connection's rest is not this one's");
    heartbeat.send(StopBeat { epoch: Epoch(1) }).await.expect("it lives");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(look(&around).await.0, 5);
}

#[actix::test]
async fn an_actor_ends_with_its_owner_whatever_timers_it_has() {
    tokio::time::pause();
    let around = Around::default().start();
    let heartbeat = Heartbeat::new(around.downgrade().recipient(), guard(Role::Heartbeat, &around)).start();
    let beat = StartBeat { epoch: Epoch(1), interval: Duration::from_secs(1), connection: around.clone().recipient() };
    let actor = heartbeat.clone();
    let owned = Owned::from(heartbeat);
    owned.send(beat).await.expect("it lives");
    drop(owned);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!actor.connected());
    assert_eq!(look(&around).await, (0, 0, 0, 0, 1), "its exit is told");
}

fn commit(epoch: u64, generations: std::ops::RangeInclusive<u64>) -> Commit {
    Commit { epoch: Epoch(epoch), proofs: generations.map(|generation| Sent { n: 1, generation }.proof()).collect() }
}

#[actix::test]
async fn proofs_are_handed_on_in_order_and_no_more_than_the_connection_may_have() {
    tokio::time::pause();
    let around = Around::default().start();
    let acknowledger = Acknowledger::new(around.downgrade().recipient(), guard(Role::Acknowledger, &around)).start();
    acknowledger.send(commit(1, 1..=1)).await.expect("it lives");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(look(&around).await.2, 0, "no connection is attached");
    acknowledger.send(Attach { epoch: Epoch(1), connection: around.clone().recipient() }).await.expect("it lives");
    acknowledger.do_send(commit(1, 2..=10));
    acknowledger.do_send(commit(2, 99..=99));
    acknowledger.send(commit(1, 11..=30)).await.expect("it lives");
    assert_eq!(look(&around).await.2, 24, "the others wait");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(look(&around).await, (0, 0, 29, 29, 0), "another connection's proof was dropped");
    assert_eq!(around.send(Handed).await.expect("it lives"), (2..=30).collect::<Vec<_>>());
}

#[actix::test]
async fn nothing_is_due_from_a_connection_that_is_over() {
    tokio::time::pause();
    let around = Around { silent: true, ..Around::default() }.start();
    let acknowledger = Acknowledger::new(around.downgrade().recipient(), guard(Role::Acknowledger, &around)).start();
    acknowledger.send(Attach { epoch: Epoch(1), connection: around.clone().recipient() }).await.expect("it lives");
    acknowledger.send(commit(1, 1..=1)).await.expect("it lives");
    acknowledger.send(Detach).await.expect("it lives");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(acknowledger.connected());
}

#[actix::test]
async fn a_connection_that_never_answers_ends_the_acknowledger() {
    tokio::time::pause();
    let around = Around { silent: true, ..Around::default() }.start();
    let acknowledger = Acknowledger::new(around.downgrade().recipient(), guard(Role::Acknowledger, &around)).start();
    acknowledger.send(Attach { epoch: Epoch(1), connection: around.clone().recipient() }).await.expect("it lives");
    acknowledger.send(commit(1, 1..=1)).await.expect("it lives");
    tokio::time::sleep(Duration::from_secs(14)).await;
    assert!(acknowledger.connected());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!acknowledger.connected());
    assert_eq!(look(&around).await, (0, 0, 1, 0, 1), "so the subscription hears of it");
}
