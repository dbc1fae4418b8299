//! The status resource through actix-web: 404s that are one and the same, held answers, failures.

use std::time::{Duration, Instant};

use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::http::header::{ALLOW, CACHE_CONTROL, HeaderMap, RETRY_AFTER};
use actix_web::{App, test};
use perilune::outcome::status::{StatusResource, Unauthenticated};
use perilune::outcome::{Decision, EphemeralOutcome, Operations, Origin, OutcomeEngine, OutcomeQuery};
use perilune_proto::Status;

use super::{CloseAccount, Counting, apply, caller, event, event_of, operation_id, operations};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    every_404_is_one_and_the_same,
    whoever_is_denied_causes_no_detail_read,
    a_tenant_reads_its_own_status_alone,
    other_methods_are_refused_and_other_paths_are_malformed_ids,
    a_malformed_id_never_shows_an_operation,
    the_cause_of_a_failure_goes_to_the_log,
    only_a_purge_that_the_audit_proves_is_a_410,
    what_contradicts_itself_is_a_500_without_its_cause,
    an_answer_is_held_until_the_state_changes_or_the_wait_passes,
    an_answer_beyond_those_that_may_be_held_comes_at_once,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Answer {
    async fn of(response: ServiceResponse) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = String::from_utf8(test::read_body(response).await.to_vec()).expect("UTF-8");
        assert_eq!(headers.get(CACHE_CONTROL).expect("present"), "private, no-store");
        Self { status, headers, body }
    }
}

pub(super) fn resource<DB: OutcomeEngine>(operations: &Operations<DB>, authoriser: &Counting) -> StatusResource<DB> {
    let query = OutcomeQuery::new(operations).with_authoriser(authoriser.clone());
    StatusResource::new(query, |request| {
        let tenant = request.headers().get("x-tenant").and_then(|tenant| tenant.to_str().ok());
        match request.headers().contains_key("x-nobody") {
            true => Err(Unauthenticated),
            false => Ok(caller(tenant)),
        }
    })
}

pub(super) async fn ask<DB: OutcomeEngine>(
    resource: &StatusResource<DB>,
    id: &str,
    headers: &[(&str, &str)],
) -> Answer {
    ask_by(&Method::GET, resource, &format!("/operations/{id}"), headers).await
}

async fn ask_by<DB: OutcomeEngine>(
    method: &Method,
    resource: &StatusResource<DB>,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let app = test::init_service(App::new().service(resource.scope())).await;
    let mut request = test::TestRequest::with_uri(path).method(method.clone());
    for header in headers {
        request = request.insert_header(*header);
    }
    Answer::of(test::call_service(&app, request.to_request()).await).await
}

async fn every_404_is_one_and_the_same<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    apply(&site, &operations, &event_of("acme", 2, 1, Status::Succeeded)).await.expect("applied");
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let shown = EphemeralOutcome::new(());
    let ephemeral = operation_id(3);
    operations
        .record_ephemeral(&mut transaction, ephemeral, "IssueCredential", Origin::default(), shown)
        .await
        .expect("recorded");
    let inline = operation_id(6);
    operations.record_inline::<CloseAccount>(&mut transaction, inline, Origin::default()).await.expect("recorded");
    transaction.commit().await.expect("committed");
    apply(&site, &operations, &event(4, 1, Status::Failed)).await.expect("applied");
    apply(&site, &operations, &event(5, 1, Status::Started)).await.expect("applied");

    let (allow, deny) = (Counting::new(Some(Decision::Allow)), Counting::new(Some(Decision::Deny)));
    let (allowing, denying) = (resource(&operations, &allow), resource(&operations, &deny));
    let id = |n| operation_id(n).to_string();
    let mut answers = Vec::new();
    for (what, resource, id) in [
        ("unknown", &allowing, id(9)),
        ("denied", &denying, id(1)),
        ("another tenant's", &allowing, id(2)),
        ("ephemeral", &allowing, ephemeral.to_string()),
        ("inline", &allowing, inline.to_string()),
        ("malformed", &allowing, "X".to_owned()),
        ("longer than an id", &allowing, id(1) + "0"),
        ("in capitals", &allowing, "A".repeat(32)),
        ("not UTF-8", &allowing, "%ff".to_owned()),
        ("empty", &allowing, String::new()),
        ("a path of its own", &allowing, format!("{}/x", id(1))),
        ("finished and denied", &denying, id(4)),
        ("pending and denied", &denying, id(5)),
        ("unknown and denied", &denying, id(9)),
    ] {
        let before = allow.count() + deny.count();
        let answer = ask(resource, &id, &[("prefer", "wait=30")]).await;
        assert_eq!(allow.count() + deny.count(), before + 1, "{what}: the authoriser is asked once");
        let mut headers: Vec<_> =
            answer.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        headers.sort();
        answers.push((what, answer.status, headers, answer.body));
    }
    for (what, status, headers, body) in &answers {
        let (_, first_status, first_headers, first_body) = &answers[0];
        assert_eq!((status, headers, body), (first_status, first_headers, first_body), "{what}");
    }
    assert_eq!(answers[0].1, 404);
    assert_eq!(answers[0].3, r#"{"status":"error","code":"operation_unavailable"}"#);
    site.close().await;
}

