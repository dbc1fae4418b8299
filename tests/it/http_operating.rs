//! Operating a server: health, metrics, limits, starting and stopping.

use std::sync::Arc;
use std::time::{Duration, Instant};

use awc::http::Method;
use perilune::server::store::{HostClock, MemoryStore};
use perilune::server::{Limits, Server, ServerConfig, StartError, Stopped};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::held_store::HeldStore;
use crate::http_harness::{PATIENCE, Request, TestServer, eventually};
use crate::session_client::Client;

async fn open(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.running.addr()).await.expect("connected")
}

/// Everything that the server sends until it closes.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is an end, too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut text)).await.expect("an end in time");
    String::from_utf8(text).expect("utf-8")
}

#[actix_web::test]
async fn a_port_in_use_is_said_clearly() {
    let server = TestServer::start().await;
    let address = server.running.addr();
    let config = ServerConfig::builder().listen(address).build().expect("valid");
    let store = Arc::new(MemoryStore::new(Arc::new(HostClock::new())));
    let error = Server::start(config, store).await.expect_err("the port is in use");
    assert!(matches!(error, StartError::InUse { .. }));
    assert_eq!(error.to_string(), format!("{address} is in use by another process"));
}

#[actix_web::test]
async fn a_server_whose_store_is_closed_is_alive_and_not_ready() {
    let server = TestServer::start().await;
    server.get("/readyz").await.expect(200);
    server.store.close().await.expect("closed");
    server.get("/healthz").await.expect(200);
    let answer = server.get("/readyz").await.expect_problem(503, "UNAVAILABLE");
    assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()), "{answer:?}");
    let refused = server.get("/v1/subscriptions").await.expect_problem(503, "UNAVAILABLE");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
}

#[actix_web::test]
async fn metrics_count_what_happened() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut client = Client::consume(&server, &id, 4).await;
    server.report(1, "succeeded").await;
    let delivery = client.delivery().await;
    client.ack(&delivery).await;
    for (metric, expected) in [
        ("perilune_sessions", 1.0),
        ("perilune_sessions_opened_total", 1.0),
        ("perilune_reports_total{outcome=\"written\"}", 1.0),
        ("perilune_deliveries_total{lease=\"first\"}", 1.0),
        ("perilune_acks_total{outcome=\"acked\"}", 1.0),
        ("perilune_subscriptions", 1.0),
        ("perilune_log_events", 1.0),
        ("perilune_proof_invalid_total", 0.0),
        ("perilune_subscription_blocked", 0.0),
    ] {
        let found = server.metric(metric).await;
        assert!((found - expected).abs() < f64::EPSILON, "{metric} is {found}");
    }
    let text = server.get("/metrics").await.text;
    let route = "route=\"/v1/queues/{queue}/tasks/{task_id}/events\"";
    assert!(
        text.lines().any(|line| line.starts_with("perilune_http_requests_total") && line.contains(route)),
        "{text}"
    );
    assert!(!text.contains(&id), "an id is no label");
}

#[actix_web::test]
async fn metrics_move_to_a_listener_of_their_own() {
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = TestServer::start_with(|config| config.metrics_listen(any)).await;
    server.get("/metrics").await.expect_problem(404, "NOT_FOUND");
    assert!(server.get("/openapi.json").await.json()["paths"].get("/metrics").is_none());
    let address = server.running.metrics_addr().expect("a listener");
    let get = |path: &str| Request::new(Method::GET, &format!("http://{address}{path}")).send();
    assert!(get("/metrics").await.expect(200).text.contains("perilune_sessions 0"));
    get("/healthz").await.expect(200);
    get("/v1/subscriptions").await.expect_problem(404, "NOT_FOUND");
}

#[actix_web::test]
async fn more_requests_than_the_limit_are_told_to_come_again() {
    let limits = Limits { requests_per_credential: 1, ..Limits::default() };
    let server = TestServer::start_with(|config| config.limits(limits)).await;
    // A request whose body does not come keeps its place.
    let mut slow = open(&server).await;
    let head = format!(
        "POST /v1/subscriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 10\r\n\r\n",
        server.credential
    );
    slow.write_all(head.as_bytes()).await.expect("sent");
    eventually(async || server.metric("perilune_requests").await >= 1.0).await;
    let answer = server.get("/v1/subscriptions").await.expect_problem(429, "RATE_LIMITED");
    assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()), "{answer:?}");
    drop(slow);
    eventually(async || server.get("/v1/subscriptions").await.status == 200).await;
}

