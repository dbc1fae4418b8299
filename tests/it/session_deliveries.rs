//! Deliveries, leases, acknowledgements.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::http_harness::{TestServer, eventually};
use crate::session_client::Client;

fn task(delivery: &Value) -> u128 {
    u128::from_str_radix(delivery["event"]["task_id"].as_str().expect("a task"), 16).expect("an id")
}

#[actix_web::test]
async fn a_delivery_is_the_event_as_it_was_written() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 4).await;
    let path = format!("/v1/queues/reports/tasks/{:032x}/events", 1);
    let report =
        json!({"operation": "op", "status": "failed", "payload": {"a": [1]}, "error": {"code": "E", "message": "m"}});
    let written = server.post(&path, report).await.expect(201).json();
    let delivery = client.delivery().await;
    assert_eq!(delivery["event"], written);
    let leased = &delivery["delivery"];
    assert_eq!((&leased["subscription_id"], &leased["event_id"]), (&json!(id), &written["event_id"]));
    assert_eq!(leased["generation"], "1");
    assert!(leased["lease_ms"].as_u64().is_some_and(|left| (1..=30_000).contains(&left)), "{leased}");
    assert_eq!(leased["secret"].as_str().map(str::len), Some(43));
}

#[actix_web::test]
async fn an_ack_confirms_once_and_its_replay_says_so() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 4).await;
    server.report(1, "succeeded").await;
    let delivery = client.delivery().await;
    let acked = client.ack(&delivery).await;
    assert_eq!((&acked["type"], &acked["replayed"]), (&json!("acked"), &json!(false)));
    for name in ["delivery_id", "generation"] {
        assert_eq!(acked[name], delivery["delivery"][name], "{name}");
    }
    assert_eq!(acked["event_id"], delivery["event"]["event_id"]);
    assert_eq!(server.figure(&id, "acknowledged").await, 1);
    assert_eq!(client.ack(&delivery).await["replayed"], true);
    let mut later = Client::consume(&server, &id, 4).await;
    assert_eq!(later.ack(&delivery).await["replayed"], true);
    assert_eq!(server.figure(&id, "acknowledged").await, 1);
    assert!(server.metric("perilune_acks_total{outcome=\"replayed\"}").await >= 2.0);
}

#[actix_web::test]
async fn a_proof_outlives_its_connection() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut first = Client::consume(&server, &id, 4).await;
    server.report(1, "succeeded").await;
    let delivery = first.delivery().await;
    drop(first);
    let mut second = Client::consume(&server, &id, 4).await;
    assert_eq!(second.ack(&delivery).await["type"], "acked");
}

#[actix_web::test]
async fn a_wrong_secret_is_invalid_counted_and_leaves_the_connection() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 4).await;
    server.report(1, "succeeded").await;
    let delivery = client.delivery().await;
    let mut wrong = client.ack_frame(&delivery);
    wrong["secret"] = json!("A".repeat(43));
    let answer = client.ask(&wrong).await;
    assert_eq!((&answer["code"], &answer["reply_to"]), (&json!("PROOF_INVALID"), &wrong["message_id"]));
    let mut never = client.ack_frame(&delivery);
    never["generation"] = json!("2");
    assert_eq!(client.ask(&never).await["code"], "PROOF_INVALID");
    assert!((server.metric("perilune_proof_invalid_total").await - 2.0).abs() < f64::EPSILON);
    assert_eq!(client.ack(&delivery).await["type"], "acked");
}