async fn only_a_purge_that_the_audit_proves_is_a_410<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    super::retention::purge_all(&operations).await;
    let id = operation_id(1).to_string();
    let allowing = resource(&operations, &Counting::new(Some(Decision::Allow)));
    let gone = ask(&allowing, &id, &[]).await;
    assert_eq!((gone.status, &*gone.body), (410, r#"{"status":"error","code":"operation_expired"}"#));
    let denying = resource(&operations, &Counting::new(Some(Decision::Deny)));
    assert_eq!(ask(&denying, &id, &[]).await.status, 404, "whoever is denied learns nothing of a purge");
    site.run("DELETE FROM {p}retention_audit WHERE target = 'outcome'").await;
    assert_eq!(ask(&allowing, &id, &[]).await.status, 500, "without its audit it is no purge");
    site.close().await;
}

async fn what_contradicts_itself_is_a_500_without_its_cause<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=2 {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    site.run(&format!("DELETE FROM {{p}}outcomes WHERE operation_id = '{}'", operation_id(1))).await;
    site.run("UPDATE {p}outcomes SET schema_version = 7").await;
    let allowing = resource(&operations, &Counting::new(Some(Decision::Allow)));
    let failing = resource(&operations, &Counting::new(None));
    for (resource, n) in [(&allowing, 1), (&allowing, 2), (&failing, 1), (&failing, 9)] {
        let answer = ask(resource, &operation_id(n).to_string(), &[]).await;
        assert_eq!((answer.status, &*answer.body), (500, r#"{"status":"error","code":"internal_error"}"#));
    }
    site.close().await;
}

async fn an_answer_is_held_until_the_state_changes_or_the_wait_passes<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Accepted)).await.expect("applied");
    let authoriser = Counting::new(Some(Decision::Allow));
    let resource = resource(&operations, &authoriser);
    let id = operation_id(1).to_string();
    let begun = Instant::now();
    let unchanged = ask(&resource, &id, &[("prefer", "wait=1")]).await;
    assert!(unchanged.body.contains("accepted") && begun.elapsed() >= Duration::from_secs(1));

    let asked = authoriser.count();
    let begun = Instant::now();
    let change = async {
        // The first look has found it accepted: from here on the answer is held.
        authoriser.until(asked + 1).await;
        apply(&site, &operations, &event(1, 2, Status::Succeeded)).await.expect("applied");
    };
    let (changed, ()) = tokio::join!(ask(&resource, &id, &[("prefer", "wait=30")]), change);
    assert!(changed.body.contains("completed"), "{}", changed.body);
    assert!(begun.elapsed() < Duration::from_secs(30), "it was held to the end");
    assert_eq!(authoriser.count(), asked + 2, "what has changed is shown to whoever may still know it");
    site.close().await;
}

async fn an_answer_beyond_those_that_may_be_held_comes_at_once<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Accepted)).await.expect("applied");
    let authoriser = Counting::new(Some(Decision::Allow));
    let resource = resource(&operations, &authoriser).held_max(1);
    let id = operation_id(1).to_string();
    let held = [("prefer", "wait=30")];
    let beyond = async {
        authoriser.until(1).await;
        // The first is held from here on. An answer at the end of its wait would have been asked for twice.
        let second = ask(&resource, &id, &held).await;
        assert!(second.body.contains("accepted") && second.headers.contains_key(RETRY_AFTER), "{}", second.body);
        assert_eq!(authoriser.count(), 2, "it was held");
        apply(&site, &operations, &event(1, 2, Status::Succeeded)).await.expect("applied");
    };
    let (first, ()) = tokio::join!(ask(&resource, &id, &held), beyond);
    assert!(first.body.contains("completed"), "{}", first.body);
    let third = ask(&resource, &id, &held).await;
    assert!(third.body.contains("completed"), "{}", third.body);
    site.close().await;
}