#[actix_web::test]
async fn a_report_that_waits_for_the_store_keeps_its_place_among_the_requests() {
    let limits = Limits { requests_per_credential: 1, ..Limits::default() };
    let (server, held) = HeldStore::serve(|config| config.limits(limits)).await;
    held.hold();
    let reported = server.report(1, "succeeded");
    let meanwhile = async {
        held.holds(1).await;
        let answer = server.get("/v1/subscriptions").await;
        held.release();
        answer
    };
    let (_, refused) = tokio::join!(reported, meanwhile);
    refused.expect_problem(429, "RATE_LIMITED");
}

#[actix_web::test]
async fn a_running_request_finishes_while_the_server_stops_and_idle_connections_close() {
    let server = TestServer::start().await;
    let mut idle = open(&server).await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    let mut running = open(&server).await;
    let body = r#"{"name":"late","queues":["reports"],"start":"latest"}"#;
    let head = format!(
        "POST /v1/subscriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        server.credential,
        body.len()
    );
    running.write_all(head.as_bytes()).await.expect("sent");
    running.write_all(&body.as_bytes()[..10]).await.expect("sent");
    eventually(async || server.metric("perilune_requests").await >= 1.0).await;
    let begun = Instant::now();
    let finish = async {
        // The idle one ends before the running one has what it needs.
        let idle = rest(idle).await;
        running.write_all(&body.as_bytes()[10..]).await.expect("sent");
        (idle, rest(running).await)
    };
    let (stopped, (idle, running)) = tokio::join!(server.running.stop(), finish);
    assert_eq!(stopped, Stopped::Cleanly);
    assert!(idle.starts_with("HTTP/1.1 200"), "{idle}");
    assert!(running.starts_with("HTTP/1.1 201"), "{running}");
    assert!(running.to_ascii_lowercase().contains("connection: close"), "{running}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[actix_web::test]
async fn a_request_that_waits_for_the_store_is_told_of_the_stop_before_its_connection_ends() {
    let (server, held) = HeldStore::serve(|config| config.shutdown_timeout(Duration::from_secs(2))).await;
    held.hold();
    let url = server.url(&format!("/v1/queues/reports/tasks/{:032x}/events", 1));
    let report = Request::new(Method::POST, &url).bearer(&server.credential);
    let reported = report.json(Some(json!({"operation": "op", "status": "succeeded"}))).send();
    let stop = async {
        held.holds(1).await;
        server.running.stop().await
    };
    let (answer, stopped) = tokio::join!(reported, stop);
    let answer = answer.expect_problem(503, "UNAVAILABLE");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert_ne!(stopped, Stopped::Failed);
}

#[actix_web::test]
async fn a_request_that_does_not_finish_is_told_so_and_cut_off_at_the_deadline() {
    let server = TestServer::start_with(|config| config.shutdown_timeout(Duration::from_millis(300))).await;
    let mut stuck = open(&server).await;
    let head = format!(
        "POST /v1/subscriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 10\r\n\r\n",
        server.credential
    );
    stuck.write_all(head.as_bytes()).await.expect("sent");
    eventually(async || server.metric("perilune_requests").await >= 1.0).await;
    let begun = Instant::now();
    assert_ne!(server.running.stop().await, Stopped::Failed);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let answer = rest(stuck).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[actix_web::test]
async fn a_stopped_server_frees_its_port() {
    let server = TestServer::start().await;
    let address = server.running.addr();
    let client = Client::dial(&server, &server.credential).await.expect("a websocket");
    drop(client);
    server.running.stop().await;
    let config = ServerConfig::builder().listen(address).build().expect("valid");
    let again = Server::start(config, server.store).await.expect("the port is free");
    again.stop().await;
}

#[actix_web::test]
async fn a_server_that_is_dropped_stops() {
    let server = TestServer::start().await;
    let mut client = Client::dial(&server, &server.credential).await.expect("a websocket");
    drop(server.running);
    assert_eq!(client.end().await, crate::session_client::closed_with(1012, "UNAVAILABLE"));
}
