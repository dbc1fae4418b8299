//! The query: denied unless allowed, and nothing is read before that.

use perilune::outcome::{Decision, FindOutcome, Origin, OutcomeEngine, OutcomeQuery, QueryError};
use perilune_proto::Status;

use super::{CloseAccount, Counting, apply, caller, event, event_of, operation_id, operations};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    everything_is_denied_by_default,
    the_authoriser_is_not_asked_about_what_is_not_there,
    nothing_is_read_for_whoever_is_denied,
    an_authoriser_that_fails_is_an_error,
    whatever_has_no_outcome_is_unavailable,
    an_outcome_missing_without_an_audit_is_a_contradiction,
    a_tenant_finds_its_own_alone,
}

fn unavailable(found: &Result<FindOutcome, QueryError>) -> bool {
    matches!(found, Ok(FindOutcome::Unavailable))
}

async fn everything_is_denied_by_default<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    assert!(unavailable(&OutcomeQuery::new(&operations).find(operation_id(1), &caller(None)).await));
    site.close().await;
}

async fn the_authoriser_is_not_asked_about_what_is_not_there<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event_of("acme", 1, 1, Status::Succeeded)).await.expect("applied");
    let authoriser = Counting::new(Some(Decision::Allow));
    let query = OutcomeQuery::new(&operations).with_authoriser(authoriser.clone());
    assert!(unavailable(&query.find(operation_id(9), &caller(Some("acme"))).await));
    assert!(unavailable(&query.find(operation_id(1), &caller(Some("other"))).await));
    assert!(unavailable(&query.find(operation_id(1), &caller(None)).await));
    assert_eq!(authoriser.count(), 0);
    assert!(matches!(query.find(operation_id(1), &caller(Some("acme"))).await, Ok(FindOutcome::Found(_))));
    assert_eq!(authoriser.count(), 1);
    site.close().await;
}

async fn nothing_is_read_for_whoever_is_denied<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    // Without its tables a detail read could only fail.
    for table in ["outcomes", "operation_inputs", "dead_letters", "operation_journal", "retention_audit"] {
        site.run(&format!("DROP TABLE {{p}}{table}")).await;
    }
    let authoriser = Counting::new(Some(Decision::Deny));
    let query = OutcomeQuery::new(&operations).with_authoriser(authoriser.clone());
    assert!(unavailable(&query.find(operation_id(1), &caller(None)).await));
    assert_eq!(authoriser.count(), 1);
    let allowing = OutcomeQuery::new(&operations).with_authoriser(Counting::new(Some(Decision::Allow)));
    assert!(matches!(allowing.find(operation_id(1), &caller(None)).await, Err(QueryError::Store(_))));
    site.close().await;
}

async fn an_authoriser_that_fails_is_an_error<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let query = OutcomeQuery::new(&operations).with_authoriser(Counting::new(None));
    assert!(matches!(query.find(operation_id(1), &caller(None)).await, Err(QueryError::Authoriser(_))));
    site.close().await;
}

async fn whatever_has_no_outcome_is_unavailable<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let query = OutcomeQuery::new(&operations).with_authoriser(Counting::new(Some(Decision::Allow)));
    for (n, status) in (1..).zip(Status::ALL) {
        apply(&site, &operations, &event(n, 1, status)).await.expect("applied");
        let found = query.find(operation_id(n), &caller(None)).await;
        assert_eq!(unavailable(&found), status != Status::Succeeded, "{status}");
    }
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let inline = operation_id(100);
    operations.record_inline::<CloseAccount>(&mut transaction, inline, Origin::default()).await.expect("recorded");
    transaction.commit().await.expect("committed");
    assert!(unavailable(&query.find(inline, &caller(None)).await));
    super::retention::purge_all(&operations).await;
    assert!(unavailable(&query.find(operation_id(4), &caller(None)).await), "purged");
    site.close().await;
}

async fn an_outcome_missing_without_an_audit_is_a_contradiction<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    site.run("DELETE FROM {p}outcomes").await;
    let query = OutcomeQuery::new(&operations).with_authoriser(Counting::new(Some(Decision::Allow)));
    assert!(matches!(query.find(operation_id(1), &caller(None)).await, Err(QueryError::Contradiction(_))));
    site.close().await;
}

async fn a_tenant_finds_its_own_alone<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let tenants = [None, Some("acme"), Some("Acme"), Some("acme-2")];
    for (n, tenant) in (1..).zip(tenants) {
        let event = tenant.map_or_else(|| event(n, 1, Status::Succeeded), |t| event_of(t, n, 1, Status::Succeeded));
        apply(&site, &operations, &event).await.expect("applied");
    }
    let query = OutcomeQuery::new(&operations).with_authoriser(Counting::new(Some(Decision::Allow)));
    for (n, owner) in (1..).zip(tenants) {
        for asking in tenants.into_iter().chain([Some(""), Some("acme ")]) {
            let found = query.find(operation_id(n), &caller(asking)).await;
            assert_eq!(unavailable(&found), asking != owner, "{asking:?} asks for what is of {owner:?}");
        }
    }
    site.close().await;
}
