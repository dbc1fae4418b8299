//! Losses, refusals, redeliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use std::error::Error as _;

use perilune_actors::client::DialError;
use perilune_actors::proto::wire::ErrorCode;
use perilune_actors::{Consumer, ConsumerBuilder, HandlerError};

use crate::support::{Peer, client, soon, subscription_id, until};

fn builder(peer: &Peer) -> ConsumerBuilder {
    Consumer::builder(client(peer), subscription_id())
        .reconnect_min_delay(Duration::from_millis(10))
        .handler(|_event, _context| async { Ok(()) })
}

#[actix::test]
async fn a_refused_credential_stops_the_run_and_keeps_its_source() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    peer.refuse(401).await;
    let error = soon("the end", handle.ended()).await.expect_err("refused");
    assert!(error.is_unauthenticated());
    let source = error.source().and_then(|source| source.downcast_ref::<DialError>()).expect("the dial's error");
    assert_eq!(source.status(), Some(401));
    assert_eq!(peer.dials(), 1);
}

#[actix::test]
async fn a_platform_that_is_down_is_dialled_again() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    peer.refuse(503).await;
    peer.refuse(429).await;
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    session.settle(sent).await;
    assert_eq!(handle.stats().dials_failed, 2);
}

#[actix::test]
async fn an_unavailable_platform_is_come_back_to() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    let mut session = peer.session().await;
    session.error(None, ErrorCode::Unavailable).await;
    session.closed().await;
    peer.session().await.close(1012).await;
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    session.settle(sent).await;
    assert_eq!(handle.stats().reconnects, 2);
}

#[actix::test]
async fn a_proof_that_is_invalid_stops_the_run() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    let ack = session.ack().await;
    session.error(Some(ack.message_id), ErrorCode::ProofInvalid).await;
    session.closed().await;
    let error = soon("the end", handle.ended()).await.expect_err("permanent");
    assert!(error.is_proof_invalid());
    assert_eq!(error.unconfirmed(), [sent.proof().event_id]);
}

/// A newer generation of a committed event waits; the lost proof hands it to the handler, which acknowledges it anew.
#[actix::test]
async fn a_lost_proof_hands_its_successor_to_the_handler() {
    let mut peer = Peer::start().await;
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler(move |_event, context| {
            counted.fetch_add(context.generation().0, Ordering::Relaxed);
            async { Ok(()) }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    let ack = session.ack().await;
    let newer = session.deliver(1, 2).await;
    until("the successor", || handle.stats().successors == 1).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1, "it starts nothing beside the held proof");
    session.error(Some(ack.message_id), ErrorCode::ProofLost).await;
    session.settle(newer).await;
    until("the receipt", || handle.stats().acknowledged == 1).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1 + 2);
    assert_eq!(handle.stats().proofs_lost, 1);
}

/// At most one ack is in flight: the second waits for the first one's answer.
#[actix::test]
async fn one_ack_is_in_flight_at_a_time() {
    let mut peer = Peer::start().await;
    let handle = builder(&peer).build().expect("in range").start().expect("an actix system");
    let mut session = peer.registered().await;
    session.welcome(true, 1_000).await;
    let first = session.deliver(1, 1).await;
    let ack = session.ack().await;
    let second = session.deliver(2, 1).await;
    until("both committed", || handle.stats().committed == 2).await;
    // The heartbeat is the next frame, so no second ack was sent; and it is independent of the one in flight.
    let ping = session.ping().await;
    session.pong(&ping, true).await;
    session.confirm(&ack, first, false).await;
    session.settle(second).await;
}

/// A handler that fails leaves its slot and its event; the redelivery is handled as a new attempt.
#[actix::test]
async fn a_redelivery_is_a_new_attempt() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler(|_event, context| async move {
            if context.generation().0 == 1 { Err(HandlerError::msg("the first time")) } else { Ok(()) }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    until("the failure", || handle.stats().handler_failures == 1).await;
    let again = session.deliver(1, 2).await;
    session.settle(again).await;
}
