//! What awc throws away of an answer other than 101: status, `Retry-After`, problem body.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_codec::Framed;
use actix_http::h1::{ClientCodec, ClientPayloadCodec, MessageType};
use actix_service::Service;
use awc::error::SendRequestError;
use awc::http::StatusCode;
use awc::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use awc::middleware::Transform;
use awc::{BoxedSocket, ConnectRequest, ConnectResponse};
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use perilune_proto::limits;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;

use crate::error::DialError;

/// Where a refusal is kept. The status is there as soon as it has come, the code once the body has.
#[derive(Clone, Default)]
pub(crate) struct Slot(Rc<RefCell<Option<Refused>>>);

struct Refused {
    status: StatusCode,
    retry_after: Option<Duration>,
    code: Option<String>,
}

impl Slot {
    pub(crate) fn take(&self) -> Option<DialError> {
        let Refused { status, retry_after, code } = self.0.borrow_mut().take()?;
        Some(DialError::refused(status.as_u16(), code.as_deref(), retry_after))
    }

    fn keep(&self, status: StatusCode, headers: &HeaderMap) {
        let retry_after = headers.get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?));
        *self.0.borrow_mut() = Some(Refused { status, retry_after, code: None });
    }

    fn keep_code(&self, code: Option<String>) {
        if let Some(refused) = self.0.borrow_mut().as_mut() {
            refused.code = code;
        }
    }
}

/// Wraps the connector so that refusals are kept.
pub(crate) struct Capture(pub(crate) Slot);

impl<S> Transform<S, ConnectRequest> for Capture
where
    S: Service<ConnectRequest, Response = ConnectResponse, Error = SendRequestError> + 'static,
{
    type Transform = Capturing<S>;

    fn new_transform(self, inner: S) -> Capturing<S> {
        Capturing { inner: Rc::new(inner), slot: self.0 }
    }
}

pub(crate) struct Capturing<S> {
    inner: Rc<S>,
    slot: Slot,
}

impl<S> Service<ConnectRequest> for Capturing<S>
where
    S: Service<ConnectRequest, Response = ConnectResponse, Error = SendRequestError> + 'static,
{
    type Response = ConnectResponse;
    type Error = SendRequestError;
    type Future = LocalBoxFuture<'static, Result<ConnectResponse, SendRequestError>>;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), SendRequestError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&self, request: ConnectRequest) -> Self::Future {
        let (inner, slot) = (Rc::clone(&self.inner), self.slot.clone());
        Box::pin(async move {
            match inner.call(request).await? {
                ConnectResponse::Tunnel(head, framed) if head.status != StatusCode::SWITCHING_PROTOCOLS => {
                    // At once: if the body stalls, the dial's deadline ends this future here.
                    slot.keep(head.status, &head.headers);
                    let (body, framed) = read_body(head.status, &head.headers, framed).await;
                    slot.keep_code(problem_code(&head.headers, &body));
                    Ok(ConnectResponse::Tunnel(head, framed))
                }
                other => Ok(other),
            }
        })
    }
}

type Answer = Framed<BoxedSocket, ClientCodec>;

/// Reads at most [`limits::PROBLEM_BYTES_MAX`] of the body; what is cut off is no readable problem.
async fn read_body(status: StatusCode, headers: &HeaderMap, framed: Answer) -> (Vec<u8>, Answer) {
    // The payload decoder panics where it sees no body.
    if matches!(framed.codec_ref().message_type(), MessageType::None) {
        let none = status.is_informational() || matches!(status.as_u16(), 204 | 304);
        let none = none || headers.contains_key(CONTENT_LENGTH);
        return if none { (Vec::new(), framed) } else { read_to_end(framed).await };
    }
    let mut body = Vec::new();
    let mut payload = framed.into_map_codec(ClientCodec::into_payload_codec);
    while let Some(Ok(Some(chunk))) = payload.next().await {
        let room = limits::PROBLEM_BYTES_MAX - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            break;
        }
    }
    (body, payload.into_map_codec(ClientPayloadCodec::into_message_codec))
}

/// A body without a stated length ends with the connection. To the codec it is none.
async fn read_to_end(framed: Answer) -> (Vec<u8>, Answer) {
    let mut parts = framed.into_parts();
    let mut body = parts.read_buf.split().to_vec();
    body.truncate(limits::PROBLEM_BYTES_MAX);
    let room = limits::PROBLEM_BYTES_MAX - body.len();
    // A failed read ends it as a FIN does: what has come may still be a whole problem.
    let _ = (&mut parts.io).take(room as u64).read_to_end(&mut body).await;
    (body, Framed::from_parts(parts))
}

fn problem_code(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Problem {
        code: String,
    }
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = content_type.split(';').next()?.trim();
    if !essence.eq_ignore_ascii_case("application/problem+json") {
        return None;
    }
    serde_json::from_slice::<Problem>(body).ok().map(|problem| problem.code)
}

/// `Retry-After` in seconds; a date is ignored.
fn seconds(text: &str) -> Option<Duration> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Too many digits for the type are a long time all the same.
    digits.then(|| Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_counts_as_seconds_only() {
        assert_eq!(seconds("0"), Some(Duration::ZERO));
        assert_eq!(seconds("120"), Some(Duration::from_secs(120)));
        assert!(seconds("99999999999999999999999").is_some());
        for ignored in ["", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "1 "] {
            assert_eq!(seconds(ignored), None, "{ignored}");
        }
    }
}
