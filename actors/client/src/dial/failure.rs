//! From awc's errors to ours. Text from the other side stays behind.

use actix_http::error::ParseError;
use awc::error::{ConnectError, SendRequestError, WsClientError};

use crate::error::DialError;

pub(super) fn sort(error: WsClientError) -> DialError {
    match error {
        WsClientError::SendRequest(error) => request(error),
        WsClientError::InvalidResponseStatus(status) => DialError::refused(status.as_u16(), None, None),
        WsClientError::InvalidChallengeResponse(..) | WsClientError::MissingWebSocketAcceptHeader => {
            DialError::protocol("the platform's Sec-WebSocket-Accept is wrong")
        }
        WsClientError::InvalidUpgradeHeader
        | WsClientError::InvalidConnectionHeader(_)
        | WsClientError::MissingConnectionHeader
        | WsClientError::Protocol(_) => DialError::protocol("the platform's upgrade is broken"),
    }
}

fn request(error: SendRequestError) -> DialError {
    match error {
        SendRequestError::Connect(error) => connect(error),
        SendRequestError::Send(error) => DialError::io(error),
        SendRequestError::Response(error) => response(error),
        SendRequestError::Timeout => DialError::timed_out(),
        SendRequestError::TunnelNotSupported | SendRequestError::H2(_) => {
            DialError::protocol("the platform took HTTP/2, which was not offered")
        }
        _ => DialError::network("the request could not be sent"),
    }
}

fn connect(error: ConnectError) -> DialError {
    match error {
        ConnectError::Io(error) => DialError::io(error),
        ConnectError::Resolver(_) | ConnectError::NoRecords | ConnectError::Unresolved => {
            DialError::network("the platform's name could not be resolved")
        }
        ConnectError::Timeout => DialError::timed_out(),
        ConnectError::H2(_) => DialError::protocol("the platform took HTTP/2, which was not offered"),
        ConnectError::Disconnected => DialError::network("the platform closed without an answer"),
        _ => DialError::network("the connection could not be made"),
    }
}

fn response(error: ParseError) -> DialError {
    match error {
        ParseError::Io(error) => DialError::io(error),
        ParseError::Incomplete => DialError::network("the platform closed within its answer"),
        ParseError::Timeout => DialError::timed_out(),
        _ => DialError::protocol("the platform's answer is no HTTP"),
    }
}
