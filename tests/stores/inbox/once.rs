//! One event, one effect, and nothing at all where something failed.

use perilune::inbox::{Applied, ApplyErrorKind, OpenTransaction};
use perilune::sql::SqlErrorKind;
use perilune_proto::scalar::{TaskId, TaskVersion};
use perilune_proto::{ResultEvent, Status};

use super::{apply, apply_sql};
use crate::engines::{Site, TestEngine, on_every_engine};
use crate::events::event;

on_every_engine! {
    a_second_delivery_finds_the_first,
    another_event_under_the_id_is_a_conflict,
    the_largest_version_is_remembered,
    a_failed_handler_leaves_nothing,
    a_business_key_is_no_duplicate,
    each_consumer_runs_an_event_once,
    a_panic_rolls_back_and_goes_on_to_the_caller,
    a_kept_transaction_is_an_error,
    a_swallowed_error_never_passes_for_a_commit,
    the_caller_s_own_error_comes_back,
}

async fn a_second_delivery_finds_the_first<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("known"), Applied::Duplicate);
    assert_eq!(apply(&site, &inbox, &event(2), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(site.effects("x").await, 2);
    site.close().await;
}

async fn another_event_under_the_id_is_a_conflict<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    apply(&site, &inbox, &event(1), "x").await.expect("applied");
    let changes: [fn(&mut ResultEvent); 3] = [
        |event| event.snapshot.status = Status::Failed,
        |event| event.snapshot.task_id = TaskId::from_u128(99),
        |event| event.snapshot.version = TaskVersion(4),
    ];
    for change in changes {
        let mut other = event(1);
        change(&mut other);
        let error = apply(&site, &inbox, &other, "x").await.expect_err("another event");
        assert_eq!(error.kind(), ApplyErrorKind::Conflict);
        assert_eq!(error.event_id(), Some(event(1).event_id));
    }
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

async fn the_largest_version_is_remembered<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let mut last = event(1);
    last.snapshot.version = TaskVersion(u64::MAX);
    assert_eq!(apply(&site, &inbox, &last, "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(apply(&site, &inbox, &last, "x").await.expect("known"), Applied::Duplicate);
    site.close().await;
}

async fn a_failed_handler_leaves_nothing<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let sql = format!("{}; THIS IS NO STATEMENT", site.effect("x"));
    let error = apply_sql(&inbox, &event(1), &sql).await.expect_err("no statement");
    assert_eq!((error.kind(), error.sql_kind()), (ApplyErrorKind::Handler, Some(SqlErrorKind::Other)));
    assert_eq!(site.effects("x").await, 0);
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

async fn a_business_key_is_no_duplicate<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let sql = site.sql("INSERT INTO {p}sku VALUES ('a', 1)");
    let error = apply_sql(&inbox, &event(1), &sql).await.expect_err("the business key is taken");
    assert_eq!((error.kind(), error.sql_kind()), (ApplyErrorKind::Handler, Some(SqlErrorKind::UniqueViolation)));
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("'a'") && !shown.contains("sku"), "business data shows: {shown}");
    site.run("DELETE FROM {p}sku WHERE sku = 'a'").await;
    assert_eq!(apply_sql(&inbox, &event(1), &sql).await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}

async fn each_consumer_runs_an_event_once<DB: TestEngine>(site: Site<DB>) {
    for (consumer, tag) in [("abc", "1"), ("ABC", "2"), ("abc.", "3"), ("abc-", "4")] {
        let inbox = site.inbox(consumer);
        assert_eq!(apply(&site, &inbox, &event(1), tag).await.expect("applied"), Applied::Fresh(()), "{consumer}");
        assert_eq!(apply(&site, &inbox, &event(1), tag).await.expect("known"), Applied::Duplicate, "{consumer}");
        assert_eq!(site.effects(tag).await, 1, "{consumer}");
    }
    site.close().await;
}

async fn a_panic_rolls_back_and_goes_on_to_the_caller<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let sql = site.effect("x");
    let once = inbox.clone();
    let panicked = tokio::spawn(async move {
        once.apply_once(&event(1), move |mut tx: OpenTransaction<DB>| {
            let sql = sql.clone();
            async move {
                DB::run(&mut tx, &sql).await?;
                if !sql.is_empty() {
                    panic!("in the handler");
                }
                Ok::<_, sqlx::Error>(())
            }
        })
        .await
    });
    assert!(panicked.await.expect_err("it panicked").is_panic());
    assert_eq!(site.effects("x").await, 0);
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}

async fn a_kept_transaction_is_an_error<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let error = inbox
        .apply_once(&event(1), move |tx| {
            let kept = keep.send(tx).is_ok();
            async move { if kept { Ok(()) } else { Err("nobody keeps it") } }
        })
        .await
        .expect_err("the transaction is elsewhere");
    assert_eq!(error.kind(), ApplyErrorKind::TransactionKept);
    drop(kept.recv().await);
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}

/// A handler that ignores a failed statement and says ok: the engine has given the transaction up (here by a ROLLBACK
/// of the handler's own, which is what a deadlock does to it), so neither half of it may look committed.
async fn a_swallowed_error_never_passes_for_a_commit<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    // An error ruins a transaction of PostgreSQL's; the others' end by themselves at some, as this does.
    let ruins: &[&str] = if DB::NAME == "PostgreSQL" { &["THIS IS NO STATEMENT", "ROLLBACK"] } else { &["ROLLBACK"] };
    for ruin in ruins {
        let (effect, ruin) = (site.effect("x"), (*ruin).to_owned());
        let error = inbox
            .apply_once(&event(1), move |mut tx: OpenTransaction<DB>| {
                let (effect, ruin) = (effect.clone(), ruin.clone());
                async move {
                    DB::run(&mut tx, &effect).await?;
                    let _swallowed = DB::run(&mut tx, &ruin).await;
                    Ok::<_, sqlx::Error>(())
                }
            })
            .await
            .expect_err("nothing was committed");
        assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::TransactionAborted));
        assert_eq!(site.effects("x").await, 0);
    }
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

async fn the_caller_s_own_error_comes_back<DB: TestEngine>(site: Site<DB>) {
    #[derive(Debug, thiserror::Error, PartialEq)]
    #[error("out of stock")]
    struct OutOfStock;

    let inbox = site.inbox("billing");
    let error = inbox.apply_once(&event(1), |_tx| async { Err::<(), _>(OutOfStock) }).await.expect_err("refused");
    assert_eq!((error.kind(), error.sql_kind()), (ApplyErrorKind::Handler, None));
    let own = error.into_handler_error().expect("the caller's");
    assert_eq!(own.downcast_ref::<OutOfStock>(), Some(&OutOfStock));
    site.close().await;
}