async fn whoever_is_denied_causes_no_detail_read<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    for table in ["outcomes", "operation_inputs", "dead_letters", "operation_journal", "retention_audit"] {
        site.run(&format!("DROP TABLE {{p}}{table}")).await;
    }
    let (allow, deny) = (Counting::new(Some(Decision::Allow)), Counting::new(Some(Decision::Deny)));
    let answer = |authoriser: &Counting, n: u128| {
        let resource = resource(&operations, authoriser);
        async move { ask(&resource, &operation_id(n).to_string(), &[]).await.status }
    };
    assert_eq!((answer(&deny, 1).await, answer(&deny, 9).await, answer(&allow, 9).await), (404, 404, 404));
    assert_eq!(answer(&allow, 1).await, 500, "an allowed read needs the tables");
    site.close().await;
}

async fn a_tenant_reads_its_own_status_alone<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let resource = resource(&operations, &Counting::new(Some(Decision::Allow)));
    let tenants = [None, Some("acme"), Some("Acme"), Some("acme-2")];
    for (n, tenant) in (0..).zip(tenants) {
        for (m, status) in (1..).zip([Status::Started, Status::Succeeded, Status::Failed]) {
            let n = n * 10 + m;
            let event = tenant.map_or_else(|| event(n, 1, status), |tenant| event_of(tenant, n, 1, status));
            apply(&site, &operations, &event).await.expect("applied");
        }
    }
    for (n, owner) in (0..).zip(tenants) {
        for asking in tenants {
            for m in 1..=3 {
                let headers: Vec<_> = asking.map(|tenant| ("x-tenant", tenant)).into_iter().collect();
                let answer = ask(&resource, &operation_id(n * 10 + m).to_string(), &headers).await;
                let expected = if asking == owner { 200 } else { 404 };
                assert_eq!(answer.status, expected, "{asking:?} asks for what is of {owner:?}");
            }
        }
    }
    site.close().await;
}

async fn other_methods_are_refused_and_other_paths_are_malformed_ids<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Started)).await.expect("applied");
    let resource = resource(&operations, &Counting::new(Some(Decision::Allow)));
    let path = format!("/operations/{}", operation_id(1));
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let refused = ask_by(&method, &resource, &path, &[]).await;
        assert_eq!((refused.status, &*refused.body), (405, ""), "{method}");
        assert_eq!(refused.headers.get(ALLOW).expect("present"), "GET, HEAD");
    }
    let head = ask_by(&Method::HEAD, &resource, &path, &[]).await;
    assert!(head.status == 200 && head.headers.contains_key(RETRY_AFTER));
    for path in ["/operations", "/operations/", "/operations/a/b"] {
        assert_eq!(ask_by(&Method::GET, &resource, path, &[]).await.status, 404, "{path}");
        assert_eq!(ask_by(&Method::GET, &resource, path, &[("x-nobody", "1")]).await.status, 401, "{path}");
    }
    site.close().await;
}

async fn a_malformed_id_never_shows_an_operation<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    // What a malformed id is looked for under, so that it takes the steps of an unknown one.
    apply(&site, &operations, &event(0, 1, Status::Succeeded)).await.expect("applied");
    let resource = resource(&operations, &Counting::new(Some(Decision::Allow)));
    assert_eq!(ask(&resource, &operation_id(0).to_string(), &[]).await.status, 200);
    assert_eq!(ask(&resource, "malformed", &[]).await.status, 404);
    site.close().await;
}

async fn the_cause_of_a_failure_goes_to_the_log<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    site.run("UPDATE {p}outcomes SET key_id = 1, payload = SUBSTR(payload, 1, 20)").await;
    let log = super::log::Log::default();
    let id = operation_id(1).to_string();
    for (decision, cause) in [
        (Some(Decision::Allow), "the outcome can't be protected or opened: the blob is truncated"),
        (None, "the authoriser failed: down"),
    ] {
        let resource = resource(&operations, &Counting::new(decision));
        let listening = tracing::subscriber::set_default(log.clone());
        assert_eq!(ask(&resource, &id, &[]).await.status, 500);
        drop(listening);
        let told = log.take();
        assert!(told.contains(cause) && told.contains("operation.status_failed"), "{told}");
        assert!(!told.contains("pages"), "payload shows: {told}");
    }
    site.close().await;
}
