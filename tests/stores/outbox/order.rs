//! In order per key, whatever fails and whoever writes at the same time.

use std::time::Duration;

use futures_util::future::join_all;
use perilune::outbox::{Relay, SendFailure};
use tokio::time::timeout;

use super::{Receiver, keyed, message, quick, until_rows, write};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    a_failing_message_holds_its_key_back_and_nothing_else,
    a_writer_waits_for_the_key_s_other_writer,
    many_writers_of_a_few_keys_keep_each_key_s_order,
    a_row_left_behind_is_mended,
}

async fn a_failing_message_holds_its_key_back_and_nothing_else<DB: TestEngine>(site: Site<DB>) {
    write(&site, [keyed("k", "k1"), keyed("k", "k2"), keyed("l", "l1"), keyed("k", "k3"), message("free")]).await;
    let receiver = Receiver::default().fails("k1", 3, SendFailure::retry("BUSY"));
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    until_rows(&site, 0).await;
    let taken = receiver.taken();
    let of_k: Vec<_> = taken.iter().filter(|body| body.starts_with('k')).collect();
    assert_eq!(of_k, ["k1", "k2", "k3"], "{taken:?}");
    let place = |body| taken.iter().position(|taken| taken == body).expect("taken");
    assert!(place("l1") < place("k1") && place("free") < place("k1"), "{taken:?}");
    relay.drain().await;
    site.close().await;
}

/// The order of ids is the order of commits: nobody writes under a key while another transaction has written under it.
async fn a_writer_waits_for_the_key_s_other_writer<DB: TestEngine>(site: Site<DB>) {
    let outbox = site.outbox();
    let mut first = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    outbox.write(&mut first, &keyed("k", "1")).await.expect("written");
    {
        let mut second = std::pin::pin!(write(&site, [keyed("k", "2")]));
        assert!(timeout(Duration::from_millis(150), second.as_mut()).await.is_err(), "it waits");
        first.commit().await.expect("committed");
        second.await;
    }
    let receiver = Receiver::default();
    let relay = Relay::start(&outbox, site.pool.clone(), receiver.clone(), quick()).expect("started");
    until_rows(&site, 0).await;
    assert_eq!(receiver.taken(), ["1", "2"]);
    relay.drain().await;
    site.close().await;
}

/// Each writer takes the next number of its key's row, which puts the transactions of a key in order, and writes it; the
/// relays run meanwhile.
async fn many_writers_of_a_few_keys_keep_each_key_s_order<DB: TestEngine>(site: Site<DB>) {
    let (one, two) = (Receiver::default(), Receiver::default());
    let elsewhere = site.another_pool(site.settings).await;
    let first = Relay::start(&site.outbox(), site.pool.clone(), one.clone(), quick()).expect("started");
    let second = Relay::start(&site.outbox(), elsewhere, two.clone(), quick()).expect("started");
    join_all((0..6).map(|lane| {
        let site = &site;
        async move {
            for n in 0..12 {
                let key = if (lane + n) % 2 == 0 { "a" } else { "b" };
                let mut tx = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
                let step = site.sql(&format!("UPDATE {{p}}sku SET n = n + 1 WHERE sku = '{key}'"));
                DB::run(&mut tx, &step).await.expect("counted");
                let number = site.sql(&format!("SELECT n FROM {{p}}sku WHERE sku = '{key}'"));
                let number = DB::number(&mut tx, &number).await.expect("a number");
                let message = keyed(key, &format!("{key}{number}"));
                site.outbox().write(&mut tx, &message).await.expect("written");
                tx.commit().await.expect("committed");
            }
        }
    }))
    .await;
    until_rows(&site, 0).await;
    first.drain().await;
    second.drain().await;
    for receiver in [&one, &two] {
        for key in ["a", "b"] {
            let numbers: Vec<u32> = receiver
                .taken()
                .iter()
                .filter_map(|body| body.strip_prefix(key).map(|number| number.parse().expect("a number")))
                .collect();
            assert!(numbers.is_sorted(), "{key}: {numbers:?}");
        }
    }
    assert_eq!(one.taken().len() + two.taken().len(), 72);
    site.close().await;
}

async fn a_row_left_behind_is_mended<DB: TestEngine>(site: Site<DB>) {
    write(&site, [keyed("k", "1"), keyed("k", "2")]).await;
    // As a writer above READ COMMITTED may leave it: none of the key is ready.
    site.run("UPDATE {p}outbox SET state = 0").await;
    let receiver = Receiver::default();
    let relay = Relay::start(&site.outbox(), site.pool.clone(), receiver.clone(), quick()).expect("started");
    until_rows(&site, 0).await;
    assert_eq!(receiver.taken(), ["1", "2"]);
    relay.drain().await;
    site.close().await;
}
