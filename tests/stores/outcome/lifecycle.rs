//! Which event changes what, and what is written with it.

use perilune::outbox::{Outbox, OutboxStore};
use perilune::outcome::lifecycle::OperationState;
use perilune::outcome::protect::KeyRing;
use perilune::outcome::{
    AppliedEvent, EphemeralOutcome, OperationId, Operations, Origin, OutcomeEngine, OutcomeStoreError,
};
use perilune_proto::Status;

use super::{CloseAccount, GenerateReport, apply, event, json, key, operation_id, operations};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    a_late_or_repeated_event_changes_nothing,
    nothing_applies_after_the_end,
    an_event_of_an_unregistered_type_writes_nothing,
    an_operation_that_stands_here_waits_for_a_program_that_knows_its_type,
    a_result_of_another_type_leaves_nothing_behind,
    an_operation_keeps_its_type,
    an_accepted_operation_waits_for_its_events,
    an_accepted_operation_is_dispatched_with_its_transaction,
    inline_and_ephemeral_operations_keep_no_outcome,
    a_text_that_does_not_fit_is_refused,
}

async fn a_late_or_repeated_event_changes_nothing<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 3, Status::Started)).await.expect("applied");
    for late in [event(1, 3, Status::Started), event(1, 2, Status::RetryScheduled), event(1, 1, Status::Accepted)] {
        assert_eq!(apply(&site, &operations, &late).await.expect("applied"), AppliedEvent::Stale);
    }
    assert_eq!(site.number("SELECT task_version FROM {p}operations").await, 3);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operations WHERE state = 'running'").await, 1);
    site.close().await;
}

async fn nothing_applies_after_the_end<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for (n, end) in (1..).zip([Status::Succeeded, Status::Rejected, Status::Failed, Status::DeadLettered]) {
        apply(&site, &operations, &event(n, 2, end)).await.expect("applied");
        for status in Status::ALL {
            let applied = apply(&site, &operations, &event(n, 3, status)).await.expect("applied");
            assert_eq!(applied, AppliedEvent::Ended, "{status} after {end}");
        }
    }
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 1);
    assert_eq!(site.number("SELECT MAX(task_version) FROM {p}operations").await, 2);
    site.close().await;
}

async fn an_event_of_an_unregistered_type_writes_nothing<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let mut other = event(1, 1, Status::Succeeded);
    other.snapshot.operation = "Other".parse().expect("a name");
    assert_eq!(apply(&site, &operations, &other).await.expect("passed by"), AppliedEvent::Unregistered);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operations").await, 0);
    site.close().await;
}

/// As in a rolling deployment: the old program gets an event of a type that only the new one knows.
async fn an_operation_that_stands_here_waits_for_a_program_that_knows_its_type<DB: TestEngine + OutcomeEngine>(
    site: Site<DB>,
) {
    let new = operations(&site).await;
    let old = Operations::builder(site.pool.clone(), KeyRing::new(key(1)))
        .table_prefix(site.prefix.clone())
        .operation::<CloseAccount>()
        .build();
    apply(&site, &new, &event(1, 1, Status::Started)).await.expect("applied");
    let error = apply(&site, &old, &event(1, 2, Status::Succeeded)).await.expect_err("not to be acknowledged");
    assert_eq!(error.to_string(), "operations of type GenerateReport are not registered here, and one stands here");
    assert_eq!(apply(&site, &old, &event(2, 1, Status::Started)).await.expect("passed by"), AppliedEvent::Unregistered);
    let applied = apply(&site, &new, &event(1, 2, Status::Succeeded)).await.expect("the next delivery");
    assert_eq!(applied, AppliedEvent::Changed(OperationState::Completed));
    site.close().await;
}

async fn a_result_of_another_type_leaves_nothing_behind<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for result in ["null", "{}", r#"{"pages": -1}"#, r#"{"pages": 1, "more": 2}"#, "[3]"] {
        let mut event = event(1, 1, Status::Succeeded);
        event.snapshot.result = json(result);
        let error = apply(&site, &operations, &event).await.expect_err(result);
        assert!(matches!(error, OutcomeStoreError::CorruptedPayload), "{result}: {error}");
        assert!(!format!("{error} {error:?}").contains("pages"), "payload shows");
    }
    for table in ["operations", "operation_journal", "outcomes"] {
        assert_eq!(site.number(&format!("SELECT COUNT(*) FROM {{p}}{table}")).await, 0, "{table}");
    }
    site.close().await;
}

