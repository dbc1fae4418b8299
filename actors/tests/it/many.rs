//! Several subscriptions under one supervisor.

use std::num::NonZeroUsize;
use std::time::Duration;

use perilune_actors::proto::wire::ErrorCode;
use perilune_actors::{Consumer, HealthState, Supervisor};

use crate::support::{Peer, client, soon, subscription_id, until};

fn consumer(peer: &Peer) -> Consumer {
    Consumer::builder(client(peer), subscription_id())
        .reconnect_min_delay(Duration::from_millis(10))
        .handler(|_event, _context| async { Ok(()) })
        .build()
        .expect("in range")
}

/// Started and stopped at run time, spread over two arbiters, listed; one that fails leaves the others alone.
#[actix::test]
async fn one_that_ends_leaves_the_others_alone() {
    let mut peers = [Peer::start().await, Peer::start().await, Peer::start().await];
    let supervisor = Supervisor::start(NonZeroUsize::new(2).expect("two")).expect("an actix system");
    let consumers: Vec<_> = peers.iter().map(consumer).collect();
    let handles: Vec<_> = consumers.iter().map(|consumer| supervisor.add(consumer).expect("first")).collect();
    let mut sessions = Vec::new();
    for peer in &mut peers {
        sessions.push(peer.session().await);
    }
    for handle in &handles {
        until("connected", || handle.health().is_ready()).await;
    }
    sessions[0].error(None, ErrorCode::PermissionDenied).await;
    sessions[0].closed().await;
    let error = soon("its end", handles[0].ended()).await.expect_err("permanent");
    assert!(error.is_permission_denied());
    handles[1].stop();
    sessions[1].closed().await;
    soon("its end", handles[1].ended()).await.expect("a clean stop");
    let sent = sessions[2].deliver(1, 1).await;
    sessions[2].settle(sent).await;
    until("the receipt", || handles[2].stats().acknowledged == 1).await;
    let listed = supervisor.list().await.expect("the supervisor lives");
    let states: Vec<_> = listed.iter().map(|one| one.health.state).collect();
    assert_eq!(states, [HealthState::Ended, HealthState::Ended, HealthState::Idle]);
    assert!(listed[0].error.as_ref().is_some_and(perilune_actors::RunError::is_permission_denied));
    assert!(listed[1].error.is_none());
    // One more at run time, where there is room again.
    let late = consumer(&peers[0]);
    let late = supervisor.add(&late).expect("first");
    let mut session = peers[0].session().await;
    supervisor.stop_all();
    session.closed().await;
    sessions[2].closed().await;
    soon("its end", late.ended()).await.expect("a clean stop");
    soon("its end", handles[2].ended()).await.expect("a clean stop");
}

#[actix::test]
async fn dropping_the_supervisor_stops_its_consumers() {
    let mut peer = Peer::start().await;
    let supervisor = Supervisor::start(NonZeroUsize::MIN).expect("an actix system");
    let handle = supervisor.add(&consumer(&peer)).expect("first");
    let mut session = peer.session().await;
    drop(supervisor);
    session.closed().await;
    soon("its end", handle.ended()).await.expect("a clean stop");
}

#[actix::test]
async fn a_paused_subscription_is_told_from_a_lost_one() {
    let mut peer = Peer::start().await;
    let consumer = consumer(&peer);
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.registered().await;
    assert_eq!(handle.health().state, HealthState::Disconnected);
    session.welcome(false, 1_000).await;
    until("paused", || handle.health().state == HealthState::Paused).await;
    assert!(handle.health().is_ready());
    let ping = session.ping().await;
    session.pong(&ping, true).await;
    until("resumed", || handle.health().state == HealthState::Idle).await;
}
