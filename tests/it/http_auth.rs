//! Who may do what, and that nobody learns what is not theirs.

use std::time::Duration;

use awc::http::Method;
use perilune::server::store::{CredentialSecret, NewCredential, Rotation, Scope};
use serde_json::json;

use crate::http_harness::{Answer, Request, TestServer};

const TASK: &str = "0123456789abcdef0123456789abcdef";

async fn get(server: &TestServer, path: &str, credential: &str) -> Answer {
    Request::new(Method::GET, &server.url(path)).bearer(credential).send().await
}

async fn post(server: &TestServer, path: &str, credential: &str, body: serde_json::Value) -> Answer {
    Request::new(Method::POST, &server.url(path)).bearer(credential).json(Some(body)).send().await
}

#[actix_web::test]
async fn no_credential_or_an_unknown_one_is_unauthenticated() {
    let server = TestServer::start().await;
    let url = server.url("/v1/subscriptions");
    let none = Request::new(Method::GET, &url).send().await.expect_problem(401, "UNAUTHENTICATED");
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    let unknown = get(&server, "/v1/subscriptions", "prl_nobody").await.expect_problem(401, "UNAUTHENTICATED");
    assert_eq!(none.text, unknown.text);
    let basic = Request::new(Method::GET, &url).header("authorization", "Basic YTpi").send().await;
    basic.expect_problem(401, "UNAUTHENTICATED");
}

#[actix_web::test]
async fn a_revoked_credential_is_unauthenticated_from_then_on() {
    let server = TestServer::start().await;
    let credential = server.credential("short", &["reports"], &[Scope::Manage]).await;
    get(&server, "/v1/subscriptions", &credential).await.expect(200);
    server.store.revoke_credential("short".parse().expect("a name")).await.expect("revoked");
    get(&server, "/v1/subscriptions", &credential).await.expect_problem(401, "UNAUTHENTICATED");
}

#[actix_web::test]
async fn both_secrets_of_a_rotated_credential_work_until_the_overlap_ends() {
    let server = TestServer::start().await;
    let old = server.credential("turning", &["reports"], &[Scope::Manage]).await;
    let subscription =
        post(&server, "/v1/subscriptions", &old, json!({"name": "a", "queues": ["reports"], "start": "latest"})).await;
    let id = subscription.expect(201).json()["subscription_id"].as_str().expect("an id").to_owned();
    let new = CredentialSecret::generate();
    let name: perilune_proto::scalar::Name = "turning".parse().expect("a name");
    let rotate = |secret: &CredentialSecret, overlap| Rotation { name: name.clone(), secret: secret.hash(), overlap };
    server.store.rotate_credential(rotate(&new, Duration::from_secs(3_600))).await.expect("rotated");
    for secret in [old.as_str(), new.expose()] {
        get(&server, &format!("/v1/subscriptions/{id}"), secret).await.expect(200);
    }
    let newest = CredentialSecret::generate();
    server.store.rotate_credential(rotate(&newest, Duration::ZERO)).await.expect("rotated");
    let path = format!("/v1/subscriptions/{id}");
    get(&server, &path, new.expose()).await.expect_problem(401, "UNAUTHENTICATED");
    get(&server, &path, newest.expose()).await.expect(200);
}

#[actix_web::test]
async fn an_expired_credential_is_unauthenticated() {
    let server = TestServer::start().await;
    let secret = CredentialSecret::generate();
    let new = NewCredential {
        name: "brief".parse().expect("a name"),
        queues: ["reports".parse().expect("a queue")].into(),
        scopes: Scope::ALL.into_iter().collect(),
        secret: secret.hash(),
        expires_in: Some(Duration::ZERO),
    };
    server.store.create_credential(new).await.expect("created");
    get(&server, "/v1/subscriptions", secret.expose()).await.expect_problem(401, "UNAUTHENTICATED");
}

