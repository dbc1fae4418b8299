//! Several transactions of one event at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use perilune::inbox::{Applied, ApplyErrorKind, OpenTransaction};

use super::apply;
use crate::engines::{Site, TestEngine, on_every_engine};
use crate::events::event;

on_every_engine! {
    thirty_two_twins_have_one_effect,
    when_the_winner_rolls_back_exactly_one_waiter_wins,
    when_every_winner_rolls_back_none_is_applied,
    different_events_do_not_wait_for_each_other_s_key,
}

async fn thirty_two_twins_have_one_effect<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let twins = join_all((0..32).map(|_| {
        let (site, inbox) = (&site, &inbox);
        async move { apply(site, inbox, &event(1), "x").await }
    }))
    .await;
    let fresh = twins.iter().filter(|twin| matches!(twin, Ok(Applied::Fresh(())))).count();
    let duplicates = twins.iter().filter(|twin| matches!(twin, Ok(Applied::Duplicate))).count();
    assert_eq!((fresh, duplicates), (1, 31), "{twins:?}");
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

/// Twelve twins; the first `losers` that hold the key do their work and then fail.
async fn with_losers<DB: TestEngine>(site: &Site<DB>, losers: u32) -> (usize, usize, usize) {
    let inbox = site.inbox("billing");
    let held = Arc::new(AtomicU32::new(0));
    let twins = join_all((0..12).map(|_| {
        let (inbox, held, sql) = (&inbox, Arc::clone(&held), site.effect("x"));
        async move {
            inbox
                .apply_once(&event(1), move |mut tx: OpenTransaction<DB>| {
                    let (held, sql) = (Arc::clone(&held), sql.clone());
                    async move {
                        let place = held.fetch_add(1, Ordering::SeqCst);
                        DB::run(&mut tx, &sql).await?;
                        if place < losers { Err(sqlx::Error::RowNotFound) } else { Ok(()) }
                    }
                })
                .await
        }
    }))
    .await;
    let count = |wanted: fn(&Result<Applied<()>, ApplyErrorKind>) -> bool| {
        twins.iter().filter(|twin| wanted(&twin.as_ref().copied().map_err(|error| error.kind()))).count()
    };
    (
        count(|twin| *twin == Ok(Applied::Fresh(()))),
        count(|twin| *twin == Ok(Applied::Duplicate)),
        count(|twin| *twin == Err(ApplyErrorKind::Handler)),
    )
}

async fn when_the_winner_rolls_back_exactly_one_waiter_wins<DB: TestEngine>(site: Site<DB>) {
    assert_eq!(with_losers(&site, 1).await, (1, 10, 1));
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

async fn when_every_winner_rolls_back_none_is_applied<DB: TestEngine>(site: Site<DB>) {
    assert_eq!(with_losers(&site, u32::MAX).await, (0, 0, 12));
    assert_eq!(site.effects("x").await, 0);
    site.close().await;
}

/// A transaction that holds one event's key open keeps no other event waiting, except on SQLite, where everybody waits
/// for the writer and nobody for a key.
async fn different_events_do_not_wait_for_each_other_s_key<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    if DB::NAME != "SQLite" {
        let mut open = site.pool.begin().await.expect("a transaction");
        inbox.admit(&mut open, &event(1)).await.expect("admitted");
        assert_eq!(apply(&site, &inbox, &event(2), "x").await.expect("applied"), Applied::Fresh(()));
        open.rollback().await.expect("rolled back");
    }
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(site.effects("x").await, if DB::NAME == "SQLite" { 1 } else { 2 });
    site.close().await;
}
