//! `serve` on a database that is locked, and what it says of deliveries that nobody confirms.

use std::collections::BTreeSet;

use awc::http::Method;
use perilune::sql::DatabaseUrl;
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, SqliteConnection};

use super::cli_platform::Platform;
use super::http_harness::{Answer, Request, eventually};
use super::session_client::Client;

fn post(platform: &Platform, credential: &str, path: &str, body: Value) -> impl Future<Output = Answer> + use<> {
    Request::new(Method::POST, &format!("{}{path}", platform.url)).bearer(credential).json(Some(body)).send()
}

fn report(platform: &Platform, credential: &str, task: u128) -> impl Future<Output = Answer> + use<> {
    let path = format!("/v1/queues/reports/tasks/{task:032x}/events");
    post(platform, credential, &path, json!({"operation": "op", "status": "succeeded"}))
}

async fn metric(url: &str, name: &str) -> f64 {
    let text = Request::new(Method::GET, &format!("{url}/metrics")).send().await.expect(200).text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metric").parse().expect("a number")
}

/// Another program that keeps every writer out for as long as it is there.
async fn lock(platform: &Platform) -> SqliteConnection {
    let url: DatabaseUrl = platform.database().parse().expect("a URL");
    let DatabaseUrl::Sqlite(url) = url else { panic!("another engine") };
    let mut connection = url.options.connect().await.expect("connected");
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await.expect("locked");
    connection
}

#[actix_web::test]
async fn a_stop_answers_what_waits_for_a_locked_database_and_does_not_wait_for_it() {
    let mut platform = Platform::start();
    platform.stop("TERM").expect_code(0);
    platform.serve_with(&["--shutdown-timeout", "2s"]);
    let credential = platform.create_credential("reporter", "report");
    let lock = lock(&platform).await;
    let (url, first) = (platform.url.clone(), report(&platform, &credential, 1));
    let stop = async {
        eventually(async || metric(&url, "perilune_requests").await >= 1.0).await;
        let stopped = tokio::task::spawn_blocking(move || platform.stop("TERM"));
        stopped.await.expect("it ends")
    };
    let (answer, stopped) = tokio::join!(first, stop);
    answer.expect_problem(503, "UNAVAILABLE");
    stopped.expect_code(0);
    drop(lock);
}

#[actix_web::test]
async fn each_subscription_that_becomes_blocked_is_logged_once_and_each_expiry_counted_once() {
    let platform = Platform::start();
    let credential = platform.create_credential("worker", "report,consume,manage");
    let mut sessions = Vec::new();
    let mut blocked = BTreeSet::new();
    for _ in 0..4 {
        let settings = json!({"name": "n", "queues": ["reports"], "start": "latest", "window": 2, "budget": 1});
        let created = post(&platform, &credential, "/v1/subscriptions", settings).await.expect(201).json();
        let id = created["subscription_id"].as_str().expect("an id").to_owned();
        let mut session =
            Client::dial_at(&platform.url, &credential, Some("orbit.events.v1")).await.expect("a websocket");
        assert_eq!(session.register(&id, 4).await["type"], "welcome");
        sessions.push(session);
        blocked.insert(id);
    }
    for task in 1..=3 {
        report(&platform, &credential, task).await.expect(201);
    }
    for session in &mut sessions {
        // Both are leased; with the leases' end the question for more finds them EXPIRED, or the sweep does.
        session.delivery().await;
        session.delivery().await;
    }
    let waited = tokio::task::spawn_blocking(move || {
        while !blocked.is_empty() {
            let line = platform.wait_for("the subscription is blocked");
            let said: Vec<_> = blocked.iter().filter(|id| line.contains(*id)).cloned().collect();
            assert_eq!(said.len(), 1, "said before, or of nobody: {line}");
            blocked.remove(&said[0]);
        }
        platform
    });
    let mut platform = waited.await.expect("each is said");
    assert!((metric(&platform.url, "perilune_deliveries_expired_total").await - 8.0).abs() < f64::EPSILON);
    let rest = platform.stop("TERM").expect_code(0);
    assert!(!rest.stderr.contains("is blocked"), "said twice: {rest:?}");
}
