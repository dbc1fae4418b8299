//! From the dial to `welcome`.

use perilune::server::Limits;
use perilune::server::store::{PastCursors, Retention, Scope};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error;

use crate::http_harness::{PATIENCE, TestServer, eventually};
use crate::session_client::{Client, End, closed_with};

/// The status and the problem's code of a refused dial.
async fn refusal(dialled: Result<Client, Error>) -> (u16, String) {
    match dialled.map(|_| ()) {
        Err(Error::Http(response)) => {
            let kind = response.headers().get("content-type").expect("a type");
            assert_eq!(kind, "application/problem+json");
            let problem: Value = serde_json::from_slice(response.body().as_deref().expect("a body")).expect("json");
            (response.status().as_u16(), problem["code"].as_str().expect("a code").to_owned())
        }
        other => panic!("no refusal but {other:?}"),
    }
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[actix_web::test]
async fn welcome_states_the_session_s_terms() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({"name": "rechnungen \"é\""})).await;
    let mut client = Client::dial(&server, &server.credential).await.expect("a websocket");
    let welcome = client.register(&id, 7).await;
    assert_eq!(welcome["type"], "welcome");
    assert_eq!(welcome["reply_to"], format!("{:032x}", 1));
    assert_eq!(welcome["subscription"], json!({"subscription_id": id, "name": "rechnungen \"é\"", "enabled": true}));
    assert_eq!((&welcome["capacity"], &welcome["lease_ms"]), (&json!(7), &json!(30_000)));
    assert_eq!(welcome["heartbeat_interval_ms"], 15_000);
    assert_eq!(server.figure(&id, "sessions").await, 1);
}

#[actix_web::test]
async fn the_credential_is_judged_before_the_101() {
    let server = TestServer::start().await;
    let manage = server.credential("manager", &["reports"], &[Scope::Manage]).await;
    assert_eq!(refusal(Client::dial(&server, "prl_nobody").await).await, refused(401, "UNAUTHENTICATED"));
    assert_eq!(refusal(Client::dial(&server, &manage).await).await, refused(403, "PERMISSION_DENIED"));
}

#[actix_web::test]
async fn the_subprotocol_is_picked_out_of_a_longer_list_and_must_be_there() {
    let server = TestServer::start().await;
    let dial = |offers| Client::dial_offering(&server, &server.credential, offers);
    assert!(dial(Some("mqtt, orbit.events.v1,orbit.events.v2")).await.is_ok());
    assert_eq!(refusal(dial(None).await).await, refused(400, "PROTOCOL_ERROR"));
    assert_eq!(refusal(dial(Some("orbit.events.v2")).await).await, refused(400, "PROTOCOL_ERROR"));
    assert_eq!(refusal(dial(Some("ORBIT.EVENTS.V1")).await).await, refused(400, "PROTOCOL_ERROR"));
}

#[actix_web::test]
async fn a_request_without_an_upgrade_is_told_what_to_upgrade_to() {
    let server = TestServer::start().await;
    // By hand, since HTTP clients take the answer's `Connection: upgrade` for a switch of protocols.
    let mut stream = tokio::net::TcpStream::connect(server.running.addr()).await.expect("connected");
    let bearer = &server.credential;
    let request =
        format!("GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {bearer}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("in time").expect("text");
    assert!(answer.starts_with("HTTP/1.1 426 "), "{answer}");
    for header in
        ["upgrade: websocket\r\n", "sec-websocket-version: 13\r\n", "content-type: application/problem+json\r\n"]
    {
        assert!(answer.to_ascii_lowercase().contains(header), "{answer}");
    }
    assert!(answer.contains(r#""code":"UPGRADE_REQUIRED""#), "{answer}");
}

#[actix_web::test]
async fn a_subscription_of_another_credential_is_not_found() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let other = server.credential("other", &["reports"], &Scope::ALL).await;
    for (credential, subscription) in [(&other, &id), (&server.credential, &"f".repeat(32))] {
        let mut client = Client::dial(&server, credential).await.expect("a websocket");
        let error = client.register(subscription, 1).await;
        assert_eq!(error["code"], "SUBSCRIPTION_NOT_FOUND");
        assert_eq!(client.end().await, End::Closed(1008, Vec::new()));
    }
}

#[actix_web::test]
async fn a_history_gap_is_told_at_the_handshake_and_to_open_sessions_until_a_seek() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({"window": 1})).await;
    server.report(1, "succeeded").await;
    let mut held = Client::consume(&server, &id, 1).await;
    held.delivery().await;
    // The window is full, so these stay in the log, and the log forgets them.
    for task in 2..=4 {
        server.report(task, "succeeded").await;
    }
    let retention = Retention { max_age: None, max_events: Some(1), past_cursors: PastCursors::Forget };
    server.store.retain(retention).await.expect("retained");
    let mut client = Client::dial(&server, &server.credential).await.expect("a websocket");
    assert_eq!(client.register(&id, 1).await["code"], "HISTORY_GAP");
    assert_eq!(client.end().await, End::Closed(1008, Vec::new()));
    let ping = held.ping_frame();
    held.send(&ping).await;
    assert_eq!(held.end().await, closed_with(1008, "HISTORY_GAP"));
    server.post(&format!("/v1/subscriptions/{id}/seek"), json!({"to": "earliest"})).await.expect(200);
    let mut mended = Client::consume(&server, &id, 1).await;
    assert_eq!(mended.delivery().await["event"]["task_id"], format!("{:032x}", 4));
}

