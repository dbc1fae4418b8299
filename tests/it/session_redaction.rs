//! What the server never writes to its log, whatever the level.

use serde_json::{Value, json};

use crate::cli_platform::Platform;
use crate::http_harness::Request;
use crate::session_client::Client;

/// Reports, consumes, breaks rules, and gives every text that must stay out of the log.
async fn use_everything(url: &str, credential: &str, subscription: &str) -> Vec<String> {
    let post = |path: &str, body: &str| {
        let request = Request::new(awc::http::Method::POST, &format!("{url}{path}")).bearer(credential);
        request.header("content-type", "application/json").body(body).send()
    };
    let path = format!("/v1/queues/reports/tasks/{:032x}/events", 7);
    let report = r#"{"operation":"op","status":"failed","payload":{"k":"hidden-payload"},"result":"hidden-result",
        "error":{"code":"hidden-code","message":"hidden-message"}}"#;
    post(&path, report).await.expect(201);
    // Refused at every stage: status, syntax, scope of the values.
    post(&path, report).await.expect_problem(409, "TASK_FINAL");
    post(&path, r#"{"operation":"hidden op","status":"hidden-status"}"#).await.expect_problem(422, "INVALID");
    post(&path, r#"{"hidden-key":1,"hidden-key":2}"#).await.expect_problem(400, "MALFORMED");

    let mut client = Client::dial_at(url, credential, Some("orbit.events.v1")).await.expect("a websocket");
    assert_eq!(client.register(subscription, 4).await["type"], "welcome");
    let delivery = client.delivery().await;
    let mut wrong = client.ack_frame(&delivery);
    wrong["secret"] = json!(format!("hidden{}", "A".repeat(37)));
    assert_eq!(client.ask(&wrong).await["code"], "PROOF_INVALID");
    assert_eq!(client.ack(&delivery).await["type"], "acked");
    client.send(&json!({"type": "hidden-type"})).await;
    client.end().await;

    let secret = Value::as_str(&delivery["delivery"]["secret"]).expect("a secret").to_owned();
    vec![credential.to_owned(), secret, "hidden".to_owned()]
}

#[actix_web::test]
async fn no_credential_secret_or_payload_is_in_a_log_of_everything() {
    let mut platform = Platform::start();
    platform.stop("TERM").expect_code(0);
    platform.serve_with(&["--log", "trace"]);
    let credential = platform.create_credential("talker", "report,consume,manage");
    let settings = r#"{"name":"hidden-name","queues":["reports"],"start":"earliest"}"#;
    let request = Request::new(awc::http::Method::POST, &format!("{}/v1/subscriptions", platform.url));
    let created = request.bearer(&credential).header("content-type", "application/json").body(settings).send().await;
    let created = created.expect(201).json();
    let subscription = created["subscription_id"].as_str().expect("an id").to_owned();
    let hidden = use_everything(&platform.url, &credential, &subscription).await;
    let log = platform.stop("TERM").expect_code(0).stderr;
    assert!(log.contains("TRACE"), "the log says everything else");
    for text in hidden {
        let line = log.lines().find(|line| line.contains(&text));
        assert_eq!(line, None, "{text} is in the log");
    }
}
