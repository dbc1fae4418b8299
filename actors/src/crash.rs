//! Kills each actor in turn. Test only: nothing can be told to crash in a real build.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::prelude::*;
use perilune_proto::consumer::Role;

use crate::acknowledger::Acknowledger;
use crate::connection::Connection;
use crate::handler_pool::HandlerPool;
use crate::heartbeat::Heartbeat;
use crate::subscription::Subscription;
use crate::supervisor::{ConsumerId, Supervisor};
use crate::support::{Peer, client, soon, subscription_id, until};
use crate::{Consumer, ConsumerHandle, RunErrorKind, SupervisorHandle};

/// Who is to crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Child(Role),
    /// The subscription's shell, between two steps of its machine.
    Shell,
    /// The subscription, in the middle of a step.
    Machine,
    Supervisor,
}

/// Crash, or pass it on to whoever is meant.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub(crate) struct Crash {
    pub(crate) id: ConsumerId,
    pub(crate) victim: Victim,
}

macro_rules! crashes {
    ($($actor:ty),+) => {$(
        impl Handler<Crash> for $actor {
            type Result = ();

            fn handle(&mut self, message: Crash, _ctx: &mut Context<Self>) {
                panic!("asked to: {message:?}");
            }
        }
    )+};
}

crashes!(Connection, Heartbeat, Acknowledger, HandlerPool);

impl Handler<Crash> for Subscription {
    type Result = ();

    fn handle(&mut self, message: Crash, ctx: &mut Context<Self>) {
        match message.victim {
            Victim::Child(role) => self.crash_child(role, message, ctx),
            Victim::Machine => self.crash_machine(),
            _ => panic!("asked to: {message:?}"),
        }
    }
}

impl Handler<Crash> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: Crash, _ctx: &mut Context<Self>) {
        assert_ne!(message.victim, Victim::Supervisor, "asked to");
        self.pass_on(message);
    }
}

/// A consumer with one committed and unconfirmed proof, and one handler that never ends.
struct Scene {
    peer: Peer,
    supervisor: SupervisorHandle,
    handle: ConsumerHandle,
    runs: Arc<AtomicU64>,
    session: crate::support::Session,
    sent: crate::support::Sent,
}

async fn scene() -> Scene {
    let mut peer = Peer::start().await;
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .reconnect_min_delay(Duration::from_millis(10))
        .shutdown_timeout(Duration::from_millis(500))
        .handler(move |event, _context| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { if event.sequence.0 == 2 { pending().await } else { Ok(()) } }
        })
        .build()
        .expect("in range");
    let supervisor = Supervisor::start(std::num::NonZeroUsize::MIN).expect("an actix system");
    let handle = supervisor.add(&consumer).expect("the first run");
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    session.deliver(2, 1).await;
    session.ack().await;
    until("both events", || runs.load(Ordering::Relaxed) == 2).await;
    Scene { peer, supervisor, handle, runs, session, sent }
}

impl Scene {
    fn crash(&self, victim: Victim) {
        self.supervisor.actor().do_send(Crash { id: self.handle.id(), victim });
    }

    /// The committed proof comes again on a new session, its handler does not run again, and new events are handled.
    async fn goes_on(&mut self) {
        let session = &mut self.peer.session().await;
        let again = session.ack().await;
        session.confirm(&again, self.sent, true).await;
        let handle = self.handle.clone();
        until("the receipt", || handle.stats().acknowledged >= 1).await;
        assert_eq!(self.runs.load(Ordering::Relaxed), 2, "no handler ran again");
        let fresh = session.deliver(3, 1).await;
        session.settle(fresh).await;
        assert_eq!(self.runs.load(Ordering::Relaxed), 3);
        assert_eq!(handle.stats().children_lost, 1);
        handle.stop();
        let ended = soon("the end", handle.ended()).await;
        if self.handle.stats().handler_failures == 0 {
            // The handler that never ends lived through it.
            let error = ended.expect_err("it still runs");
            assert_eq!((error.unconfirmed().len(), error.running().len()), (1, 1));
        } else {
            ended.expect("the pool or the shell took it along, so it counts as failed");
        }
    }
}

