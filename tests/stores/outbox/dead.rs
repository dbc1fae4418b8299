//! Dead letters: given up, kept, sent again or thrown away by an operator.

use perilune::outbox::{Relay, SendFailure};

use super::{Receiver, keyed, message, quick, until_rows, write};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    a_message_is_dead_after_its_attempts_and_lets_the_next_go,
    a_message_that_ends_its_relay_each_time_is_dead_and_lets_the_next_go,
    a_refused_message_is_dead_at_once,
    a_requeued_message_waits_for_its_key_s_turn,
    a_discarded_message_is_gone,
    a_row_that_is_no_message_is_dead_with_its_reason_and_lets_the_next_go,
}

async fn a_message_is_dead_after_its_attempts_and_lets_the_next_go<DB: TestEngine>(site: Site<DB>) {
    write(&site, [keyed("k", "bad"), keyed("k", "good")]).await;
    let receiver = Receiver::default().fails("bad", 3, SendFailure::retry("HTTP_503"));
    let options = quick().attempts_max(3).expect("three");
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), options).expect("started");
    receiver.until(|receiver| receiver.taken() == ["good"]).await;
    until_rows(&site, 1).await;
    let dead = site.outbox().dead_letters(&site.pool, 0, 10).await.expect("read");
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].attempts, dead[0].failure.as_deref()), (3, Some("HTTP_503")));
    assert_eq!((dead[0].topic.as_str(), dead[0].order_key.as_deref()), ("topic", Some("k")));
    assert!(site.outbox().requeue(&site.pool, dead[0].row).await.expect("requeued"));
    assert!(!site.outbox().requeue(&site.pool, dead[0].row).await.expect("not dead any more"));
    receiver.until(|receiver| receiver.taken() == ["good", "bad"]).await;
    assert_eq!(receiver.0.got.borrow().last().expect("one").attempt, 1, "a fresh count");
    relay.drain().await;
    site.close().await;
}

/// A message that makes its sender abort or run out of memory is never judged by its relay, only by the next one.
async fn a_message_that_ends_its_relay_each_time_is_dead_and_lets_the_next_go<DB: TestEngine>(site: Site<DB>) {
    write(&site, [keyed("k", "deadly"), keyed("k", "good")]).await;
    site.run("UPDATE {p}outbox SET claim = 'of a dead relay', attempts = 3, due_at = 1 WHERE state = 1").await;
    let receiver = Receiver::default();
    let options = quick().attempts_max(3).expect("three");
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), options).expect("started");
    until_rows(&site, 1).await;
    relay.drain().await;
    assert_eq!((receiver.attempts(), receiver.taken()), (1, vec!["good".to_owned()]), "it is not sent once more");
    let dead = site.outbox().dead_letters(&site.pool, 0, 10).await.expect("read");
    assert_eq!((dead.len(), dead[0].failure.as_deref()), (1, Some("ATTEMPTS_SPENT")));
    site.close().await;
}

async fn a_refused_message_is_dead_at_once<DB: TestEngine>(site: Site<DB>) {
    write(&site, [message("refused")]).await;
    let receiver = Receiver::default().fails("refused", 1, SendFailure::refused("HTTP_422"));
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    receiver.until(|receiver| receiver.attempts() == 1).await;
    relay.drain().await;
    let dead = site.outbox().dead_letters(&site.pool, 0, 10).await.expect("read");
    assert_eq!((dead.len(), dead[0].attempts), (1, 1));
    assert!(site.outbox().dead_letters(&site.pool, dead[0].row, 10).await.expect("read").is_empty());
    site.close().await;
}

async fn a_requeued_message_waits_for_its_key_s_turn<DB: TestEngine>(site: Site<DB>) {
    write(&site, [keyed("k", "1"), keyed("k", "2"), keyed("k", "3")]).await;
    site.run("UPDATE {p}outbox SET state = 2 WHERE state = 1").await;
    site.run("UPDATE {p}outbox SET state = 1 WHERE id = (SELECT m FROM (SELECT MIN(id) AS m FROM {p}outbox WHERE state = 0) AS x)").await;
    let dead = site.outbox().dead_letters(&site.pool, 0, 10).await.expect("read");
    assert!(site.outbox().requeue(&site.pool, dead[0].row).await.expect("requeued"));
    // One of the key is ready already, so the requeued one goes next and not beside it.
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outbox WHERE state = 1").await, 1);
    let receiver = Receiver::default();
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    until_rows(&site, 0).await;
    assert_eq!(receiver.taken(), ["2", "1", "3"]);
    relay.drain().await;
    site.close().await;
}

async fn a_discarded_message_is_gone<DB: TestEngine>(site: Site<DB>) {
    write(&site, [message("m")]).await;
    assert!(!site.outbox().discard(&site.pool, 1).await.expect("not dead"), "a living message is not thrown away");
    site.run("UPDATE {p}outbox SET state = 2").await;
    let dead = site.outbox().dead_letters(&site.pool, 0, 10).await.expect("read");
    assert!(site.outbox().discard(&site.pool, dead[0].row).await.expect("gone"));
    until_rows(&site, 0).await;
    site.close().await;
}

/// Somebody has edited the table. The row must neither come again for ever nor hold its key back.
async fn a_row_that_is_no_message_is_dead_with_its_reason_and_lets_the_next_go<DB: TestEngine>(site: Site<DB>) {
    write(&site, [keyed("k", "edited"), keyed("k", "next"), message("id"), message("fine")]).await;
    site.run("UPDATE {p}outbox SET topic = 'no topic' WHERE state = 1 AND order_key = 'k'").await;
    let last = "(SELECT m FROM (SELECT MAX(id) - 1 AS m FROM {p}outbox) AS x)";
    site.run(&format!("UPDATE {{p}}outbox SET message_id = 'none' WHERE id = {last}")).await;
    let receiver = Receiver::default();
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    until_rows(&site, 2).await;
    relay.drain().await;
    let mut taken = receiver.taken();
    taken.sort_unstable();
    assert_eq!(taken, ["fine", "next"]);
    let dead = site.outbox().dead_letters(&site.pool, 0, 10).await.expect("read");
    assert!(dead.iter().all(|letter| letter.failure.as_deref() == Some("MALFORMED")), "{dead:?}");
    assert_eq!(dead.iter().map(|letter| letter.id.is_some()).collect::<Vec<_>>(), [true, false]);
    assert!(site.outbox().discard(&site.pool, dead[1].row).await.expect("gone"));
    site.close().await;
}
