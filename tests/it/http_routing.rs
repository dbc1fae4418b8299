//! What the router refuses, and HEAD.

use awc::http::Method;
use serde_json::json;

use crate::http_harness::{Request, TestServer};

#[actix_web::test]
async fn an_unknown_path_is_a_problem_too() {
    let server = TestServer::start().await;
    for path in ["/", "/v1", "/v1/", "/v1/queues", "/v1/subscriptions/", "/V1/subscriptions", "/v1/events:other"] {
        server.get(path).await.expect_problem(404, "NOT_FOUND");
    }
}

#[actix_web::test]
async fn an_unknown_method_names_the_known_ones() {
    let server = TestServer::start().await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/subscriptions", "GET, HEAD, POST"),
        (Method::POST, "/v1/subscriptions/x", "GET, HEAD, DELETE"),
        (Method::GET, "/v1/subscriptions/x/pause", "POST"),
        (Method::OPTIONS, "/v1/events:batch", "POST"),
        (Method::TRACE, "/healthz", "GET, HEAD"),
        (Method::HEAD, "/v1/events", "GET"),
    ] {
        let answer = Request::new(method.clone(), &server.url(path)).send().await.expect(405);
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        if method != Method::HEAD {
            answer.expect_problem(405, "METHOD_NOT_ALLOWED");
        }
    }
}

#[actix_web::test]
async fn head_answers_as_get_without_the_body() {
    let server = TestServer::start().await;
    server.subscribe(json!({})).await;
    let get = server.get("/v1/subscriptions").await.expect(200);
    let head = server.call(Method::HEAD, "/v1/subscriptions", None).await.expect(200);
    assert_eq!(head.text, "");
    assert_eq!(head.header("content-type"), get.header("content-type"));
    assert_eq!(head.header("content-length"), Some(get.text.len().to_string().as_str()));
}

#[actix_web::test]
async fn answers_are_not_to_be_kept_by_anybody_between() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/v1/subscriptions").await.header("cache-control"), Some("no-store"));
    assert_eq!(server.get("/v1/nothing").await.header("cache-control"), Some("no-store"));
}
