//! Every kind of handler, and handlers that block their threads.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix::prelude::*;
use perilune_actors::{
    CancelReason, Consumer, EventContext, EventHandler, HandleEvent, HandlerError, HandlerResult, ResultEvent,
};

use crate::support::{Peer, client, soon, subscription_id, until};

/// Keeps something that is not `Send`, and counts in it.
struct Local(Rc<Cell<u64>>);

impl EventHandler for Local {
    async fn handle(&self, _event: Arc<ResultEvent>, _context: EventContext) -> HandlerResult {
        let count = Rc::clone(&self.0);
        tokio::task::yield_now().await;
        count.set(count.get() + 1);
        Ok(())
    }
}

#[actix::test]
async fn a_handler_need_not_be_send_when_each_thread_makes_its_own() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler_factory(|| Local(Rc::new(Cell::new(0))))
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    for n in 1..=3 {
        let sent = session.deliver(n, 1).await;
        session.settle(sent).await;
    }
    handle.stop();
    session.closed().await;
    soon("the end", handle.ended()).await.expect("a clean stop");
}

/// A factory that panics fails the event and is asked again by the next.
#[actix::test]
async fn a_factory_that_panics_is_contained() {
    let mut peer = Peer::start().await;
    let made = Arc::new(AtomicU64::new(0));
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .capacity(1)
        .handler_factory(move || {
            assert_ne!(made.fetch_add(1, Ordering::Relaxed), 0, "the first time");
            Local(Rc::new(Cell::new(0)))
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    until("the failure", || handle.stats().handler_failures == 1).await;
    let sent = session.deliver(2, 1).await;
    session.settle(sent).await;
}

/// An actor of the application: fails, drops its answer, stops, or does the work.
struct Worker;

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<HandleEvent> for Worker {
    type Result = ResponseFuture<HandlerResult>;

    fn handle(&mut self, message: HandleEvent, ctx: &mut Context<Self>) -> Self::Result {
        match message.event.sequence.0 {
            1 => Box::pin(async { Err(HandlerError::msg("no")) }),
            2 => Box::pin(async { panic!("in the actor's answer") }),
            // Longer than its lease of 1 s.
            3 => Box::pin(std::future::pending()),
            4 => Box::pin(async { Ok(()) }),
            _ => {
                ctx.stop();
                Box::pin(async { Err(HandlerError::msg("the last one")) })
            }
        }
    }
}

#[actix::test]
async fn an_actor_of_the_application_handles_events_and_its_silence_is_a_failure() {
    let mut peer = Peer::start().await;
    let worker = Worker.start();
    let consumer =
        Consumer::builder(client(&peer), subscription_id()).actor(worker.recipient()).build().expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    session.deliver(2, 1).await;
    until("the failures", || handle.stats().handler_failures == 2).await;
    session.deliver_for(3, 1, 1_000).await;
    let sent = session.deliver(4, 1).await;
    session.settle(sent).await;
    until("the lease", || handle.stats().handler_failures == 3).await;
    session.deliver(5, 1).await;
    until("the actor's end", || handle.stats().handler_failures == 4).await;
    // The actor is gone for good: every further event fails at once.
    session.deliver(6, 1).await;
    until("nobody there", || handle.stats().handler_failures == 5).await;
    assert_eq!(handle.stats().acknowledged, 1);
}

struct Blocking;

impl Actor for Blocking {
    type Context = SyncContext<Self>;
}

impl Handler<HandleEvent> for Blocking {
    type Result = HandlerResult;

    fn handle(&mut self, message: HandleEvent, _ctx: &mut SyncContext<Self>) -> HandlerResult {
        assert!(!message.context.cancellation().is_cancelled(CancelReason::Stopping));
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    }
}

#[actix::test]
async fn a_sync_arbiter_handles_events() {
    let mut peer = Peer::start().await;
    let workers = SyncArbiter::start(2, || Blocking);
    let consumer =
        Consumer::builder(client(&peer), subscription_id()).actor(workers.recipient()).build().expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = [session.deliver(1, 1).await, session.deliver(2, 1).await];
    for _ in &sent {
        let ack = session.ack().await;
        let sent = sent.iter().find(|sent| sent.proof().delivery_id == ack.delivery_id).expect("one of the two");
        session.confirm(&ack, *sent, false).await;
    }
    until("the receipts", || handle.stats().acknowledged == 2).await;
}

/// Handlers that block their threads for ever delay neither the others, nor their acks, nor the heartbeat, nor the
/// report of a stop; and what is lost with them is counted.
#[actix::test]
async fn blocked_handlers_hold_up_nothing_but_themselves() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .capacity(3)
        .shutdown_timeout(Duration::from_millis(300))
        .handler(|event, _context| {
            if event.sequence.0 <= 2 || event.sequence.0 == 6 {
                // The synchronous part, for ever: until the test's process ends.
                loop {
                    std::thread::park();
                }
            }
            async { Ok(()) }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.registered().await;
    session.welcome(true, 1_000).await;
    session.deliver(1, 1).await;
    session.deliver(2, 1).await;
    until("both blocked", || handle.stats().running == 2).await;
    for n in 3..=5 {
        let sent = session.deliver(n, 1).await;
        session.settle(sent).await;
    }
    session.deliver(6, 1).await;
    until("all blocked", || handle.stats().running == 3).await;
    // Not one handler thread is left; the heart beats on.
    for _ in 0..2 {
        let ping = session.ping().await;
        session.pong(&ping, true).await;
    }
    handle.stop();
    let began = Instant::now();
    let error = soon("the report", handle.ended()).await.expect_err("three never end");
    assert!(error.is_shutdown_timeout());
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!((error.unconfirmed().len(), error.running().len()), (3, 3));
}

/// The token tells a lapsed lease, and an `Ok` that comes after it is acknowledged all the same.
#[actix::test]
async fn an_ok_after_the_lease_is_still_acknowledged() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler(|_event, context| async move {
            assert_eq!(context.cancellation().cancelled().await, CancelReason::LeaseLapsed);
            assert_eq!(context.lease_left(), Duration::ZERO);
            Ok(())
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    let sent = session.deliver_for(1, 1, 50).await;
    session.settle(sent).await;
    until("the receipt", || handle.stats().acknowledged == 1).await;
    assert_eq!(handle.stats().leases_lapsed, 1);
}

/// User code that stops its own arbiter takes its event along, and nothing else.
#[actix::test]
async fn a_handler_that_stops_its_arbiter_has_failed() {
    let mut peer = Peer::start().await;
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .capacity(1)
        .handler(|event, _context| async move {
            if event.sequence.0 == 1 {
                Arbiter::current().stop();
                std::future::pending::<()>().await;
            }
            Ok(())
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    session.deliver(1, 1).await;
    until("the failure", || handle.stats().handler_failures == 1).await;
    let sent = session.deliver(2, 1).await;
    session.settle(sent).await;
}

/// The callback hears of every receipt; its panics change nothing.
#[actix::test]
async fn the_settled_callback_hears_of_receipts() {
    let mut peer = Peer::start().await;
    let told = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&told);
    let consumer = Consumer::builder(client(&peer), subscription_id())
        .handler(|_event, _context| async { Ok(()) })
        .on_settled(move |receipts| {
            let before = counted.fetch_add(receipts.len() as u64, Ordering::Relaxed);
            async move { assert_ne!(before, 0, "the first call panics") }
        })
        .build()
        .expect("in range");
    let handle = consumer.start().expect("an actix system");
    let mut session = peer.session().await;
    for n in 1..=3 {
        let sent = session.deliver(n, 1).await;
        session.settle(sent).await;
    }
    until("the receipts", || handle.stats().acknowledged == 3).await;
    handle.stop();
    session.closed().await;
    soon("the end", handle.ended()).await.expect("a clean stop");
    assert_eq!(told.load(Ordering::Relaxed), 3, "a clean stop tells the last ones first");
}