#[actix_web::test]
async fn sessions_are_limited_by_subscription_by_credential_and_in_all() {
    let limits = Limits { sessions_per_subscription: 1, sessions_per_credential: 2, sessions: 3, ..Limits::default() };
    let server = TestServer::start_with(|config| config.limits(limits)).await;
    let id = server.subscribe(json!({})).await;
    let first = Client::consume(&server, &id, 1).await;
    let mut second = Client::dial(&server, &server.credential).await.expect("a websocket");
    let error = second.register(&id, 1).await;
    assert_eq!(error["code"], "RATE_LIMITED");
    assert!(error["retry_after_ms"].as_u64().is_some_and(|wait| wait <= 3_600_000), "{error}");
    assert_eq!(second.end().await, End::Closed(1013, Vec::new()));
    drop(second);

    let _second = until_dialled(&server, &server.credential).await;
    let third = Client::dial(&server, &server.credential).await;
    assert_eq!(refusal(third).await, refused(429, "RATE_LIMITED"));
    let other = server.credential("other", &["reports"], &[Scope::Consume]).await;
    let _other = Client::dial(&server, &other).await.expect("a websocket");
    assert_eq!(refusal(Client::dial(&server, &other).await).await, refused(429, "RATE_LIMITED"));
    drop(first);
    until_dialled(&server, &other).await;
}

/// Dials until a place is free: the server hears of a lost client a moment later.
async fn until_dialled(server: &TestServer, credential: &str) -> Client {
    let mut dialled = None;
    eventually(async || {
        dialled = Client::dial(server, credential).await.ok();
        dialled.is_some()
    })
    .await;
    dialled.expect("dialled")
}

#[actix_web::test]
async fn a_session_that_never_registers_is_closed_after_8_s() {
    let server = TestServer::start().await;
    let mut client = Client::dial(&server, &server.credential).await.expect("a websocket");
    let begun = std::time::Instant::now();
    assert_eq!(client.end().await, closed_with(1002, "PROTOCOL_ERROR"));
    assert!(begun.elapsed().as_secs_f64() > 7.5, "{:?}", begun.elapsed());
}

#[actix_web::test]
async fn nothing_but_register_comes_first_and_it_comes_once() {
    let server = TestServer::start().await;
    let id = server.subscribe(json!({})).await;
    let mut early = Client::dial(&server, &server.credential).await.expect("a websocket");
    let ping = json!({"type": "ping", "session_id": "0".repeat(32), "message_id": "1".repeat(32)});
    early.send(&ping).await;
    assert_eq!(early.end().await, closed_with(1002, "PROTOCOL_ERROR"));
    let mut twice = Client::consume(&server, &id, 1).await;
    assert_eq!(twice.register(&id, 1).await["code"], "PROTOCOL_ERROR");
    assert_eq!(twice.end().await, End::Closed(1002, Vec::new()));
}
