//! Answers other than 101.

use std::time::{Duration, Instant};

use perilune_client::{DialError, DialErrorKind};

use crate::peer::Peer;
use crate::{client, dial_error, hasty, registration};

const PROBLEM: &str = "content-type: application/problem+json\r\n";

async fn refused(status: u16, headers: &str, body: &str) -> DialError {
    dial_error(Default::default(), async |peer: Peer| peer.accept().await.refuse(status, headers, body).await).await
}

#[actix_rt::test]
async fn a_refusal_keeps_status_code_and_retry_after() {
    let headers = format!("{PROBLEM}retry-after: 7\r\n");
    let body = r#"{"type":"about:blank","title":"s3cret detail","status":429,"code":"RATE_LIMITED"}"#;
    let error = refused(429, &headers, body).await;
    assert_eq!((error.kind(), error.status()), (DialErrorKind::Refused(429), Some(429)));
    assert_eq!(error.code(), "RATE_LIMITED");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

#[actix_rt::test]
async fn only_408_429_and_5xx_are_retriable() {
    for (status, retriable) in [
        (200, false),
        (204, false),
        (302, false),
        (400, false),
        (401, false),
        (403, false),
        (404, false),
        (408, true),
        (426, false),
        (429, true),
        (500, true),
        (503, true),
        (599, true),
    ] {
        let error = refused(status, "", "").await;
        assert_eq!((error.status(), error.is_retriable()), (Some(status), retriable));
        assert_eq!(error.code(), format!("HTTP_{status}"));
    }
}

#[actix_rt::test]
async fn an_unknown_credential_is_told_from_a_missing_scope() {
    let error = refused(401, PROBLEM, r#"{"code":"UNAUTHENTICATED"}"#).await;
    assert!(error.is_unauthenticated() && !error.is_permission_denied());
    assert!(refused(401, "", "").await.is_unauthenticated());
    let error = refused(403, PROBLEM, r#"{"code":"PERMISSION_DENIED"}"#).await;
    assert!(error.is_permission_denied() && !error.is_unauthenticated());
}

#[actix_rt::test]
async fn an_unreadable_body_leaves_the_status() {
    let long = format!(r#"{{"detail":"{}","code":"TOO_LATE"}}"#, "x".repeat(65_536));
    for (headers, body) in [
        (PROBLEM, ""),
        (PROBLEM, "not json"),
        (PROBLEM, r#"{"code":1}"#),
        (PROBLEM, r#"{"title":"no code"}"#),
        (PROBLEM, &long),
        ("content-type: text/html\r\n", r#"{"code":"UNAVAILABLE"}"#),
        ("", r#"{"code":"UNAVAILABLE"}"#),
    ] {
        let error = refused(503, headers, body).await;
        assert_eq!(
            (error.code(), error.is_retriable()),
            ("HTTP_503", true),
            "{headers}{}",
            &body[..body.len().min(80)]
        );
    }
}

#[actix_rt::test]
async fn a_code_that_is_free_text_is_not_repeated() {
    let error = refused(400, PROBLEM, r#"{"code":"your token s3cret is bad"}"#).await;
    assert_eq!(error.code(), "UNKNOWN");
}

#[actix_rt::test]
async fn a_body_in_chunks_or_up_to_the_end_of_the_connection_is_read() {
    let chunked = "HTTP/1.1 503 x\r\ncontent-type: application/problem+json; charset=utf-8\r\n\
                   transfer-encoding: chunked\r\n\r\n9\r\n{\"code\":\"\r\nd\r\nUNAVAILABLE\"}\r\n0\r\n\r\n";
    let error = dial_error(Default::default(), async |peer: Peer| peer.accept().await.answer(chunked).await).await;
    assert_eq!(error.code(), "UNAVAILABLE");
    let to_the_end = format!("HTTP/1.1 503 x\r\n{PROBLEM}connection: close\r\n\r\n{{\"code\":\"UNAVAILABLE\"}}");
    let error = dial_error(Default::default(), async |peer: Peer| {
        peer.accept().await.answer(to_the_end).await.fin().await;
    })
    .await;
    assert_eq!(error.code(), "UNAVAILABLE");
}

#[actix_rt::test]
async fn a_status_that_has_no_body_is_not_waited_for() {
    for status in [103, 204, 304] {
        let answer = format!("HTTP/1.1 {status} x\r\n\r\n");
        let error = dial_error(Default::default(), async |peer: Peer| peer.accept().await.answer(answer).await).await;
        assert_eq!((error.status(), error.is_retriable()), (Some(status), false));
    }
}

#[actix_rt::test]
async fn a_body_that_stalls_is_given_up_with_the_handshakes_time_and_the_status_decides() {
    for (status, retriable) in [(503, true), (401, false)] {
        let begun = Instant::now();
        let stalled = format!("HTTP/1.1 {status} x\r\n{PROBLEM}retry-after: 3\r\ncontent-length: 99\r\n\r\n{{\"co");
        let error = dial_error(hasty(), async |peer: Peer| peer.accept().await.answer(stalled).await).await;
        assert!(begun.elapsed() >= hasty().handshake);
        assert_eq!((error.status(), error.code()), (Some(status), &*format!("HTTP_{status}")));
        assert_eq!((error.is_retriable(), error.retry_after()), (retriable, Some(Duration::from_secs(3))));
    }
}

#[actix_rt::test]
async fn a_retry_after_that_is_a_date_is_ignored() {
    let error = refused(503, "retry-after: Wed, 21 Oct 2099 07:28:00 GMT\r\n", "").await;
    assert_eq!(error.retry_after(), None);
}

#[actix_rt::test]
async fn no_redirect_is_followed() {
    let elsewhere = Peer::plain().await;
    let peer = Peer::plain().await;
    for status in [301, 302, 303, 307, 308] {
        let client = client(&peer);
        let location = format!("location: {}/v1/events\r\n", elsewhere.url());
        let (dialled, _socket) = tokio::join!(client.dial_events(registration(4)), async {
            peer.accept().await.refuse(status, &location, "").await
        });
        let error = dialled.expect_err("no redirect");
        assert_eq!((error.status(), error.is_retriable()), (Some(status), false));
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), elsewhere.accept_tcp()).await.is_err());
}
