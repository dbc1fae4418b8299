//! The inbox inside a transaction that the caller began.

use perilune::inbox::{Admission, Applied, ApplyErrorKind};
use sqlx::Transaction;

use super::apply;
use crate::engines::{Site, TestEngine, on_every_engine};
use crate::events::event;

on_every_engine! {
    the_caller_s_commit_decides,
    a_failed_handler_takes_the_row_with_it_and_leaves_the_rest,
    an_admitted_event_is_a_duplicate_after_the_commit,
}

async fn begin<DB: TestEngine>(site: &Site<DB>) -> Transaction<'static, DB> {
    site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction")
}

async fn the_caller_s_commit_decides<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let effect = site.effect("x");
    for (commit, expected) in [(false, 0), (true, 1)] {
        let mut tx = begin(&site).await;
        let applied =
            inbox.apply_once_in(&mut tx, &event(1), async |tx| DB::run(&mut *tx, &effect).await.map(drop)).await;
        assert_eq!(applied.expect("applied"), Applied::Fresh(()));
        let again = inbox.apply_once_in(&mut tx, &event(1), async |_| Ok::<_, sqlx::Error>(())).await;
        assert_eq!(again.expect("known within the transaction"), Applied::Duplicate);
        if commit { tx.commit().await } else { tx.rollback().await }.expect("ended");
        assert_eq!(site.effects("x").await, expected);
    }
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("known"), Applied::Duplicate);
    site.close().await;
}

async fn a_failed_handler_takes_the_row_with_it_and_leaves_the_rest<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let (effect, other) = (site.effect("x"), site.effect("other"));
    let mut tx = begin(&site).await;
    DB::run(&mut tx, &other).await.expect("a statement of the caller's");
    let failed = inbox
        .apply_once_in(&mut tx, &event(1), async |tx| {
            DB::run(&mut *tx, &effect).await?;
            Err::<(), _>(sqlx::Error::RowNotFound)
        })
        .await;
    assert_eq!(failed.expect_err("refused").kind(), ApplyErrorKind::Handler);
    tx.commit().await.expect("the outer transaction goes on");
    assert_eq!((site.effects("x").await, site.effects("other").await), (0, 1));
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}

async fn an_admitted_event_is_a_duplicate_after_the_commit<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let mut tx = begin(&site).await;
    assert_eq!(inbox.admit(&mut tx, &event(1)).await.expect("admitted"), Admission::Fresh);
    tx.commit().await.expect("committed");
    let mut tx = begin(&site).await;
    assert_eq!(inbox.admit(&mut tx, &event(1)).await.expect("known"), Admission::Duplicate);
    tx.rollback().await.expect("rolled back");
    site.close().await;
}