async fn an_operation_keeps_its_type<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Started)).await.expect("applied");
    let mut other = event(1, 2, Status::Succeeded);
    other.snapshot.operation = "CloseAccount".parse().expect("a name");
    let error = apply(&site, &operations, &other).await.expect_err("another type");
    assert!(matches!(error, OutcomeStoreError::TypeMismatch { .. }), "{error}");
    site.close().await;
}

async fn an_accepted_operation_waits_for_its_events<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let origin = Origin { tenant: Some("acme".to_owned()), actor: Some("ann".to_owned()) };
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let input = "the quarter".to_owned();
    let accepted =
        operations.accept::<GenerateReport>(&mut transaction, &input, origin.clone()).await.expect("accepted");
    transaction.rollback().await.expect("rolled back");
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operations").await, 0, "it belongs to the caller's transaction");

    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let again = operations.accept::<GenerateReport>(&mut transaction, &input, origin).await.expect("accepted");
    transaction.commit().await.expect("committed");
    assert_ne!(accepted.operation_id, again.operation_id);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operation_inputs").await, 1);
    let mut started = event(1, 1, Status::Started);
    started.snapshot.task_id = again.operation_id.task_id();
    let applied = apply(&site, &operations, &started).await.expect("applied");
    assert_eq!(applied, AppliedEvent::Changed(OperationState::Running));
    let own = "SELECT COUNT(*) FROM {p}operations WHERE tenant = 'acme' AND actor = 'ann'";
    assert_eq!(site.number(own).await, 1, "an event never changes whose it is");
    site.close().await;
}

async fn an_accepted_operation_is_dispatched_with_its_transaction<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    let outbox = Outbox::<DB>::with_prefix(&site.prefix);
    outbox.migrate(&site.pool).await.expect("migrated");
    let (queue, input) = ("reports".parse().expect("a name"), "the quarter".to_owned());
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let on = &mut *transaction;
    let accepted =
        operations.accept_and_dispatch::<GenerateReport>(on, &outbox, &queue, &input, Origin::default()).await;
    transaction.rollback().await.expect("rolled back");
    accepted.expect("accepted");
    for table in ["operations", "operation_inputs", "outbox"] {
        assert_eq!(site.number(&format!("SELECT COUNT(*) FROM {{p}}{table}")).await, 0, "{table}");
    }
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let on = &mut *transaction;
    operations
        .accept_and_dispatch::<GenerateReport>(on, &outbox, &queue, &input, Origin::default())
        .await
        .expect("accepted");
    transaction.commit().await.expect("committed");
    for table in ["operations", "operation_inputs", "outbox"] {
        assert_eq!(site.number(&format!("SELECT COUNT(*) FROM {{p}}{table}")).await, 1, "{table}");
    }
    site.close().await;
}

async fn inline_and_ephemeral_operations_keep_no_outcome<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let on = &mut *transaction;
    operations.record_inline::<CloseAccount>(on, operation_id(1), Origin::default()).await.expect("recorded");
    let shown_once = EphemeralOutcome::new("s3cret");
    let shown = operations
        .record_ephemeral(on, operation_id(2), "IssueCredential", Origin::default(), shown_once)
        .await
        .expect("recorded");
    assert_eq!(shown, "s3cret");
    let again = operations.record_inline::<CloseAccount>(on, operation_id(1), Origin::default()).await;
    assert!(matches!(again, Err(OutcomeStoreError::Duplicate(_))));
    transaction.commit().await.expect("committed");
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 0);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operation_journal").await, 2);
    // A late event about an inline operation finds it ended.
    let mut late = event(1, 5, Status::Succeeded);
    late.snapshot.operation = "CloseAccount".parse().expect("a name");
    assert_eq!(apply(&site, &operations, &late).await.expect("applied"), AppliedEvent::Ended);
    site.close().await;
}

async fn a_text_that_does_not_fit_is_refused<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let long = Some("t".repeat(256));
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    for (field, origin) in
        [("tenant", Origin { tenant: long.clone(), actor: None }), ("actor", Origin { tenant: None, actor: long })]
    {
        let input = String::new();
        let error = operations.accept::<GenerateReport>(&mut transaction, &input, origin).await.expect_err(field);
        assert!(matches!(error, OutcomeStoreError::Text { field: named, .. } if named == field), "{error}");
    }
    let shown = EphemeralOutcome::new(());
    let spaced =
        operations.record_ephemeral(&mut transaction, OperationId::new(), "a b", Origin::default(), shown).await;
    assert!(matches!(spaced, Err(OutcomeStoreError::Text { field: "operation type", .. })));
    transaction.rollback().await.expect("rolled back");
    site.close().await;
}
