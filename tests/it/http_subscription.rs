//! Managing subscriptions and their deliveries.

use awc::http::Method;
use serde_json::{Value, json};

use crate::http_harness::TestServer;
use crate::session_client::Client;

#[actix_web::test]
async fn a_new_subscription_shows_its_settings_and_figures() {
    let server = TestServer::start().await;
    server.report(1, "started").await;
    let settings = json!({
        "name": "rechnungen é", "queues": ["mail", "reports"], "statuses": ["succeeded", "failed"],
        "operations": ["GenerateReport"], "start": "earliest", "window": 4096, "budget": 3,
        "backoff": {"min_ms": 5, "max_ms": 5},
    });
    let created = server.post("/v1/subscriptions", settings.clone()).await.expect(201);
    let shown = created.json();
    let id = shown["subscription_id"].as_str().expect("an id");
    assert_eq!(created.header("location"), Some(format!("/v1/subscriptions/{id}").as_str()));
    for name in ["name", "queues", "operations", "window", "budget", "backoff"] {
        assert_eq!(shown[name], settings[name], "{name}");
    }
    assert_eq!((&shown["enabled"], &shown["blocked"]), (&json!(true), &json!(false)));
    for figure in ["lag", "ready", "leased", "expired", "acknowledged", "sessions"] {
        assert!(shown[figure].is_u64(), "{figure} in {shown}");
    }
    assert!(shown["cursor"].is_string());
    assert_eq!(server.get(&format!("/v1/subscriptions/{id}")).await.expect(200).json()["name"], settings["name"]);
}

#[actix_web::test]
async fn bad_settings_are_each_named() {
    let server = TestServer::start().await;
    let settings = json!({"name": "n".repeat(129), "queues": [], "start": "now", "window": 4097, "budget": 0, "backoff": {"min_ms": 2, "max_ms": 1}});
    let answer = server.post("/v1/subscriptions", settings).await.expect_problem(422, "INVALID");
    assert_eq!(answer.pointers(), ["/name", "/queues", "/start", "/window", "/budget", "/backoff/max_ms"]);
    let named =
        server.post("/v1/subscriptions", json!({"name": "ü".repeat(128), "queues": ["mail"], "start": "latest"})).await;
    named.expect(201);
}

#[actix_web::test]
async fn a_list_comes_in_pages_and_every_item_once() {
    let server = TestServer::start().await;
    let mut created = Vec::new();
    for _ in 0..5 {
        created.push(server.subscribe(json!({})).await);
    }
    created.sort();
    let (mut seen, mut path) = (Vec::new(), "/v1/subscriptions?limit=2".to_owned());
    loop {
        let page = server.get(&path).await.expect(200).json();
        let items = page["items"].as_array().expect("items").clone();
        assert!(items.len() <= 2);
        seen.extend(items.iter().map(|item| item["subscription_id"].as_str().expect("an id").to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/subscriptions?after={next}&limit=2"),
            None => break,
        }
    }
    assert_eq!(seen, created);
}

#[actix_web::test]
async fn query_parameters_are_known_single_and_in_range() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    for (query, pointer) in [
        ("limit=0", "/limit"),
        ("limit=1001", "/limit"),
        ("limit=", "/limit"),
        ("limit=1&limit=1", "/limit"),
        ("after=xyz", "/after"),
        ("Limit=1", "/Limit"),
    ] {
        let answer = server.get(&format!("/v1/subscriptions?{query}")).await.expect_problem(422, "INVALID");
        assert_eq!(answer.pointers(), [pointer], "{query}");
    }
    let deliveries = format!("/v1/subscriptions/{id}/deliveries");
    server.get(&format!("{deliveries}?state=ready,expired&limit=1000")).await.expect(200);
    let bad = server.get(&format!("{deliveries}?state=ready,done")).await.expect_problem(422, "INVALID");
    assert_eq!(bad.pointers(), ["/state"]);
    server.get(&format!("/v1/subscriptions/{id}?x=1")).await.expect_problem(422, "INVALID");
}

