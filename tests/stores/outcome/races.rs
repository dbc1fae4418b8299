//! What can race on a real server, run at once many times.

use perilune::outcome::retention::{AuditVerification, TenantScope};
use perilune::outcome::{Decision, OutcomeEngine, OutcomeQuery};
use perilune_proto::Status;

use super::retention::{hold, order, policy};
use super::{Counting, apply, event, operation_id, operations};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    a_confirmed_hold_wins_over_a_purge_at_the_same_time,
    two_purges_at_once_delete_and_audit_each_thing_once,
    a_purge_and_a_late_event_at_once_bring_nothing_back,
    two_events_of_a_new_operation_at_once_make_one,
    a_rotation_and_a_read_at_once_agree,
    a_hold_or_a_purge_that_is_given_up_leaves_no_transaction_behind,
    a_rotation_and_a_purge_at_once_leave_nothing_half_done,
    two_saves_at_once_keep_one_outcome,
}

const ROUNDS: u128 = 40;

/// Lets one side of a race begin later than the other, by another little in each round.
async fn later_by<T>(steps: u128, side: impl Future<Output = T>) -> T {
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    side.await
}

async fn a_confirmed_hold_wins_over_a_purge_at_the_same_time<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=ROUNDS {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
        let (policy, order, hold) = (policy(), order(), hold(n));
        let purge = later_by(n % 5 * 40, operations.purge(&policy, &order));
        let place = later_by(n % 7 * 40, operations.place_hold(&TenantScope::Every, &hold));
        let (purged, held) = tokio::join!(purge, place);
        let purged = purged.expect("purged");
        let hold_id = held.expect("placed");
        // Whoever was first: what stands now stays as long as the hold does.
        let count = format!("SELECT COUNT(*) FROM {{p}}outcomes WHERE operation_id = '{}'", operation_id(n));
        let kept = site.number(&count).await;
        assert_eq!(kept, 1 - i64::try_from(purged.outcomes_deleted).expect("one at most"));
        operations.purge(&policy, &order).await.expect("purged");
        assert_eq!(site.number(&count).await, kept, "a confirmed hold was ignored");
        operations.release_hold(&TenantScope::Every, hold_id, "ops", order.now).await.expect("released");
        operations.purge(&policy, &order).await.expect("purged");
        assert_eq!(site.number(&count).await, 0);
    }
    site.close().await;
}

async fn two_purges_at_once_delete_and_audit_each_thing_once<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let mut total = 0;
    for n in 1..=ROUNDS / 2 {
        for m in 0..5 {
            apply(&site, &operations, &event(n * 10 + m, 1, Status::Succeeded)).await.expect("applied");
        }
        let (policy, order) = (policy(), order());
        let (first, second) = tokio::join!(operations.purge(&policy, &order), operations.purge(&policy, &order));
        let (first, second) = (first.expect("purged"), second.expect("purged"));
        assert_eq!(first.outcomes_deleted + second.outcomes_deleted, 5);
        total += first.audit_records + second.audit_records;
    }
    let verified = operations.verify_audit().await.expect("verified");
    assert_eq!(verified, AuditVerification::Intact { records: total });
    site.close().await;
}

async fn a_purge_and_a_late_event_at_once_bring_nothing_back<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=ROUNDS {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
        let (policy, order) = (policy(), order());
        let late = event(n, 2, Status::Succeeded);
        let purge = later_by(n % 5 * 40, operations.purge(&policy, &order));
        let (purged, applied) = tokio::join!(purge, later_by(n % 7 * 40, apply(&site, &operations, &late)));
        assert_eq!(purged.expect("purged").outcomes_deleted, 1);
        applied.expect("applied");
        assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 0);
    }
    site.close().await;
}

