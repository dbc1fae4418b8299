//! Plan, purge, audit, holds.

use std::time::Duration;

use perilune::outcome::retention::{
    AuditVerification, HoldCategory, HoldId, PlaceHold, PurgeOrder, RetentionError, RetentionPolicy,
    RetentionPurgeResult, Target, TenantScope,
};
use perilune::outcome::{Operations, Origin, OutcomeEngine};
use perilune_proto::Status;
use perilune_proto::scalar::Timestamp;

use super::{GenerateReport, apply, event, event_of, operation_id, operations, with_error};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    each_target_has_a_period_of_its_own,
    nothing_of_an_unfinished_operation_is_ever_due,
    a_plan_says_what_a_purge_does_and_changes_nothing,
    a_failed_audit_takes_the_deletion_back,
    a_purge_goes_batch_by_batch_until_nothing_is_due,
    a_held_operation_keeps_all_until_every_hold_is_released,
    a_hold_keeps_its_history,
    a_tenant_touches_its_own_alone,
}

/// Far enough that everything is due.
pub(crate) fn later() -> Timestamp {
    "2199-01-01T00:00:00Z".parse().expect("a time")
}

pub(crate) fn policy() -> RetentionPolicy {
    let day = Duration::from_secs(24 * 60 * 60);
    RetentionPolicy::builder().input(day).journal(day).outcome(day).dead_letter(day).build().expect("a policy")
}

pub(crate) fn order() -> PurgeOrder {
    PurgeOrder { policy_ref: "policy-1".to_owned(), actor: "ops".to_owned(), now: later() }
}

pub(crate) async fn purge_all<DB: OutcomeEngine>(operations: &Operations<DB>) -> RetentionPurgeResult {
    operations.purge(&policy(), &order()).await.expect("purged")
}

pub(crate) fn hold(n: u128) -> PlaceHold {
    PlaceHold {
        operation_id: operation_id(n),
        category: HoldCategory::Legal,
        reason: "case 7".to_owned(),
        actor: "counsel".to_owned(),
        now: later(),
    }
}

async fn place<DB: OutcomeEngine>(operations: &Operations<DB>, n: u128) -> HoldId {
    operations.place_hold(&TenantScope::Every, &hold(n)).await.expect("placed")
}

async fn each_target_has_a_period_of_its_own<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let accepted = operations.accept::<GenerateReport>(&mut transaction, &"q".to_owned(), Origin::default()).await;
    transaction.commit().await.expect("committed");
    let mut ended = event(1, 1, Status::Succeeded);
    ended.snapshot.task_id = accepted.expect("accepted").operation_id.task_id();
    apply(&site, &operations, &ended).await.expect("applied");
    apply(&site, &operations, &with_error(event(2, 1, Status::DeadLettered), "x")).await.expect("applied");

    let (short, long) = (Duration::from_secs(1), Duration::from_secs(300 * 365 * 24 * 60 * 60));
    let long = long.min(Duration::from_secs(36_500 * 24 * 60 * 60));
    let all_long = RetentionPolicy::builder().input(long).journal(long).outcome(long).dead_letter(long);
    let now: Timestamp = "2090-01-01T00:00:00Z".parse().expect("a time");
    let order = PurgeOrder { now, ..order() };
    let none = operations.purge(&all_long.build().expect("a policy"), &order).await.expect("purged");
    assert_eq!(none, RetentionPurgeResult::default());
    let one = |deleted: RetentionPurgeResult, records| RetentionPurgeResult { audit_records: records, ..deleted };
    let zero = RetentionPurgeResult::default();
    for (policy, expected) in [
        (all_long.input(short), one(RetentionPurgeResult { inputs_deleted: 1, ..zero }, 1)),
        (all_long.outcome(short), one(RetentionPurgeResult { outcomes_deleted: 1, ..zero }, 1)),
        (all_long.dead_letter(short), one(RetentionPurgeResult { dead_letters_deleted: 1, ..zero }, 1)),
        (all_long.journal(short), one(RetentionPurgeResult { journal_records_deleted: 2, ..zero }, 2)),
    ] {
        let purged = operations.purge(&policy.build().expect("a policy"), &order).await.expect("purged");
        assert_eq!(purged, expected);
    }
    site.close().await;
}

async fn nothing_of_an_unfinished_operation_is_ever_due<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for (n, status) in (1..).zip([Status::Accepted, Status::Started, Status::RetryScheduled, Status::NeedsReview]) {
        apply(&site, &operations, &event(n, 1, status)).await.expect("applied");
    }
    let plan = operations.plan(&policy(), later()).await.expect("planned");
    assert!(plan.targets.iter().all(|target| target.due == 0 && target.removals.is_empty()), "{plan:?}");
    assert_eq!(purge_all(&operations).await, RetentionPurgeResult::default());
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operation_journal").await, 4);
    site.close().await;
}