#[actix_web::test]
async fn pause_and_resume_are_idempotent_and_take_no_body() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    for (action, enabled) in [("pause", false), ("pause", false), ("resume", true), ("resume", true)] {
        let path = format!("/v1/subscriptions/{id}/{action}");
        assert_eq!(server.call(Method::POST, &path, None).await.expect(200).json()["enabled"], enabled);
    }
    server.post(&format!("/v1/subscriptions/{id}/pause"), json!({})).await.expect_problem(400, "MALFORMED");
    assert_eq!(server.figure(&id, "enabled").await, true);
}

#[actix_web::test]
async fn seek_moves_the_cursor_and_drops_open_deliveries() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({"start": "earliest"})).await;
    let first = server.report(1, "started").await;
    server.report(2, "started").await;
    let mut client = Client::consume(&server, &id, 1).await;
    let old = client.delivery().await;
    let seek = format!("/v1/subscriptions/{id}/seek");
    server.post(&seek, json!({"to": {"sequence": first["sequence"]}})).await.expect(200);
    let again = client.delivery().await;
    assert_eq!(again["event"]["event_id"], old["event"]["event_id"]);
    assert_ne!(again["delivery"]["delivery_id"], old["delivery"]["delivery_id"]);
    assert_eq!(client.ack(&old).await["code"], "PROOF_LOST");
    let answer = server.post(&seek, json!({"to": "tomorrow"})).await.expect_problem(422, "INVALID");
    assert_eq!(answer.pointers(), ["/to"]);
}

#[actix_web::test]
async fn a_deleted_subscription_is_gone() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let path = format!("/v1/subscriptions/{id}");
    let deleted = server.call(Method::DELETE, &path, None).await.expect(204);
    assert_eq!(deleted.text, "");
    server.call(Method::DELETE, &path, None).await.expect_problem(404, "NOT_FOUND");
    server.get(&path).await.expect_problem(404, "NOT_FOUND");
}

#[actix_web::test]
async fn open_deliveries_are_listed_by_state_and_never_with_a_secret() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({"start": "earliest"})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.report(1, "started").await;
    let delivery = client.delivery().await;
    let list = format!("/v1/subscriptions/{id}/deliveries?state=leased");
    let answer = server.get(&list).await.expect(200);
    let page = answer.json();
    let item = &page["items"][0];
    assert_eq!(item["delivery_id"], delivery["delivery"]["delivery_id"]);
    assert_eq!((&item["state"], &item["generation"]), (&json!("leased"), &json!("1")));
    assert!(!answer.text.contains("secret"), "{answer:?}");
    assert_eq!((&item["type"], &item["task_version"]), (&json!("task.started"), &json!("1")));
    assert_eq!(item["task_id"], delivery["event"]["task_id"]);
    let expired = server.get(&format!("/v1/subscriptions/{id}/deliveries?state=expired")).await.json();
    assert_eq!((&expired["items"], &expired["next"]), (&json!([]), &Value::Null));
    let budget = format!("/v1/subscriptions/{id}/deliveries/{}/budget", item["delivery_id"].as_str().expect("an id"));
    server.post(&budget, json!({"add": 1})).await.expect_problem(409, "NOT_EXPIRED");
    server.post(&budget, json!({"add": 1_001})).await.expect_problem(422, "INVALID");
    let unknown = format!("/v1/subscriptions/{id}/deliveries/{}/budget", "f".repeat(32));
    server.post(&unknown, json!({"add": 1})).await.expect_problem(404, "NOT_FOUND");

    client.ack(&delivery).await;
    let open = server.get(&format!("/v1/subscriptions/{id}/deliveries")).await.json();
    assert_eq!(open["items"], json!([]), "an acknowledged one is no open one");
    let answer = server.get(&format!("/v1/subscriptions/{id}/deliveries?state=acknowledged")).await.expect(200);
    assert_eq!((&answer.json()["items"][0]["state"], answer.text.contains("secret")), (&json!("acknowledged"), false));
}
