//! An event's life: delivered, handled, acknowledged; and every way of failing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perilune_actors::proto::wire::Ack;
use perilune_actors::{Consumer, ConsumerBuilder, HandlerError};

use crate::support::{Peer, Sent, client, soon, subscription_id, until};

/// The whole main path: delivered, handled, acknowledged, stopped.
#[actix::test]
async fn an_event_is_handled_and_then_acknowledged() {
    let mut peer = Peer::start().await;
    let handled = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&handled);
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler(move |event, context| {
            let counted = Arc::clone(&counted);
            async move {
                assert_eq!(event.event_type(), "task.succeeded");
                assert_eq!(context.generation().0, 1);
                assert!(context.lease_left().as_secs() > 20);
                counted.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    assert_eq!(session.register().capacity, 4);
    let sent = session.deliver(1, 1).await;
    session.settle(sent).await;
    assert_eq!(handled.load(Ordering::Relaxed), 1);
    until("the receipt", || handle.stats().acknowledged == 1).await;
    handle.stop();
    session.closed().await;
    soon("the end", handle.ended()).await.expect("a clean stop");
    assert_eq!(handle.stats().running, 0);
}

/// No ack follows a failure of any kind, the slot is free again and every failure is counted.
#[actix::test]
async fn a_failed_handler_is_never_acknowledged() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .capacity(1)
        .handler(|event, _context| {
            assert_ne!(event.sequence.0, 1, "the synchronous part panics");
            async move {
                match event.sequence.0 {
                    2 => panic!("the asynchronous part panics"),
                    3 => Err(HandlerError::msg("it fails")),
                    4 => Err(std::io::Error::other(PanicsOnDrop).into()),
                    5 => std::panic::panic_any(PanicsOnDrop),
                    6 => {
                        let _bomb = PanicsOnDrop;
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    for n in 1..=6 {
        session.deliver(n, 1).await;
        until("the failure", || handle.stats().handler_failures == n).await;
    }
    // The one slot is free: the next event is handled, and its ack is the first of all.
    let sent = session.deliver(7, 1).await;
    session.settle(sent).await;
    handle.stop();
    session.closed().await;
    soon("the end", handle.ended()).await.expect("failures are left to the platform");
    assert_eq!(handle.stats().acknowledged, 1);
}

#[derive(Debug)]
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the drop panics");
        }
    }
}

impl std::fmt::Display for PanicsOnDrop {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("the formatting panics")
    }
}

impl std::error::Error for PanicsOnDrop {}

/// A consumer whose handler only counts its runs.
fn counting(peer: &Peer) -> (ConsumerBuilder, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let builder = Consumer::builder(client(peer), subscription_id()).handler(move |_event, _context| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    (builder, runs)
}

/// A connection that drops after the ack was sent: the same proof again, under a new message id, no second run.
#[actix::test]
async fn a_proof_is_reported_again_after_a_reconnect_and_the_handler_is_not() {
    let mut peer = Peer::start().await;
    let (builder, runs) = counting(&peer);
    let consumer = builder.reconnect_min_delay(std::time::Duration::from_millis(10)).build().expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = session.deliver(1, 1).await;
    let first = session.ack().await;
    session.cut();
    let mut session = peer.session().await;
    let again = session.ack().await;
    assert_ne!(first.message_id, again.message_id);
    session.confirm(&again, sent, true).await;
    until("the receipt", || handle.stats().acknowledged == 1).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(handle.stats().reconnects, 1);
    handle.stop();
    soon("the end", handle.ended()).await.expect("a clean stop");
}

/// With many proofs queued on the wire, receipts and deliveries may wait for each other, but not for a platform that falls
/// silent.
#[actix::test]
async fn what_a_busy_wire_brings_is_told_though_nothing_more_comes() {
    let mut peer = Peer::start().await;
    let (builder, started) = counting(&peer);
    let consumer = builder.capacity(16).build().expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    let mut sent = Vec::new();
    for n in 1..=12 {
        sent.push(session.deliver(n, 1).await);
    }
    until("the proofs", || handle.stats().committed == 12).await;
    let of = |ack: &Ack| {
        let named = |sent: &&Sent| sent.proof().delivery_id == ack.delivery_id;
        *sent.iter().find(named).expect("one of them")
    };
    let first = session.ack().await;
    session.confirm(&first, of(&first), false).await;
    // Its successor is on the wire and has no answer.
    let second = session.ack().await;
    until("the receipt", || handle.stats().acknowledged == 1).await;
    session.deliver(13, 1).await;
    until("the handler", || started.load(Ordering::Relaxed) == 13).await;
    // On the same connection, which has not ended for its silence meanwhile.
    session.confirm(&second, of(&second), false).await;
    until("the second receipt", || handle.stats().acknowledged == 2).await;
}
