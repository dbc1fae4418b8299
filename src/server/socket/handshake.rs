//! The request that asks for the upgrade (RFC 6455 section 4.2, events-v1.md section 1).

use actix_http::RequestHead;
use actix_http::ws::{HandshakeError, handshake_response, verify_handshake};
use actix_web::HttpResponseBuilder;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use perilune_proto::limits::SUBPROTOCOL;

use crate::server::problem::{Code, Problem};

/// Judges the request and makes the 101 that answers it. Extensions are never accepted.
///
/// # Errors
/// 426 for a request that asks for no WebSocket or another version, 400 for one that is malformed or
/// offers no `orbit.events.v1`.
pub(crate) fn accept(head: &RequestHead) -> Result<HttpResponseBuilder, Problem> {
    verify_handshake(head).map_err(refusal)?;
    if !offers_subprotocol(head) {
        return Err(Problem::new(Code::ProtocolError, "the subprotocol orbit.events.v1 must be offered"));
    }
    let answer = handshake_response(head).finish();
    let mut builder = HttpResponseBuilder::new(StatusCode::SWITCHING_PROTOCOLS);
    builder.upgrade("websocket");
    for (name, value) in answer.headers() {
        builder.insert_header((name.clone(), value.clone()));
    }
    builder.insert_header((header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL)));
    Ok(builder)
}

fn refusal(error: HandshakeError) -> Problem {
    match error {
        HandshakeError::NoWebsocketUpgrade
        | HandshakeError::NoConnectionUpgrade
        | HandshakeError::NoVersionHeader
        | HandshakeError::UnsupportedVersion => {
            Problem::new(Code::UpgradeRequired, "this resource is a websocket of version 13")
        }
        HandshakeError::GetMethodRequired | HandshakeError::BadWebsocketKey => {
            Problem::new(Code::ProtocolError, "the websocket handshake is malformed")
        }
    }
}

/// Whether the list of offers, which may be spread over several headers, has ours.
fn offers_subprotocol(head: &RequestHead) -> bool {
    head.headers()
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|offer| offer.trim_matches([' ', '\t']) == SUBPROTOCOL)
}
