//! Reporting one result.

use awc::http::Method;
use serde_json::{Value, json};

use crate::http_harness::{Answer, Request, TestServer};

const TASK: &str = "0123456789abcdef0123456789abcdef";
const PATH: &str = "/v1/queues/reports/tasks/0123456789abcdef0123456789abcdef/events";

async fn raw(server: &TestServer, body: impl Into<Vec<u8>>) -> Answer {
    keyed(server, PATH, body, None).await
}

async fn keyed(server: &TestServer, path: &str, body: impl Into<Vec<u8>>, key: Option<&str>) -> Answer {
    let request = Request::new(Method::POST, &server.url(path)).bearer(&server.credential);
    let request = request.header("content-type", "application/json").body(body);
    match key {
        Some(key) => request.header("idempotency-key", key).send().await,
        None => request.send().await,
    }
}

#[actix_web::test]
async fn a_report_answers_with_the_written_event() {
    let server = TestServer::start().await;
    let answer = server.post(PATH, json!({"operation": "GenerateReport", "status": "started"})).await.expect(201);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let event = answer.json();
    assert_eq!(event["type"], "task.started");
    assert_eq!((&event["queue"], &event["task_id"]), (&json!("reports"), &json!(TASK)));
    assert_eq!(event["task_version"], "1");
    assert!(event["sequence"].as_str().is_some_and(|sequence| sequence.parse::<u64>().is_ok()));
    let snapshot = &event["snapshot"];
    for absent in ["payload", "result", "error"] {
        assert_eq!(snapshot[absent], Value::Null, "{absent}");
    }
    assert_eq!((&snapshot["status"], &snapshot["operation"]), (&json!("started"), &json!("GenerateReport")));
    assert_eq!(server.get(&format!("/v1/tasks/{TASK}")).await.expect(200).json(), *snapshot);
}