#[actix::test]
async fn a_crashed_connection_is_replaced_and_the_proof_reported_again() {
    let mut scene = scene().await;
    scene.crash(Victim::Child(Role::Connection));
    scene.session.closed().await;
    scene.goes_on().await;
}

#[actix::test]
async fn a_crashed_heartbeat_leads_to_a_new_session() {
    let mut scene = scene().await;
    scene.crash(Victim::Child(Role::Heartbeat));
    scene.session.closed().await;
    scene.goes_on().await;
}

#[actix::test]
async fn a_crashed_acknowledger_leads_to_a_new_session_for_the_proof_in_flight() {
    let mut scene = scene().await;
    scene.crash(Victim::Child(Role::Acknowledger));
    scene.session.closed().await;
    scene.goes_on().await;
}

#[actix::test]
async fn a_crashed_pool_fails_what_ran_and_the_next_one_handles_new_events() {
    let mut scene = scene().await;
    scene.crash(Victim::Child(Role::HandlerPool));
    let handle = scene.handle.clone();
    until("the failure", || handle.stats().handler_failures == 1).await;
    // The connection stands: the proof in flight can still be confirmed there.
    let ack = scene.session.last_ack();
    scene.session.confirm(&ack, scene.sent, false).await;
    until("the receipt", || handle.stats().acknowledged == 1).await;
    let fresh = scene.session.deliver(3, 1).await;
    scene.session.settle(fresh).await;
    handle.stop();
    scene.session.closed().await;
    soon("the end", handle.ended()).await.expect("nothing is left");
}

#[actix::test]
async fn a_crashed_shell_leaves_its_machine_to_the_next_one() {
    let mut scene = scene().await;
    scene.crash(Victim::Shell);
    scene.session.closed().await;
    scene.goes_on().await;
}

#[actix::test]
async fn proofs_outlive_a_machine_that_was_interrupted() {
    let mut scene = scene().await;
    scene.crash(Victim::Machine);
    scene.session.closed().await;
    let session = &mut scene.peer.session().await;
    let again = session.ack().await;
    session.confirm(&again, scene.sent, true).await;
    let handle = scene.handle.clone();
    until("the receipt", || handle.stats().acknowledged == 1).await;
    assert_eq!(scene.runs.load(Ordering::Relaxed), 2, "no handler ran again");
    handle.stop();
    soon("the end", handle.ended()).await.expect("nothing is left");
}

#[actix::test]
async fn a_stop_that_meets_a_crash_is_not_forgotten() {
    let mut scene = scene().await;
    scene.crash(Victim::Shell);
    scene.handle.stop();
    scene.session.closed().await;
    let session = &mut scene.peer.session().await;
    let again = session.ack().await;
    assert_eq!(session.register().capacity, 1, "a stop dials for its proofs alone");
    session.confirm(&again, scene.sent, true).await;
    soon("the end", scene.handle.ended()).await.expect("nothing is left");
}

#[actix::test]
async fn a_child_that_keeps_crashing_ends_the_run_with_an_error() {
    let mut scene = scene().await;
    for lost in 1..=6 {
        scene.crash(Victim::Child(Role::HandlerPool));
        let handle = scene.handle.clone();
        until("the loss", || handle.stats().children_lost == lost).await;
    }
    let ack = scene.session.last_ack();
    scene.session.confirm(&ack, scene.sent, false).await;
    let error = soon("the end", scene.handle.ended()).await.expect_err("the budget is spent");
    assert_eq!(*error.kind(), RunErrorKind::Crashed { actor: "handler_pool" });
}

#[actix::test]
async fn a_machine_that_keeps_crashing_ends_the_run_with_an_error() {
    let scene = scene().await;
    until("the sixth crash", || {
        scene.crash(Victim::Machine);
        scene.handle.health().state == crate::HealthState::Ended
    })
    .await;
    let error = soon("the end", scene.handle.ended()).await.expect_err("the budget is spent");
    assert!(error.is_crash());
    assert_eq!(error.unconfirmed().len(), 1, "the error names what was committed");
}

#[actix::test]
async fn a_crashed_supervisor_is_not_silent() {
    let scene = scene().await;
    scene.crash(Victim::Supervisor);
    let error = soon("the end", scene.handle.ended()).await.expect_err("nobody is left to run it");
    assert_eq!(*error.kind(), RunErrorKind::Aborted);
}