#[actix_web::test]
async fn a_missing_scope_is_forbidden_on_every_route() {
    let server = TestServer::start().await;
    let report = server.credential("reporter", &["reports"], &[Scope::Report]).await;
    let manage = server.credential("manager", &["reports"], &[Scope::Manage]).await;
    let report_path = format!("/v1/queues/reports/tasks/{TASK}/events");
    post(&server, &report_path, &manage, json!({})).await.expect_problem(403, "PERMISSION_DENIED");
    get(&server, &format!("/v1/tasks/{TASK}"), &manage).await.expect_problem(403, "PERMISSION_DENIED");
    get(&server, "/v1/subscriptions", &report).await.expect_problem(403, "PERMISSION_DENIED");
    post(&server, "/v1/subscriptions", &report, json!({})).await.expect_problem(403, "PERMISSION_DENIED");
    for action in ["pause", "resume", "seek", "deliveries:budget"] {
        let path = format!("/v1/subscriptions/{TASK}/{action}");
        post(&server, &path, &report, json!({})).await.expect_problem(403, "PERMISSION_DENIED");
    }
    let batch = Request::new(Method::POST, &server.url("/v1/events:batch")).bearer(&manage);
    batch.header("content-type", "application/x-ndjson").send().await.expect_problem(403, "PERMISSION_DENIED");
}

#[actix_web::test]
async fn a_queue_outside_the_credential_s_is_forbidden() {
    let server = TestServer::start().await;
    let body = json!({"operation": "GenerateReport", "status": "started"});
    let path = format!("/v1/queues/payroll/tasks/{TASK}/events");
    server.post(&path, body.clone()).await.expect_problem(403, "PERMISSION_DENIED");
    let no_name = format!("/v1/queues/a%20b/tasks/{TASK}/events");
    server.post(&no_name, body).await.expect_problem(403, "PERMISSION_DENIED");
    let settings = json!({"name": "a", "queues": ["reports", "payroll"], "start": "latest"});
    server.post("/v1/subscriptions", settings).await.expect_problem(403, "PERMISSION_DENIED");
}

#[actix_web::test]
async fn what_a_credential_may_not_see_answers_exactly_as_what_does_not_exist() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    server.report(7, "started").await;
    let task = format!("{:032x}", 7);
    let other = server.credential("other", &["payroll"], &Scope::ALL).await;
    let unknown = "ffffffffffffffffffffffffffffffff";
    let suffixes =
        ["", "/deliveries"].map(|suffix| ("/v1/subscriptions", suffix)).into_iter().chain([("/v1/tasks", "")]);
    for (kind, suffix) in suffixes {
        let mine = if kind == "/v1/tasks" { &task } else { &id };
        let answer = |name: &str| get_owned(&server, format!("{kind}/{name}{suffix}"), &other);
        let foreign = answer(mine).await.expect_problem(404, "NOT_FOUND");
        let absent = answer(unknown).await.expect_problem(404, "NOT_FOUND");
        let malformed = answer("no-id").await.expect_problem(404, "NOT_FOUND");
        for other in [&absent, &malformed] {
            assert_eq!(foreign.text, other.text);
            assert_eq!(without_date(&foreign), without_date(other));
        }
        assert!(!foreign.text.contains(mine.as_str()), "{foreign:?}");
    }
    for (action, body) in [("pause", None), ("seek", Some(json!({"to": "latest"})))] {
        let call = |name: &str| {
            let url = server.url(&format!("/v1/subscriptions/{name}/{action}"));
            Request::new(Method::POST, &url).bearer(&other).json(body.clone()).send()
        };
        let (foreign, absent) = (call(&id).await, call(unknown).await);
        assert_eq!(foreign.text, absent.text);
        foreign.expect_problem(404, "NOT_FOUND");
    }
}

async fn get_owned(server: &TestServer, path: String, credential: &str) -> Answer {
    get(server, &path, credential).await
}

fn without_date(answer: &Answer) -> Vec<&(String, String)> {
    let mut headers: Vec<_> = answer.headers.iter().filter(|(name, _)| name != "date").collect();
    headers.sort();
    headers
}

#[actix_web::test]
async fn health_metrics_and_the_document_need_no_credential() {
    let server = TestServer::start().await;
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        Request::new(Method::GET, &server.url(path)).send().await.expect(200);
    }
}