#[actix_web::test]
async fn opaque_json_comes_back_byte_for_byte() {
    let server = TestServer::start().await;
    let payload = r#"{ "n":9007199254740993 ,"big":1e400,"z":-0,"s":"\u0061\ud800", "deep":[[1.10]] }"#;
    let body = format!(r#"{{"operation":"op","status":"succeeded","payload":{payload},"result": [ 1E5 ]}}"#);
    let answer = raw(&server, body).await.expect(201);
    assert!(answer.text.contains(&format!(r#""payload":{payload},"result":[ 1E5 ]"#)), "{answer:?}");
    let task = server.get(&format!("/v1/tasks/{TASK}")).await.expect(200);
    assert!(task.text.contains(payload), "{task:?}");
}

#[actix_web::test]
async fn a_task_s_version_grows_by_one_and_a_terminal_status_is_final() {
    let server = TestServer::start().await;
    for (status, version) in
        [("accepted", "1"), ("started", "2"), ("retry_scheduled", "3"), ("needs_review", "4"), ("failed", "5")]
    {
        let event = server.report(1, status).await;
        assert_eq!(event["task_version"], version, "{status}");
    }
    let path = format!("/v1/queues/reports/tasks/{:032x}/events", 1);
    server.post(&path, json!({"operation": "op", "status": "started"})).await.expect_problem(409, "TASK_FINAL");
}

#[actix_web::test]
async fn a_task_belongs_to_its_first_queue() {
    let server = TestServer::start().await;
    server.report(1, "started").await;
    let path = format!("/v1/queues/mail/tasks/{:032x}/events", 1);
    server.post(&path, json!({"operation": "op", "status": "started"})).await.expect_problem(409, "TASK_QUEUE");
}

#[actix_web::test]
async fn the_same_key_and_body_write_once() {
    let server = TestServer::start().await;
    let body = r#"{"operation":"op","status":"started"}"#;
    let first = keyed(&server, PATH, body, Some("key 1")).await.expect(201);
    let again = keyed(&server, PATH, body, Some("key 1")).await.expect(200);
    assert_eq!(first.text, again.text);
    let other_bytes = r#"{"operation":"op", "status":"started"}"#;
    keyed(&server, PATH, other_bytes, Some("key 1")).await.expect_problem(422, "IDEMPOTENCY_MISMATCH");
    let other_task = format!("/v1/queues/reports/tasks/{:032x}/events", 2);
    keyed(&server, &other_task, body, Some("key 1")).await.expect(201);
}

#[actix_web::test]
async fn a_key_has_1_to_255_printable_ascii_characters() {
    let server = TestServer::start().await;
    let body = r#"{"operation":"op","status":"started"}"#;
    keyed(&server, PATH, body, Some(&"k".repeat(255))).await.expect(201);
    for bad in ["", &"k".repeat(256), "k\u{e9}"] {
        let answer = keyed(&server, PATH, body, Some(bad)).await.expect_problem(422, "INVALID");
        assert_eq!(answer.pointers(), ["/idempotency-key"], "{bad:?}");
    }
    let twice = Request::new(Method::POST, &server.url(PATH)).bearer(&server.credential).header("idempotency-key", "a");
    let twice = twice.header("idempotency-key", "b").json(Some(json!({"operation": "op", "status": "started"})));
    assert_eq!(twice.send().await.expect_problem(422, "INVALID").pointers(), ["/idempotency-key"]);
}

#[actix_web::test]
async fn every_bad_field_is_named_at_once() {
    let server = TestServer::start().await;
    let path = "/v1/queues/reports/tasks/NO-ID/events";
    let body = json!({"operation": "a b", "status": "done", "error": {"code": 7}});
    let answer = server.post(path, body).await.expect_problem(422, "INVALID");
    assert_eq!(answer.pointers(), ["/task_id", "/operation", "/status", "/error/code", "/error/message"]);
    let missing = server.post(PATH, json!({})).await.expect_problem(422, "INVALID");
    assert_eq!(missing.pointers(), ["/operation", "/status"]);
    let twin = server.post(PATH, json!({"operation": "op", "status": "started", "Payload": 1})).await;
    assert_eq!(twin.expect_problem(422, "INVALID").pointers(), ["/payload"]);
}

#[actix_web::test]
async fn what_is_not_one_strict_object_is_malformed() {
    let server = TestServer::start().await;
    for bad in [
        "",
        "[]",
        "null",
        "{",
        r#"{"operation":"op","status":"started"} x"#,
        r#"{"operation":"op","status":"started","\u0073tatus":"started"}"#,
        r#"{"operation":"op","status":"started","payload":{"a":1,"a":2}}"#,
        r#"{"operation":"op","status":"started","payload":01}"#,
        "\u{feff}{}",
    ] {
        raw(&server, bad).await.expect_problem(400, "MALFORMED");
    }
    raw(&server, *b"{\"operation\":\"\xff\"}").await.expect_problem(400, "MALFORMED");
    server.get(&format!("/v1/tasks/{TASK}")).await.expect_problem(404, "NOT_FOUND");
}

#[actix_web::test]
async fn what_is_nested_deeper_than_a_delivery_can_carry_is_refused() {
    let server = TestServer::start().await;
    let nested = |depth: usize| {
        let payload = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"operation":"op","status":"started","payload":{payload}}}"#)
    };
    raw(&server, nested(61)).await.expect(201);
    for deep in [62, 64, 100] {
        let answer = raw(&server, nested(deep)).await.expect_problem(422, "INVALID");
        assert_eq!(answer.pointers(), ["/payload"], "{deep}");
    }
}

#[actix_web::test]
async fn the_opaque_parts_have_520_000_bytes_together() {
    let server = TestServer::start().await;
    let of = |bytes: usize| {
        // Four quotes around the two strings.
        let (payload, result) = ("p".repeat(bytes / 2 - 2), "r".repeat(bytes - bytes / 2 - 2));
        format!(r#"{{"operation":"op","status":"started","payload":"{payload}","result":"{result}"}}"#)
    };
    raw(&server, of(520_000)).await.expect(201);
    raw(&server, of(520_001)).await.expect_problem(413, "TOO_LARGE");
    raw(&server, " ".repeat(600_000)).await.expect_problem(413, "TOO_LARGE");
}

#[actix_web::test]
async fn only_json_is_taken() {
    let server = TestServer::start().await;
    let with = |kind: &str| {
        let request = Request::new(Method::POST, &server.url(PATH)).bearer(&server.credential);
        request.header("content-type", kind).body(r#"{"operation":"op","status":"started"}"#)
    };
    with("application/json; charset=utf-8").send().await.expect(201);
    with("APPLICATION/JSON").send().await.expect(201);
    for bad in ["text/plain", "application/x-ndjson", "application/jsonp", ""] {
        with(bad).send().await.expect_problem(415, "UNSUPPORTED_MEDIA_TYPE");
    }
    with("application/json")
        .header("content-encoding", "gzip")
        .send()
        .await
        .expect_problem(415, "UNSUPPORTED_MEDIA_TYPE");
}
