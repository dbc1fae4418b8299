//! The query: denied unless allowed, and nothing is read before that.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use perilune::outcome::protect::{Key, KeyId, KeyProvider, KeyRing, ProtectError};
use perilune::outcome::{
    AuthoriseBy, Authoriser, AuthoriserError, Caller, Deciding, Decision, FindOutcome, Operations, Origin,
    OutcomeEngine, OutcomeQuery, QueryError, QueryPurpose, Subject,
};
use perilune_proto::Status;

use super::status::{ask, resource};
use super::{CloseAccount, Counting, GenerateReport, apply, caller, event, event_of, key, operation_id, operations};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    everything_is_denied_by_default,
    the_authoriser_is_not_asked_about_what_is_not_there,
    nothing_is_read_for_whoever_is_denied,
    an_authoriser_that_fails_is_an_error,
    whatever_has_no_outcome_is_unavailable,
    an_outcome_missing_without_an_audit_is_a_contradiction,
    a_tenant_finds_its_own_alone,
    no_key_is_asked_for_before_somebody_has_allowed_it,
    the_authoriser_is_told_who_asks_for_what_of_whom,
    an_authoriser_may_use_the_pool_itself,
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

/// Counts how often a key is asked for.
#[derive(Clone)]
struct CountingKeys {
    keys: KeyRing,
    asked: Arc<AtomicUsize>,
}

impl KeyProvider for CountingKeys {
    fn active_key(&self) -> Result<Key, ProtectError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.keys.active_key()
    }

    fn key(&self, id: KeyId) -> Result<Option<Key>, ProtectError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.keys.key(id)
    }
}

async fn no_key_is_asked_for_before_somebody_has_allowed_it<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    operations(&site).await;
    let keys = CountingKeys { keys: KeyRing::new(key(1)), asked: Arc::default() };
    let operations = Operations::builder(site.pool.clone(), keys.clone())
        .table_prefix(site.prefix.clone())
        .operation::<GenerateReport>()
        .build();
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    apply(&site, &operations, &event(2, 1, Status::Started)).await.expect("applied");
    let written = keys.asked.load(Ordering::SeqCst);
    // What is asked, by whom, and how often the authoriser and the keys are asked then.
    for (n, decision, tenant, authorised, opened) in [
        (1, Some(Decision::Allow), None, 1, 1),
        (1, Some(Decision::Deny), None, 1, 0),
        (1, None, None, 1, 0),
        (1, Some(Decision::Allow), Some("other"), 0, 0),
        (2, Some(Decision::Allow), None, 1, 0),
        (9, Some(Decision::Allow), None, 0, 0),
    ] {
        let authoriser = Counting::new(decision);
        let query = OutcomeQuery::new(&operations).with_authoriser(authoriser.clone());
        let before = keys.asked.load(Ordering::SeqCst);
        let _whatever = query.find(operation_id(n), &caller(tenant)).await;
        let asked = keys.asked.load(Ordering::SeqCst) - before;
        assert_eq!((authoriser.count(), asked), (authorised, opened), "{n} {decision:?} {tenant:?}");

        // The status resource asks the authoriser each time, and opens as little.
        let authoriser = Counting::new(decision);
        let before = keys.asked.load(Ordering::SeqCst);
        let headers: Vec<_> = tenant.map(|tenant| ("x-tenant", tenant)).into_iter().collect();
        ask(&resource(&operations, &authoriser), &operation_id(n).to_string(), &headers).await;
        let asked = keys.asked.load(Ordering::SeqCst) - before;
        assert_eq!((authoriser.count(), asked), (1, opened), "status of {n} {decision:?} {tenant:?}");
    }
    assert_eq!(keys.asked.load(Ordering::SeqCst), written + 2);
    site.close().await;
}

async fn the_authoriser_is_told_who_asks_for_what_of_whom<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event_of("acme", 1, 1, Status::Succeeded)).await.expect("applied");
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&told);
    let authoriser = AuthoriseBy::new(move |subject: Subject<'_>| {
        kept.lock().expect("no panic").push(format!(
            "{:?} {} {} {:?} {:?} {:?} {:?}",
            subject.purpose,
            subject.operation_id,
            subject.operation_type,
            subject.current_actor,
            subject.origin_actor,
            subject.current_tenant,
            subject.origin_tenant
        ));
        Decision::Allow
    });
    let query = OutcomeQuery::new(&operations).with_authoriser(authoriser);
    let bob = Caller { actor: Some("bob".to_owned()), tenant: Some("acme".to_owned()) };
    let id = operation_id(1);
    query.find(id, &bob).await.expect("found");
    query.find_for(id, &bob, QueryPurpose::Named("export")).await.expect("found");
    let whom = format!(r#"{id} GenerateReport Some("bob") Some("ann") Some("acme") Some("acme")"#);
    assert_eq!(*told.lock().expect("no panic"), [format!("ReadOutcome {whom}"), format!(r#"Named("export") {whom}"#)]);
    site.close().await;
}

/// Decides by a query on the pool that outcomes are read from.
struct Looking<DB: TestEngine>(sqlx::Pool<DB>);

impl<DB: TestEngine + OutcomeEngine> Authoriser for Looking<DB> {
    fn decide<'a>(&'a self, _: Subject<'a>) -> Deciding<'a> {
        Box::pin(async {
            let mut on = self.0.acquire().await.map_err(|error| AuthoriserError(error.into()))?;
            let one = DB::number(&mut on, "SELECT 1").await.map_err(|error| AuthoriserError(error.into()))?;
            Ok(if one == 1 { Decision::Allow } else { Decision::Deny })
        })
    }
}

async fn an_authoriser_may_use_the_pool_itself<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    apply(&site, &operations(&site).await, &event(1, 1, Status::Succeeded)).await.expect("applied");
    // With one connection, a query that kept it while it asks would wait for itself.
    let one = site.another_pool(perilune::sql::PoolSettings { max_connections: 1, ..site.settings }).await;
    let operations = Operations::builder(one.clone(), KeyRing::new(key(1)))
        .table_prefix(site.prefix.clone())
        .operation::<GenerateReport>()
        .build();
    let query = OutcomeQuery::new(&operations).with_authoriser(Looking(one.clone()));
    assert!(matches!(query.find(operation_id(1), &caller(None)).await, Ok(FindOutcome::Found(_))));
    one.close().await;
    site.close().await;
}