async fn a_plan_says_what_a_purge_does_and_changes_nothing<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=3 {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    place(&operations, 2).await;
    let plan = operations.plan(&policy(), later()).await.expect("planned");
    assert_eq!(operations.plan(&policy(), later()).await.expect("planned"), plan, "the first changed nothing");
    let outcome = plan.targets.iter().find(|plan| plan.target == Target::Outcome).expect("a target");
    assert_eq!((outcome.due, outcome.held), (2, 1));
    let ids: Vec<_> = outcome.removals.iter().map(|removal| removal.operation_id).collect();
    assert_eq!(ids, [operation_id(1), operation_id(3)]);
    assert!(outcome.removals[0].reason.contains("outcome is kept for 86400 s"), "{}", outcome.removals[0].reason);
    let purged = purge_all(&operations).await;
    assert_eq!((purged.outcomes_deleted, purged.journal_records_deleted), (2, 2));
    site.close().await;
}

async fn a_failed_audit_takes_the_deletion_back<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    site.run("DROP TABLE {p}retention_audit").await;
    let error = operations.purge(&policy(), &order()).await.expect_err("no audit");
    assert!(matches!(error, RetentionError::Storage(_)));
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operation_journal").await, 1);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 1);
    site.close().await;
}

async fn a_purge_goes_batch_by_batch_until_nothing_is_due<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    for n in 1..=2_100 {
        operations.apply(&mut transaction, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    transaction.commit().await.expect("committed");
    let purged = purge_all(&operations).await;
    assert_eq!((purged.outcomes_deleted, purged.journal_records_deleted), (2_100, 2_100));
    assert_eq!(purged.audit_records, 4_200);
    assert_eq!(purge_all(&operations).await, RetentionPurgeResult::default());
    let verified = operations.verify_audit().await.expect("verified");
    assert_eq!(verified, AuditVerification::Intact { records: 4_200 });
    site.close().await;
}

async fn a_held_operation_keeps_all_until_every_hold_is_released<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let (first, second) = (place(&operations, 1).await, place(&operations, 1).await);
    assert_eq!(purge_all(&operations).await, RetentionPurgeResult::default());
    operations.release_hold(&TenantScope::Every, first, "counsel", later()).await.expect("released");
    assert_eq!(purge_all(&operations).await, RetentionPurgeResult::default());
    operations.release_hold(&TenantScope::Every, second, "counsel", later()).await.expect("released");
    assert_eq!(purge_all(&operations).await.outcomes_deleted, 1);
    site.close().await;
}

async fn a_hold_keeps_its_history<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Started)).await.expect("applied");
    let every = TenantScope::Every;
    let placed = place(&operations, 1).await;
    operations.release_hold(&every, placed, "judge", later()).await.expect("released");
    let again = operations.release_hold(&every, placed, "judge", later()).await;
    assert!(matches!(again, Err(RetentionError::AlreadyReleased)));
    let holds = operations.holds(&every, operation_id(1)).await.expect("listed");
    assert_eq!(holds.len(), 1);
    assert_eq!((holds[0].hold_id, &*holds[0].reason, &*holds[0].placed_by), (placed, "case 7", "counsel"));
    let (by, at) = holds[0].released.clone().expect("released");
    assert_eq!((&*by, at.unix_micros()), ("judge", later().unix_micros()));
    let unknown = operations.place_hold(&every, &hold(9)).await;
    assert!(matches!(unknown, Err(RetentionError::UnknownOperation(_))));
    for (field, bad) in [
        ("reason", PlaceHold { reason: String::new(), ..hold(1) }),
        ("actor", PlaceHold { actor: "a".repeat(256), ..hold(1) }),
    ] {
        let refused = operations.place_hold(&every, &bad).await;
        assert!(matches!(refused, Err(RetentionError::Text { field: named, .. }) if named == field));
    }
    site.close().await;
}

async fn a_tenant_touches_its_own_alone<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    apply(&site, &operations, &event_of("acme", 2, 1, Status::Succeeded)).await.expect("applied");
    apply(&site, &operations, &event_of("other", 3, 1, Status::Succeeded)).await.expect("applied");
    let owners = [(1, None), (2, Some("acme")), (3, Some("other"))];
    for (n, owner) in owners {
        for asking in [None, Some("acme"), Some("other")] {
            let scope = TenantScope::Only(asking.map(str::to_owned));
            let listed = operations.holds(&scope, operation_id(n)).await;
            assert_eq!(listed.is_ok(), asking == owner, "{asking:?} lists holds of {owner:?}");
            if asking != owner {
                let placed = operations.place_hold(&scope, &hold(n)).await;
                assert!(matches!(placed, Err(RetentionError::UnknownOperation(_))), "{asking:?} of {owner:?}");
            }
        }
    }
    let placed = place(&operations, 2).await;
    let foreign = TenantScope::Only(Some("other".to_owned()));
    let released = operations.release_hold(&foreign, placed, "x", later()).await;
    assert!(matches!(released, Err(RetentionError::UnknownHold)));
    operations.release_hold(&TenantScope::Only(Some("acme".to_owned())), placed, "x", later()).await.expect("its own");
    purge_all(&operations).await;
    for (n, owner) in owners {
        let page = operations.audit_records(&TenantScope::Only(owner.map(str::to_owned)), 0).await.expect("read");
        assert_eq!(page.records.len(), 2, "journal and outcome");
        assert!(page.records.iter().all(|record| record.operation_id == operation_id(n)));
    }
    assert_eq!(operations.audit_records(&TenantScope::Every, 0).await.expect("read").records.len(), 6);
    site.close().await;
}
