//! What is committed is sent; several relays share it; nothing that goes wrong loses a message.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use perilune::inbox::{Applied, BoxError, OpenTransaction};
use perilune::outbox::{Outgoing, Relay, SendFailure, Sender};
use perilune::sql::SqlErrorKind;
use perilune_proto::scalar::MessageId;

use super::{Receiver, message, quick, until_rows, write};
use crate::engines::{Site, TestEngine, on_every_engine};
use crate::events::event;

on_every_engine! {
    a_message_is_sent_with_its_transaction_or_never,
    a_message_travels_with_the_event_that_caused_it,
    a_failed_message_is_sent_again_under_the_same_id,
    two_relays_share_the_work_and_send_nothing_twice,
    a_dead_relay_s_messages_go_to_the_next,
    a_lapsed_claim_can_t_take_the_message_away,
    a_panicking_or_stuck_sender_costs_an_attempt,
    a_look_that_panics_is_not_the_last,
    draining_waits_for_what_is_being_sent,
    an_id_is_written_once,
}

async fn a_message_is_sent_with_its_transaction_or_never<DB: TestEngine>(site: Site<DB>) {
    let receiver = Receiver::default();
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    let mut tx = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    site.outbox().write(&mut tx, &message("never")).await.expect("written");
    tx.rollback().await.expect("rolled back");
    write(&site, [message("sent")]).await;
    relay.wake();
    receiver.until(|receiver| receiver.taken() == ["sent"]).await;
    relay.drain().await;
    until_rows(&site, 0).await;
    assert_eq!(receiver.attempts(), 1);
    site.close().await;
}

async fn a_message_travels_with_the_event_that_caused_it<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    for expected in [Applied::Fresh(()), Applied::Duplicate] {
        let outbox = site.outbox();
        let applied = inbox
            .apply_once(&event(1), move |mut tx: OpenTransaction<DB>| {
                let outbox = outbox.clone();
                async move {
                    outbox.write(&mut tx, &message("caused")).await?;
                    Ok::<_, BoxError>(())
                }
            })
            .await;
        assert_eq!(applied.expect("applied"), expected);
    }
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outbox").await, 1);
    site.close().await;
}