async fn two_events_of_a_new_operation_at_once_make_one<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=ROUNDS {
        let (started, ended) = (event(n, 1, Status::Started), event(n, 2, Status::Succeeded));
        let (first, second) = tokio::join!(apply(&site, &operations, &started), apply(&site, &operations, &ended));
        // A deadlock's victim is rolled back whole and comes again, as the inbox would run it.
        for (applied, event) in [(first, &started), (second, &ended)] {
            if applied.is_err() {
                apply(&site, &operations, event).await.expect("applied at the second try");
            }
        }
        let completed = format!(
            "SELECT COUNT(*) FROM {{p}}operations WHERE operation_id = '{}' AND state = 'completed'",
            operation_id(n)
        );
        assert_eq!(site.number(&completed).await, 1);
    }
    site.close().await;
}

async fn a_rotation_and_a_read_at_once_agree<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    use perilune::outcome::protect::KeyRing;

    let first = operations(&site).await;
    for n in 1..=ROUNDS {
        apply(&site, &first, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    let keys = KeyRing::new(super::key(2)).with_retired(super::key(1));
    let both = super::operations_with(&site, keys).await;
    let query = OutcomeQuery::new(&both).with_authoriser(Counting::new(Some(Decision::Allow)));
    let read_all = async {
        for n in 1..=ROUNDS {
            query.find(operation_id(n), &super::caller(None)).await.expect("readable");
        }
    };
    let (rotated, ()) = tokio::join!(both.rotate_keys(1), read_all);
    assert_eq!(rotated.expect("rotated").rewritten, u64::try_from(ROUNDS).expect("few"));
    site.close().await;
}

async fn a_hold_or_a_purge_that_is_given_up_leaves_no_transaction_behind<DB: TestEngine + OutcomeEngine>(
    site: Site<DB>,
) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    apply(&site, &operations, &event(2, 1, Status::Started)).await.expect("applied");
    for polls in 0..ROUNDS {
        give_up(polls, operations.place_hold(&TenantScope::Every, &hold(1))).await;
        give_up(polls, operations.purge(&policy(), &order())).await;
        // On a connection that somebody left inside a transaction this fails, or is never committed.
        let version = u64::try_from(polls).expect("small") + 2;
        apply(&site, &operations, &event(2, version, Status::Started)).await.expect("applied");
    }
    let started = format!("SELECT COUNT(*) FROM {{p}}operation_journal WHERE operation_id = '{}'", operation_id(2));
    assert_eq!(site.number(&started).await, i64::try_from(ROUNDS).expect("small") + 1);
    site.close().await;
}

/// Polls a future so many times, then drops it wherever it is.
async fn give_up(polls: u128, future: impl Future) {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if futures_util::poll!(&mut future).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn a_rotation_and_a_purge_at_once_leave_nothing_half_done<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    use perilune::outcome::protect::KeyRing;

    let old = operations(&site).await;
    let both = super::operations_with(&site, KeyRing::new(super::key(2)).with_retired(super::key(1))).await;
    for round in 0..ROUNDS / 4 {
        for m in 1..=10 {
            apply(&site, &old, &event(round * 10 + m, 1, Status::Succeeded)).await.expect("applied");
        }
        let (policy, order) = (policy(), order());
        let purge = later_by(round % 5 * 40, both.purge(&policy, &order));
        let (purged, rotated) = tokio::join!(purge, later_by(round % 3 * 40, both.rotate_keys(3)));
        assert_eq!(purged.expect("purged").outcomes_deleted, 10);
        assert_eq!(rotated.expect("rotated").unreadable, 0);
        assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 0);
    }
    site.close().await;
}

async fn two_saves_at_once_keep_one_outcome<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=ROUNDS / 2 {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
        site.run("DELETE FROM {p}outcomes").await;
        let save = |pages| {
            let (site, operations) = (&site, &operations);
            async move {
                let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
                let outcome = super::ReportGenerated { pages };
                let saved = operations.save_outcome(&mut transaction, operation_id(n), &outcome).await;
                match saved {
                    Ok(()) => transaction.commit().await.expect("committed"),
                    Err(_) => transaction.rollback().await.expect("rolled back"),
                }
                saved
            }
        };
        let (first, second) = tokio::join!(save(1), save(2));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 1);
    }
    site.close().await;
}
