//! Cancelled or dropped at any point: rolled back, and the pooled connection is clean.

use std::time::Duration;

use futures_util::future::join_all;
use perilune::inbox::{Applied, ApplyErrorKind, OpenTransaction, Scope};
use perilune::sql::PoolSettings;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{apply, apply_sql};
use crate::engines::{Site, TestEngine, exercise_with, on_every_engine};
use crate::events::event;

on_every_engine! {
    a_dropped_call_rolls_back,
    a_cancelled_call_rolls_back_and_says_so,
    a_signal_during_the_wait_for_a_twin_ends_it,
}

async fn a_dropped_call_rolls_back<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let (working, worked) = oneshot::channel();
    let (effect, mut working) = (site.effect("x"), Some(working));
    let (here, there) = (inbox.clone(), event(1));
    let call = tokio::spawn(async move {
        here.apply_once(&there, move |mut tx: OpenTransaction<DB>| {
            let (effect, working) = (effect.clone(), working.take());
            async move {
                DB::run(&mut tx, &effect).await?;
                working.map(|working| working.send(()));
                std::future::pending::<Result<(), sqlx::Error>>().await
            }
        })
        .await
    });
    worked.await.expect("the handler is at work");
    call.abort();
    // The twin waits until the rollback is done.
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

async fn a_cancelled_call_rolls_back_and_says_so<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let (stop, stopped) = oneshot::channel::<()>();
    let (effect, mut stop) = (site.effect("x"), Some(stop));
    let scope = Scope::lease(Duration::from_secs(30)).cancelled_by(async move { drop(stopped.await) });
    let error = inbox
        .apply_once_within(scope, &event(1), move |mut tx: OpenTransaction<DB>| {
            let (effect, stop) = (effect.clone(), stop.take());
            async move {
                DB::run(&mut tx, &effect).await?;
                drop(stop);
                std::future::pending::<Result<(), sqlx::Error>>().await
            }
        })
        .await
        .expect_err("cancelled");
    assert_eq!(error.kind(), ApplyErrorKind::Cancelled);
    assert_eq!(site.effects("x").await, 0);
    assert!(!site.is_poisoned().await);
    site.close().await;
}

async fn a_signal_during_the_wait_for_a_twin_ends_it<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let mut twin = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    inbox.admit(&mut twin, &event(1)).await.expect("admitted");
    let (stop, stopped) = oneshot::channel::<()>();
    let scope = Scope::lease(Duration::from_secs(30)).cancelled_by(async move { drop(stopped.await) });
    let sql = site.effect("x");
    let waiting = tokio::spawn({
        let inbox = inbox.clone();
        async move {
            inbox
                .apply_once_within(scope, &event(1), move |mut tx: OpenTransaction<DB>| {
                    let sql = sql.clone();
                    async move { DB::run(&mut tx, &sql).await.map(drop) }
                })
                .await
        }
    });
    // The wait has begun by then, most likely; a signal that comes before it ends the call the same way.
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stop);
    // SQLite's twin waits in `BEGIN`, which nothing may cancel: it hears the signal when the other has ended.
    let error = if DB::NAME == "SQLite" {
        twin.rollback().await.expect("rolled back");
        waiting.await
    } else {
        let ended = waiting.await;
        twin.rollback().await.expect("rolled back");
        ended
    };
    let error = error.expect("no panic").expect_err("cancelled while it waited");
    assert_eq!(error.kind(), ApplyErrorKind::Cancelled);
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}

/// sqlx leaves a connection inside a transaction when a `begin` is dropped at the wrong moment, and hands it to the next
/// caller. Calls are dropped here at random moments, thousands of times (`CANCEL_ROUNDS`), on a pool so small that each
/// connection is taken up again at once; whatever is left of a transaction would swallow the next caller's statements.
async fn calls_dropped_at_random_poison_no_connection<DB: TestEngine>(site: Site<DB>) {
    let rounds: u128 = std::env::var("CANCEL_ROUNDS").map_or(250, |rounds| rounds.parse().expect("a number"));
    let inbox = site.inbox("billing");
    let lanes = join_all((0..4_u128).map(|lane| {
        let (site, inbox) = (&site, &inbox);
        async move {
            let mut applied = Vec::new();
            for round in 0..rounds {
                let id = lane << 32 | round;
                // Long enough for some to commit, short enough for some to be dropped at BEGIN.
                let limit = Duration::from_micros(rand::random_range(1..2_500));
                let sql = site.effect(&id.to_string());
                if let Ok(done) = timeout(limit, apply_sql(inbox, &event(id), &sql)).await {
                    assert_eq!(done.expect("applied"), Applied::Fresh(()));
                    applied.push(id);
                }
                assert!(!site.is_poisoned().await, "lane {lane}, round {round}");
            }
            applied
        }
    }))
    .await;
    let applied: Vec<u128> = lanes.concat();
    println!("{} of {} calls ended before they were dropped", applied.len(), 4 * rounds);
    // Whoever was told so is on disk; whoever was dropped is there as a whole or not at all.
    for id in &applied {
        assert_eq!(site.effects(&id.to_string()).await, 1, "{id}");
    }
    let (effects, rows) = ("SELECT COUNT(*) FROM {p}effect", "SELECT COUNT(*) FROM {p}inbox");
    let distinct = "SELECT COUNT(DISTINCT tag) FROM {p}effect";
    assert_eq!(site.number(effects).await, site.number(rows).await);
    assert_eq!(site.number(effects).await, site.number(distinct).await);
    site.close().await;
}

fn on_a_small_pool<DB: TestEngine>() {
    let settings = PoolSettings { max_connections: 3, ..PoolSettings::default() };
    exercise_with::<DB, _>(settings, calls_dropped_at_random_poison_no_connection);
}

#[test]
fn calls_dropped_at_random_poison_no_connection_of_sqlite() {
    on_a_small_pool::<sqlx::Sqlite>();
}

#[test]
fn calls_dropped_at_random_poison_no_connection_of_postgres() {
    on_a_small_pool::<sqlx::Postgres>();
}

#[test]
fn calls_dropped_at_random_poison_no_connection_of_mysql() {
    on_a_small_pool::<sqlx::MySql>();
}