#[actix_web::test]
async fn a_lapsed_delivery_comes_again_with_a_new_generation_and_the_old_proof_is_lost() {
    let server = TestServer::start_with(|config| config.lease_ms(1_000)).await;
    let id = server.subscribe(json!({"backoff": {"min_ms": 1, "max_ms": 1}})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.report(1, "succeeded").await;
    let first = client.delivery().await;
    assert!(first["delivery"]["lease_ms"].as_u64().is_some_and(|left| left <= 1_000), "{first}");
    let second = client.delivery().await;
    assert_eq!(second["delivery"]["delivery_id"], first["delivery"]["delivery_id"]);
    assert_eq!(second["delivery"]["generation"], "2");
    assert_ne!(second["delivery"]["secret"], first["delivery"]["secret"]);
    let lost = client.ack(&first).await;
    assert_eq!(lost["code"], "PROOF_LOST");
    client.settle(second).await;
}

#[actix_web::test]
async fn a_spent_budget_is_expired_and_blocks_a_full_window_until_an_operator_adds_some() {
    let server = TestServer::start_with(|config| config.lease_ms(1_000)).await;
    let settings = json!({"budget": 1, "window": 1, "backoff": {"min_ms": 1, "max_ms": 1}});
    let id = server.subscribe(settings).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.report(1, "succeeded").await;
    let first = client.delivery().await;
    server.report(2, "succeeded").await;
    // The sweeper ends the lease, with nobody asking for it.
    eventually(async || server.figure(&id, "expired").await != 0).await;
    assert_eq!(server.figure(&id, "blocked").await, true);
    eventually(async || server.metric("perilune_subscription_blocked").await >= 1.0).await;
    let delivery_id = first["delivery"]["delivery_id"].as_str().expect("an id");
    let budget = format!("/v1/subscriptions/{id}/deliveries/{delivery_id}/budget");
    let readied = server.post(&budget, json!({"add": 100})).await.expect(200).json();
    assert_eq!(readied["budget"], 101);
    let again = client.delivery().await;
    assert_eq!(again["delivery"]["generation"], "2");
    client.settle(again).await;
    assert_eq!(task(&client.delivery().await), 2);
    assert_eq!(server.figure(&id, "blocked").await, false);
}

#[actix_web::test]
async fn an_expired_delivery_is_still_confirmed_by_its_last_proof() {
    let server = TestServer::start_with(|config| config.lease_ms(1_000)).await;
    let id = server.subscribe(json!({"budget": 1})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.report(1, "succeeded").await;
    let delivery = client.delivery().await;
    eventually(async || server.figure(&id, "expired").await != 0).await;
    assert_eq!(client.ack(&delivery).await["type"], "acked");
    assert_eq!(server.figure(&id, "expired").await, 0);
}

#[actix_web::test]
async fn budget_for_all_readies_every_expired_delivery() {
    let server = TestServer::start_with(|config| config.lease_ms(1_000)).await;
    let id = server.subscribe(json!({"budget": 1})).await;
    let mut client = Client::consume(&server, &id, 3).await;
    for task in 1..=3 {
        server.report(task, "succeeded").await;
        client.delivery().await;
    }
    eventually(async || server.figure(&id, "expired").await == 3).await;
    let answer = server.post(&format!("/v1/subscriptions/{id}/deliveries:budget"), json!({"add": 1})).await.expect(200);
    assert_eq!(answer.json()["subscription_id"], id);
    let mut tasks = BTreeSet::new();
    for _ in 0..3 {
        tasks.insert(task(&client.delivery().await));
    }
    assert_eq!(tasks, BTreeSet::from([1, 2, 3]));
}

#[actix_web::test]
async fn no_session_has_more_outstanding_than_its_capacity() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 2).await;
    for task in 1..=3 {
        server.report(task, "succeeded").await;
    }
    let first = client.delivery().await;
    client.delivery().await;
    let mut other = Client::consume(&server, &id, 1).await;
    // The third went past the full session.
    assert_eq!(task(&other.delivery().await), 3);
    server.report(4, "succeeded").await;
    assert_eq!(client.ack(&first).await["type"], "acked");
    assert_eq!(task(&client.delivery().await), 4);
}

#[actix_web::test]
async fn two_sessions_share_evenly_and_ties_go_to_the_older() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut older = Client::consume(&server, &id, 4).await;
    let mut younger = Client::consume(&server, &id, 4).await;
    for (number, holder) in [(1, "older"), (2, "younger"), (3, "older"), (4, "younger")] {
        server.report(number, "succeeded").await;
        let client = if holder == "older" { &mut older } else { &mut younger };
        assert_eq!(task(&client.delivery().await), number, "{holder}");
    }
}

#[actix_web::test]
async fn a_paused_subscription_delivers_nothing_answers_pings_and_still_confirms() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let probe = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 4).await;
    let mut other = Client::consume(&server, &probe, 4).await;
    server.report(1, "succeeded").await;
    let delivery = client.delivery().await;
    server.call(awc::http::Method::POST, &format!("/v1/subscriptions/{id}/pause"), None).await.expect(200);
    assert_eq!(client.ping().await["enabled"], false);
    server.report(2, "succeeded").await;
    // Once the other subscription has it, this one would have it, too.
    other.delivery().await;
    other.delivery().await;
    assert_eq!(client.ack(&delivery).await["type"], "acked");
    let mut late = Client::dial(&server, &server.credential).await.expect("a websocket");
    assert_eq!(late.register(&id, 1).await["subscription"]["enabled"], false);
    server.call(awc::http::Method::POST, &format!("/v1/subscriptions/{id}/resume"), None).await.expect(200);
    assert_eq!(task(&client.delivery().await), 2);
    assert_eq!(client.ping().await["enabled"], true);
}

#[actix_web::test]
async fn filters_pass_over_what_they_do_not_want() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({"statuses": ["succeeded"]})).await;
    let mut client = Client::consume(&server, &id, 4).await;
    server.report(1, "started").await;
    server.report(2, "succeeded").await;
    assert_eq!(task(&client.delivery().await), 2);
}

#[actix_web::test]
async fn many_acks_in_flight_are_each_answered() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 32).await;
    let mut deliveries = Vec::new();
    for task in 1..=32 {
        server.report(task, "succeeded").await;
        deliveries.push(client.delivery().await);
    }
    let mut waiting = BTreeSet::new();
    for delivery in &deliveries {
        let ack = client.ack_frame(delivery);
        waiting.insert(ack["message_id"].as_str().expect("an id").to_owned());
        client.send(&ack).await;
    }
    while !waiting.is_empty() {
        let acked = client.frame().await;
        assert_eq!(acked["type"], "acked");
        assert!(waiting.remove(acked["reply_to"].as_str().expect("an id")), "{acked}");
    }
    assert_eq!(server.figure(&id, "acknowledged").await, 32);
}
