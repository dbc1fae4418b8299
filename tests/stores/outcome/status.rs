//! The status resource through actix-web: every row of its table, and 404s that are one and the same.

use std::time::{Duration, Instant};

use actix_web::dev::ServiceResponse;
use actix_web::http::header::{CACHE_CONTROL, HeaderMap, RETRY_AFTER};
use actix_web::{App, test};
use perilune::outcome::status::{StatusResource, Unauthenticated, openapi_document};
use perilune::outcome::{Decision, EphemeralOutcome, Operations, Origin, OutcomeEngine, OutcomeQuery};
use perilune_proto::Status;

use super::{Counting, apply, caller, event, event_of, json, operation_id, operations, with_error};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    each_state_is_answered_by_its_row_of_the_table,
    every_404_is_one_and_the_same,
    only_a_purge_that_the_audit_proves_is_a_410,
    what_contradicts_itself_is_a_500_without_its_cause,
    an_answer_is_held_until_the_state_changes_or_the_wait_passes,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    async fn of(response: ServiceResponse) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = String::from_utf8(test::read_body(response).await.to_vec()).expect("UTF-8");
        assert_eq!(headers.get(CACHE_CONTROL).expect("present"), "private, no-store");
        Self { status, headers, body }
    }
}

fn resource<DB: OutcomeEngine>(operations: &Operations<DB>, authoriser: &Counting) -> StatusResource<DB> {
    let query = OutcomeQuery::new(operations).with_authoriser(authoriser.clone());
    StatusResource::new(query, |request| {
        let tenant = request.headers().get("x-tenant").and_then(|tenant| tenant.to_str().ok());
        match request.headers().contains_key("x-nobody") {
            true => Err(Unauthenticated),
            false => Ok(caller(tenant)),
        }
    })
}

async fn ask<DB: OutcomeEngine>(resource: &StatusResource<DB>, id: &str, headers: &[(&str, &str)]) -> Answer {
    let app = test::init_service(App::new().service(resource.scope())).await;
    let mut request = test::TestRequest::get().uri(&format!("/operations/{id}"));
    for header in headers {
        request = request.insert_header(*header);
    }
    Answer::of(test::call_service(&app, request.to_request()).await).await
}

async fn each_state_is_answered_by_its_row_of_the_table<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let resource = resource(&operations, &Counting::new(Some(Decision::Allow)));
    let mut retry = event(3, 1, Status::RetryScheduled);
    retry.snapshot.result = json(r#"{"retryAt":"2026-08-01T10:00:00Z"}"#);
    let mut empty = event(5, 1, Status::Succeeded);
    empty.snapshot.operation = "CloseAccount".parse().expect("a name");
    empty.snapshot.result = json("{}");
    let rows = [
        (event(1, 1, Status::Accepted), r#""state":"accepted""#, true),
        (event(2, 1, Status::NeedsReview), r#""state":"running","attempt":1,"reviewRequired":true"#, true),
        (retry, r#""state":"retry_scheduled","attempt":1,"retryAt":"2026-08-01T10:00:00.000000Z""#, true),
        (event(4, 1, Status::Succeeded), r#""state":"completed","outcome":{"pages": 3}"#, false),
        (empty, r#""state":"completed","outcome":{}"#, false),
        (
            with_error(event(6, 1, Status::Rejected), "validation/too_large"),
            r#""state":"rejected","error":{"category":"validation","code":"too_large"}"#,
            false,
        ),
        (event(7, 1, Status::Failed), r#""state":"failed","error":{"code":"operation_failed"}"#, false),
        (
            event(8, 1, Status::DeadLettered),
            r#""state":"dead_lettered","error":{"code":"operation_dead_lettered"}"#,
            false,
        ),
    ];
    for (event, members, pending) in rows {
        apply(&site, &operations, &event).await.expect("applied");
        let id = event.task_id();
        let answer = ask(&resource, &id.to_string(), &[]).await;
        let operation_type = &event.snapshot.operation;
        let body =
            format!(r#"{{"schemaVersion":1,"operationId":"{id}","operationType":"{operation_type}",{members}}}"#);
        assert_eq!((answer.status, answer.body), (200, body));
        assert_eq!(answer.headers.contains_key(RETRY_AFTER), pending, "{members}");
    }
    let nobody = ask(&resource, &operation_id(1).to_string(), &[("x-nobody", "1")]).await;
    assert_eq!((nobody.status, &*nobody.body), (401, r#"{"status":"error","code":"unauthenticated"}"#));
    let document = openapi_document("/api");
    assert!(document.pointer("/paths/~1api~1operations~1{id}/get/responses/410").is_some());
    site.close().await;
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
    transaction.commit().await.expect("committed");

    let (allow, deny) = (Counting::new(Some(Decision::Allow)), Counting::new(Some(Decision::Deny)));
    let (allowing, denying) = (resource(&operations, &allow), resource(&operations, &deny));
    let id = |n| operation_id(n).to_string();
    let mut answers = Vec::new();
    for (what, resource, id) in [
        ("unknown", &allowing, id(9)),
        ("denied", &denying, id(1)),
        ("another tenant's", &allowing, id(2)),
        ("ephemeral", &allowing, ephemeral.to_string()),
        ("malformed", &allowing, "X".to_owned()),
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
    let resource = resource(&operations, &Counting::new(Some(Decision::Allow)));
    let id = operation_id(1).to_string();
    let begun = Instant::now();
    let unchanged = ask(&resource, &id, &[("prefer", "wait=1")]).await;
    assert!(unchanged.body.contains("accepted") && begun.elapsed() >= Duration::from_secs(1));

    let begun = Instant::now();
    let change = async {
        actix_rt::time::sleep(Duration::from_millis(400)).await;
        apply(&site, &operations, &event(1, 2, Status::Succeeded)).await.expect("applied");
    };
    let (changed, ()) = tokio::join!(ask(&resource, &id, &[("prefer", "wait=30")]), change);
    assert!(changed.body.contains("completed"), "{}", changed.body);
    assert!(begun.elapsed() < Duration::from_secs(10), "it was held to the end");
    site.close().await;
}
