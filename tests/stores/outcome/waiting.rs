//! A hold and a purge where one waits for the other's lock, in both orders.

use perilune::outcome::OutcomeEngine;
use perilune::outcome::retention::TenantScope;
use perilune_proto::Status;

use super::retention::{hold, order, policy};
use super::{apply, event, operation_id, operations};
use crate::engines::{Site, TestEngine, on_servers, turn_at_innodb_trx};

on_servers! {
    a_purge_that_waits_for_a_hold_sees_it,
    a_hold_that_waits_for_a_purge_is_placed_on_what_is_left,
}

/// Runs `side` and, once it waits for a lock, `then`.
async fn once_it_waits<DB: TestEngine, T>(site: &Site<DB>, side: impl Future<Output = T>, then: impl Future) -> T {
    let waiting = match DB::VARIABLE {
        Some("PERILUNE_TEST_POSTGRES_URL") => site.sql(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{p}operations%'",
        ),
        _ => site.sql(
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%{p}operations%'",
        ),
    };
    let then = async {
        while {
            let _turn = turn_at_innodb_trx::<DB>().await;
            site.number(&waiting).await == 0
        } {}
        then.await;
    };
    let both = async { tokio::join!(side, then).0 };
    tokio::time::timeout(std::time::Duration::from_secs(60), both).await.expect("it came to wait")
}

/// The row lock that holds, purges and events take, kept by somebody else.
async fn lock<DB: TestEngine>(site: &Site<DB>, n: u128) -> sqlx::Transaction<'static, DB> {
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let lock = format!("SELECT 1 FROM {{p}}operations WHERE operation_id = '{}' FOR UPDATE", operation_id(n));
    DB::run(&mut transaction, &site.sql(&lock)).await.expect("locked");
    transaction
}

async fn a_purge_that_waits_for_a_hold_sees_it<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=3 {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    // A hold under way: it has the row and has not committed. The purge has read its candidates by then.
    let mut holding = lock(&site, 2).await;
    let place = format!(
        "INSERT INTO {{p}}operation_holds (hold_id, operation_id, category, reason, placed_by, placed_at) VALUES ('h', '{}', 'legal', 'r', 'a', 1)",
        operation_id(2)
    );
    DB::run(&mut holding, &site.sql(&place)).await.expect("placed");
    let (policy, order) = (policy(), order());
    let commit = async { holding.commit().await.expect("committed") };
    let purged = once_it_waits(&site, operations.purge(&policy, &order), commit).await.expect("purged");
    assert_eq!((purged.outcomes_deleted, purged.journal_records_deleted), (2, 2), "the held one stays");
    let kept = format!("SELECT COUNT(*) FROM {{p}}outcomes WHERE operation_id = '{}'", operation_id(2));
    assert_eq!(site.number(&kept).await, 1);
    site.close().await;
}

async fn a_hold_that_waits_for_a_purge_is_placed_on_what_is_left<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    // A purge under way: it has the row, has deleted the journal and has not committed.
    let mut purging = lock(&site, 1).await;
    DB::run(&mut purging, &site.sql("DELETE FROM {p}operation_journal")).await.expect("deleted");
    let hold = hold(1);
    let commit = async { purging.commit().await.expect("committed") };
    once_it_waits(&site, operations.place_hold(&TenantScope::Every, &hold), commit).await.expect("placed");
    let (policy, order) = (policy(), order());
    let purged = operations.purge(&policy, &order).await.expect("purged");
    assert_eq!(purged.outcomes_deleted, 0, "what was left when it was placed stays");
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operation_journal").await, 0);
    site.close().await;
}
