//! How sessions end.

use std::time::{Duration, Instant};

use futures_util::SinkExt as _;
use perilune::server::Stopped;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::held_store::HeldStore;
use crate::http_harness::{PATIENCE, TestServer, eventually};
use crate::session_client::{Client, End, closed_with};

#[actix_web::test]
async fn a_revoked_credential_learns_it_by_its_next_ping() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.store.revoke_credential("all".parse().expect("a name")).await.expect("revoked");
    let answer = client.ping().await;
    assert_eq!(answer["code"], "UNAUTHENTICATED");
    assert_eq!(client.end().await, End::Closed(1008, Vec::new()));
}

#[actix_web::test]
async fn a_revoked_credential_confirms_nothing() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.report(1, "succeeded").await;
    let delivery = client.delivery().await;
    server.store.revoke_credential("all".parse().expect("a name")).await.expect("revoked");
    let answer = client.ack(&delivery).await;
    assert_eq!(answer["code"], "UNAUTHENTICATED");
    assert_eq!(client.end().await, End::Closed(1008, Vec::new()));
}

#[actix_web::test]
async fn a_deleted_subscription_ends_its_sessions() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.call(awc::http::Method::DELETE, &format!("/v1/subscriptions/{id}"), None).await.expect(204);
    assert_eq!(client.end().await, closed_with(1008, "SUBSCRIPTION_NOT_FOUND"));
}

#[actix_web::test]
async fn three_missed_heartbeats_end_a_session_and_pings_keep_it() {
    let server = TestServer::start_with(|config| config.heartbeat_ms(1_000)).await;
    let id = server.subscribe(json!({})).await;
    let mut silent = Client::consume(&server, &id, 1).await;
    let mut alive = Client::consume(&server, &id, 1).await;
    let begun = Instant::now();
    let beating = async {
        // Until after the silent one is gone.
        while begun.elapsed() < Duration::from_millis(4_500) {
            assert_eq!(alive.ping().await["type"], "pong");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let (end, ()) = tokio::join!(silent.end(), beating);
    assert_eq!(end, End::Closed(1001, Vec::new()));
    assert!(begun.elapsed() >= Duration::from_millis(2_900), "{:?}", begun.elapsed());
    assert_eq!(alive.ping().await["type"], "pong");
}

#[actix_web::test]
async fn a_client_that_vanishes_leaves_no_session_behind() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let client = Client::consume(&server, &id, 1).await;
    assert_eq!(server.figure(&id, "sessions").await, 1);
    drop(client);
    eventually(async || server.figure(&id, "sessions").await == 0).await;
    eventually(async || server.metric("perilune_sessions").await <= 0.0).await;
}

#[actix_web::test]
async fn a_reader_that_takes_nothing_is_cut_off_and_its_events_go_to_another() {
    let server = TestServer::start_with(|config| config.lease_ms(1_000)).await;
    let id = server.subscribe(json!({"backoff": {"min_ms": 1, "max_ms": 1}})).await;
    let mut slow = Client::consume(&server, &id, 32).await;
    let payload = "x".repeat(500_000);
    for task in 1..=32_u128 {
        let path = format!("/v1/queues/reports/tasks/{task:032x}/events");
        server.post(&path, json!({"operation": "op", "status": "succeeded", "payload": payload})).await.expect(201);
    }
    let cut_off = "perilune_sessions_ended_total{cause=\"slow_reader\"}";
    eventually(async || server.metric(cut_off).await >= 1.0).await;
    assert_eq!(slow.end().await, End::Cut);
    let mut fast = Client::consume(&server, &id, 32).await;
    let mut acked = 0;
    while acked < 4 {
        let frame = fast.frame().await;
        match frame["type"].as_str() {
            Some("delivery") => {
                let ack = fast.ack_frame(&frame);
                fast.send(&ack).await;
            }
            Some("acked") => acked += 1,
            _ => panic!("unexpected {frame}"),
        }
    }
}

#[actix_web::test]
async fn a_stopping_server_tells_its_sessions_and_ends_at_once() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(Client::consume(&server, &id, 1).await);
    }
    let unregistered = Client::dial(&server, &server.credential).await.expect("a websocket");
    clients.push(unregistered);
    // An idle connection that never asked for anything.
    let mut idle = tokio::net::TcpStream::connect(server.running.addr()).await.expect("connected");
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    let begun = Instant::now();
    let ends = async {
        let mut ends = Vec::new();
        for client in &mut clients {
            ends.push(client.end().await);
        }
        ends
    };
    let (stopped, ends) = tokio::join!(server.running.stop(), ends);
    assert_eq!(stopped, Stopped::Cleanly);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for end in ends {
        assert_eq!(end, closed_with(1012, "UNAVAILABLE"));
    }
}

#[actix_web::test]
async fn a_session_whose_answer_is_its_end_ends_so_while_the_server_stops() {
    let (server, held) = HeldStore::serve(|config| config).await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    let mut other = Client::consume(&server, &id, 1).await;
    server.store.revoke_credential("all".parse().expect("a name")).await.expect("revoked");
    held.hold();
    let ping = client.ping_frame();
    client.send(&ping).await;
    held.holds(1).await;
    let ended = async {
        // By then every session has heard of the stop.
        assert_eq!(other.end().await, closed_with(1012, "UNAVAILABLE"));
        held.release();
        client.end().await
    };
    let (stopped, end) = tokio::join!(server.running.stop(), ended);
    assert_eq!(end, closed_with(1008, "UNAUTHENTICATED"));
    assert_eq!(stopped, Stopped::Cleanly);
}

#[actix_web::test]
async fn a_client_that_asks_and_reads_nothing_is_cut_off() {
    let server = TestServer::start().await;
    let mut client = Client::dial(&server, &server.credential).await.expect("a websocket");
    let flood = async {
        // 125 bytes come back for each; the server stops taking them when it gives the client up.
        while client.socket.feed(Message::Ping(vec![0; 125].into())).await.is_ok() {}
    };
    timeout(PATIENCE, flood).await.expect("the server gives up");
    let cut_off = "perilune_sessions_ended_total{cause=\"slow_reader\"}";
    eventually(async || server.metric(cut_off).await >= 1.0).await;
}

#[actix_web::test]
async fn a_store_that_is_gone_ends_a_session_that_asks() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 1).await;
    server.store.close().await.expect("closed");
    let answer = client.ping().await;
    assert_eq!(answer["code"], "UNAVAILABLE");
    assert!(answer["retry_after_ms"].is_u64(), "{answer}");
    assert_eq!(client.end().await, End::Closed(1013, Vec::new()));
}
