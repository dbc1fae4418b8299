//! Reporting many results at once.

use awc::http::Method;
use perilune::server::Limits;
use serde_json::{Value, json};

use crate::http_harness::{Answer, Request, TestServer};

async fn batch(server: &TestServer, body: impl Into<Vec<u8>>) -> Answer {
    let request = Request::new(Method::POST, &server.url("/v1/events:batch")).bearer(&server.credential);
    request.header("content-type", "application/x-ndjson").body(body).send().await
}

fn line(task: u128, status: &str) -> Value {
    json!({"queue": "reports", "task_id": format!("{task:032x}"), "operation": "op", "status": status})
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn verdicts(answer: &Answer) -> Vec<Value> {
    answer.text.lines().map(|line| serde_json::from_str(line).expect("a verdict")).collect()
}

#[actix_web::test]
async fn each_line_has_its_verdict_in_order_and_a_bad_one_spoils_no_other() {
    let server = TestServer::start().await;
    let mut wrong_queue = line(3, "started");
    wrong_queue["queue"] = json!("payroll");
    let lines = [
        line(1, "started").to_string(),
        "{".to_owned(),
        line(2, "succeeded").to_string(),
        line(2, "started").to_string(),
        wrong_queue.to_string(),
        json!({"queue": "reports", "operation": "op", "status": "done"}).to_string(),
        String::new(),
        line(1, "succeeded").to_string(),
    ];
    let answer = batch(&server, lines.join("\n")).await.expect(200);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let verdicts = verdicts(&answer);
    let statuses: Vec<_> = verdicts.iter().map(|verdict| verdict["status"].as_u64().expect("a status")).collect();
    assert_eq!(statuses, [201, 400, 201, 409, 403, 422, 400, 201]);
    for (index, verdict) in verdicts.iter().enumerate() {
        assert_eq!(verdict["line"], json!(index + 1));
        let has = |member: &str| verdict.get(member).is_some();
        assert_eq!((has("event"), has("problem")), (verdict["status"] == 201, verdict["status"] != 201));
    }
    assert_eq!(verdicts[5]["problem"]["errors"][0]["pointer"], "/task_id");
    assert_eq!(verdicts[7]["event"]["task_version"], "2");
    assert_eq!(server.get(&format!("/v1/tasks/{:032x}", 2)).await.json()["status"], "succeeded");
}

#[actix_web::test]
async fn a_line_s_key_makes_it_safe_to_send_again() {
    let server = TestServer::start().await;
    let mut keyed = line(1, "started");
    keyed["idempotency_key"] = json!("k");
    let first = batch(&server, text(&[keyed.clone()])).await.expect(200);
    let again = batch(&server, text(&[keyed.clone()])).await.expect(200);
    assert_eq!(verdicts(&again)[0]["status"], 200);
    assert_eq!(verdicts(&first)[0]["event"], verdicts(&again)[0]["event"]);
    keyed["operation"] = json!("other");
    let other = verdicts(&batch(&server, text(&[keyed.clone()])).await);
    assert_eq!(other[0]["problem"]["code"], "IDEMPOTENCY_MISMATCH");
    keyed["idempotency_key"] = json!("");
    let bad = verdicts(&batch(&server, text(&[keyed])).await);
    assert_eq!(bad[0]["problem"]["errors"][0]["pointer"], "/idempotency_key");
}

#[actix_web::test]
async fn a_thousand_lines_are_taken_and_one_more_writes_nothing() {
    let server = TestServer::start().await;
    let lines: Vec<_> = (1..=1_001).map(|task| line(task, "started")).collect();
    batch(&server, text(&lines)).await.expect_problem(413, "TOO_LARGE");
    server.get(&format!("/v1/tasks/{:032x}", 1)).await.expect_problem(404, "NOT_FOUND");
    let taken = verdicts(&batch(&server, text(&lines[..1_000])).await.expect(200));
    assert_eq!(taken.len(), 1_000);
    assert!(taken.iter().all(|verdict| verdict["status"] == 201));
}

#[actix_web::test]
async fn a_line_and_a_batch_have_a_limit_each() {
    let limits = Limits { batch_bytes: 2 << 20, ..Limits::default() };
    let server = TestServer::start_with(|config| config.limits(limits)).await;
    let long = format!("{}{}\n{}", " ".repeat(524_288), line(1, "started"), line(2, "started"));
    let verdicts = verdicts(&batch(&server, long).await.expect(200));
    assert_eq!((&verdicts[0]["status"], &verdicts[1]["status"]), (&json!(413), &json!(201)));
    batch(&server, " ".repeat((2 << 20) + 1)).await.expect_problem(413, "TOO_LARGE");
}

#[actix_web::test]
async fn an_empty_batch_and_other_types_are_refused() {
    let server = TestServer::start().await;
    batch(&server, "").await.expect_problem(400, "MALFORMED");
    let json = Request::new(Method::POST, &server.url("/v1/events:batch")).bearer(&server.credential);
    json.json(Some(line(1, "started"))).send().await.expect_problem(415, "UNSUPPORTED_MEDIA_TYPE");
}
