//! Every order in which a run can come to its end.

use std::future::pending;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perilune_actors::proto::wire::ErrorCode;
use perilune_actors::{CancelReason, Consumer, ConsumerBuilder, HealthState, RunErrorKind};

use crate::support::{Peer, client, soon, subscription_id, until};

fn builder(peer: &Peer) -> ConsumerBuilder {
    Consumer::builder(client(peer), subscription_id())
        .reconnect_min_delay(Duration::from_millis(10))
        .handler(|_event, _context| async { Ok(()) })
}

#[actix::test]
async fn a_consumer_runs_once() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer).build().expect("in range");
    let handle = consumer.start().expect("the first time");
    let mut session = peer.session().await;
    let again = consumer.run().await.expect_err("the second time");
    assert_eq!(*again.kind(), RunErrorKind::AlreadyRan);
    handle.stop();
    session.closed().await;
    soon("the end", handle.ended()).await.expect("a clean stop");
    assert_eq!(*consumer.run().await.expect_err("after its end").kind(), RunErrorKind::AlreadyRan);
}

#[actix::test]
async fn stopping_twice_is_stopping_once() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    let mut session = peer.session().await;
    handle.stop();
    handle.stop();
    session.closed().await;
    soon("the end", handle.ended()).await.expect("a clean stop");
    handle.stop();
    soon("the end, again", handle.ended()).await.expect("the same end");
    assert_eq!(handle.health().state, HealthState::Ended);
}

/// The peer accepts TCP and says nothing: the stop does not wait for the handshake's 8 s.
#[actix::test]
async fn a_stop_takes_effect_while_dialling() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    let _silent = peer.socket().await;
    let began = Instant::now();
    handle.stop();
    soon("the end", handle.ended()).await.expect("nothing was left");
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[actix::test]
async fn a_stop_takes_effect_while_backing_off() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer)
        .reconnect_min_delay(Duration::from_secs(30))
        .reconnect_max_delay(Duration::from_secs(30))
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    peer.refuse(503).await;
    until("the refusal", || handle.stats().dials_failed == 1).await;
    let began = Instant::now();
    handle.stop();
    soon("the end", handle.ended()).await.expect("nothing was left");
    assert!(began.elapsed() < Duration::from_secs(4));
}

/// A committed proof that is unanswered is waited for, and reported again where its connection drops.
#[actix::test]
async fn a_stop_sees_committed_proofs_through() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    session.ack().await;
    handle.stop();
    session.cut();
    let mut session = peer.session().await;
    assert_eq!(session.register().capacity, 1, "for the proof alone");
    session.settle(sent).await;
    session.closed().await;
    soon("the end", handle.ended()).await.expect("nothing is left");
}

#[actix::test]
async fn an_unanswered_proof_is_named_at_the_deadline() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer).shutdown_timeout(Duration::from_millis(200)).build().expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    session.ack().await;
    handle.stop();
    let error = soon("the deadline", handle.ended()).await.expect_err("one is unconfirmed");
    assert!(error.is_shutdown_timeout());
    assert_eq!(error.unconfirmed(), [sent.proof().event_id]);
    assert!(error.running().is_empty());
}

#[actix::test]
async fn running_handlers_are_told_and_their_results_collected() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler(|_event, context| async move {
            assert_eq!(context.cancellation().cancelled().await, CancelReason::Stopping);
            Ok(())
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    until("the handler", || handle.stats().running == 1).await;
    handle.stop();
    session.settle(sent).await;
    session.closed().await;
    soon("the end", handle.ended()).await.expect("nothing is left");
}

#[actix::test]
async fn a_permanent_error_cancels_and_awaits_what_runs() {
    let mut peer = Peer::start().await;
    let told = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&told);
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .shutdown_timeout(Duration::from_millis(300))
        .handler(move |event, context| {
            let seen = Arc::clone(&seen);
            async move {
                context.cancellation().stopping().await;
                seen.store(true, Ordering::Relaxed);
                if event.sequence.0 == 2 { pending().await } else { Ok(()) }
            }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    session.deliver(2, 1).await;
    until("the handlers", || handle.stats().running == 2).await;
    session.error(None, ErrorCode::HistoryGap).await;
    session.closed().await;
    let error = soon("the end", handle.ended()).await.expect_err("a permanent cause");
    assert!(error.is_history_gap());
    assert!(told.load(Ordering::Relaxed));
    assert_eq!((error.unconfirmed().len(), error.running().len()), (2, 1));
    assert_eq!(peer.dials(), 1, "no new connection is made");
}

#[actix::test]
async fn dropping_the_handle_stops_the_run_unwatched() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer).build().expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    let ack = session.ack().await;
    drop(handle);
    // The proof is seen through all the same.
    session.confirm(&ack, sent, false).await;
    session.closed().await;
    let mut notices = consumer.notices();
    while soon("the last notice", notices.next()).await.is_some() {}
}

#[actix::test]
async fn dropping_the_run_stops_it() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer).build().expect("in range");
    let session = {
        let run = std::pin::pin!(consumer.run());
        let session = std::pin::pin!(peer.session());
        match futures_util::future::select(run, session).await {
            futures_util::future::Either::Right((session, _)) => session,
            futures_util::future::Either::Left((ended, _)) => panic!("{ended:?}"),
        }
    };
    let mut session = session;
    session.closed().await;
}

#[actix::test]
async fn enough_events_end_the_run() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer).max_events(NonZeroU64::new(2).expect("two")).build().expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    for n in 1..=2 {
        let sent = session.deliver(n, 1).await;
        session.settle(sent).await;
    }
    session.closed().await;
    soon("the end", handle.ended()).await.expect("a clean end");
}

/// Stopping the system under a run is told to whoever waits elsewhere.
#[actix::test]
async fn a_system_that_stops_under_a_run_is_told() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer).build().expect("in range");
    let (sender, started) = tokio::sync::oneshot::channel();
    let elsewhere = std::thread::spawn(move || {
        let system = actix::System::new();
        let handle = system.block_on(async { consumer.start().expect("an actix system") });
        let _ = sender.send((handle, actix::System::current()));
        system.run().expect("the system");
    });
    let (handle, system) = soon("the start", started).await.expect("sent");
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    session.ack().await;
    system.stop();
    let error = soon("the end", handle.ended()).await.expect_err("stopped under it");
    assert_eq!(*error.kind(), RunErrorKind::Aborted);
    elsewhere.join().expect("no panic");
}

/// From an arbiter that is not the main one, as in a worker of a web server.
#[actix::test]
async fn a_consumer_runs_from_any_arbiter() {
    let mut peer = Peer::start().await;
    let consumer = builder(&peer).max_events(NonZeroU64::MIN).build().expect("in range");
    let (sender, ended) = tokio::sync::oneshot::channel();
    actix::Arbiter::new().spawn(async move {
        let _ = sender.send(consumer.run().await);
    });
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    session.settle(sent).await;
    session.closed().await;
    soon("the end", ended).await.expect("sent").expect("a clean end");
}

#[test]
fn a_run_without_an_actix_system_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let peer = Peer::start().await;
        let error = builder(&peer).build().expect("in range").run().await.expect_err("no system");
        assert_eq!(*error.kind(), RunErrorKind::NoArbiter);
    });
}