async fn a_failed_message_is_sent_again_under_the_same_id<DB: TestEngine>(site: Site<DB>) {
    let receiver = Receiver::default().fails("m", 3, SendFailure::retry("BUSY"));
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    let sent = message("m");
    let id = sent.id().to_string();
    write(&site, [sent]).await;
    receiver.until(|receiver| receiver.taken() == ["m"]).await;
    let got = receiver.0.got.borrow().clone();
    assert_eq!(got.iter().map(|got| got.attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(got.iter().all(|got| got.id == id));
    relay.drain().await;
    site.close().await;
}

async fn two_relays_share_the_work_and_send_nothing_twice<DB: TestEngine>(site: Site<DB>) {
    let (one, two) = (Receiver::default(), Receiver::default());
    write(&site, (0..150).map(|n| message(&n.to_string()))).await;
    let elsewhere = site.another_pool(site.settings).await;
    let first = Relay::start(&site.outbox(), site.pool.clone(), one.clone(), quick()).expect("started");
    let second = Relay::start(&site.outbox(), elsewhere, two.clone(), quick()).expect("started");
    until_rows(&site, 0).await;
    let mut all = [one.taken(), two.taken()].concat();
    assert_eq!((one.attempts() + two.attempts(), all.len()), (150, 150));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 150);
    first.drain().await;
    second.drain().await;
    site.close().await;
}

async fn a_dead_relay_s_messages_go_to_the_next<DB: TestEngine>(site: Site<DB>) {
    write(&site, [message("m")]).await;
    // As a relay leaves it that was killed while it sent: claimed, and due when the claim lapses.
    site.run("UPDATE {p}outbox SET claim = 'of a dead relay', attempts = 1, due_at = 9000000000000000").await;
    let receiver = Receiver::default();
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    write(&site, [message("free")]).await;
    receiver.until(|receiver| receiver.attempts() > 0).await;
    assert_eq!(receiver.taken(), ["free"], "the claim holds");
    site.run("UPDATE {p}outbox SET due_at = 1 WHERE claim = 'of a dead relay'").await;
    receiver.until(|receiver| receiver.taken() == ["free", "m"]).await;
    assert_eq!(receiver.0.got.borrow()[1].attempt, 2);
    relay.drain().await;
    until_rows(&site, 0).await;
    site.close().await;
}

/// A sender during whose work the claim goes to somebody else.
struct Overtaken<DB: TestEngine>(Rc<Site<DB>>, Rc<Cell<u32>>);

impl<DB: TestEngine> Sender for Overtaken<DB> {
    async fn send(&self, _: &Outgoing) -> Result<(), SendFailure> {
        self.0.run("UPDATE {p}outbox SET claim = 'of another relay', due_at = 9000000000000000").await;
        self.1.set(self.1.get() + 1);
        Ok(())
    }
}

async fn a_lapsed_claim_can_t_take_the_message_away<DB: TestEngine>(site: Site<DB>) {
    write(&site, [message("m")]).await;
    let (site, sent) = (Rc::new(site), Rc::new(Cell::new(0)));
    let sender = Overtaken(Rc::clone(&site), Rc::clone(&sent));
    let relay = Relay::start(&site.outbox(), site.pool.clone(), sender, quick()).expect("started");
    while sent.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    relay.drain().await;
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outbox WHERE claim = 'of another relay'").await, 1);
    let Some(site) = Rc::into_inner(site) else { return };
    site.close().await;
}

/// Panics, then hangs, then sends.
struct Moody(Rc<Cell<u32>>);

impl Sender for Moody {
    async fn send(&self, _: &Outgoing) -> Result<(), SendFailure> {
        self.0.set(self.0.get() + 1);
        match self.0.get() {
            1 => panic!("in the sender"),
            2 => pending().await,
            _ => Ok(()),
        }
    }
}

async fn a_panicking_or_stuck_sender_costs_an_attempt<DB: TestEngine>(site: Site<DB>) {
    write(&site, [message("m")]).await;
    let attempts = Rc::new(Cell::new(0));
    let options = quick().send_timeout(Duration::from_millis(100)).expect("a limit");
    let sender = Moody(Rc::clone(&attempts));
    let relay = Relay::start(&site.outbox(), site.pool.clone(), sender, options).expect("started");
    until_rows(&site, 0).await;
    assert_eq!(attempts.get(), 3);
    assert!(relay.is_running());
    relay.drain().await;
    site.close().await;
}

async fn a_look_that_panics_is_not_the_last<DB: TestEngine>(site: Site<DB>) {
    write(&site, [message("m")]).await;
    // Once, and the relay's look comes first. The hook is asked about connections that were used before, not about new ones.
    let left = Arc::new(AtomicU32::new(1));
    let panics = Arc::clone(&left);
    let pool = sqlx::pool::PoolOptions::<DB>::new().max_connections(1).acquire_timeout(site.settings.acquire_timeout);
    let pool = pool.before_acquire(move |_, _| {
        let left = panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "a pool's hook that panics");
        Box::pin(async { Ok(true) })
    });
    let pool = pool.connect_with((*site.pool.connect_options()).clone()).await.expect("connected");
    let receiver = Receiver::default();
    let relay = Relay::start(&site.outbox(), pool.clone(), receiver.clone(), quick()).expect("started");
    receiver.until(|receiver| receiver.taken() == ["m"]).await;
    assert_eq!(left.load(Ordering::SeqCst), 0);
    relay.drain().await;
    pool.close().await;
    site.close().await;
}

/// Sends when it is told.
struct Gate(Rc<tokio::sync::Semaphore>, Rc<Cell<bool>>);

impl Sender for Gate {
    async fn send(&self, _: &Outgoing) -> Result<(), SendFailure> {
        self.1.set(true);
        self.0.acquire().await.expect("open").forget();
        Ok(())
    }
}

async fn draining_waits_for_what_is_being_sent<DB: TestEngine>(site: Site<DB>) {
    write(&site, [message("m")]).await;
    let (gate, began) = (Rc::new(tokio::sync::Semaphore::new(0)), Rc::new(Cell::new(false)));
    let sender = Gate(Rc::clone(&gate), Rc::clone(&began));
    // One at a time: the second waits for the first one's slot.
    let options = quick().in_flight(1).expect("one");
    let relay = Relay::start(&site.outbox(), site.pool.clone(), sender, options).expect("started");
    while !began.get() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    write(&site, [message("later")]).await;
    {
        let mut draining = std::pin::pin!(relay.drain());
        let early = tokio::time::timeout(Duration::from_millis(50), draining.as_mut()).await;
        assert!(early.is_err(), "the message is not out yet");
        gate.add_permits(10);
        draining.await;
    }
    relay.ended().await;
    assert!(!relay.is_running());
    // Nothing new was taken.
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outbox").await, 1);
    site.close().await;
}

async fn an_id_is_written_once<DB: TestEngine>(site: Site<DB>) {
    let same = message("m").with_id(MessageId::from_u128(7));
    write(&site, [same.clone()]).await;
    let mut tx = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let error = site.outbox().write(&mut tx, &same).await.expect_err("there already");
    assert_eq!(perilune::sql::error::classify(&error), SqlErrorKind::UniqueViolation);
    tx.rollback().await.expect("rolled back");
    site.close().await;
}
