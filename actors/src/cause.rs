//! The client's errors as the machine's causes, and causes as metric labels.

use perilune_client::{ConnectionError, ConnectionErrorKind, DialError, DialErrorKind, RequestError, RequestErrorKind};
use perilune_proto::consumer::{CauseCode, DisconnectCause};
use perilune_proto::wire::{CloseCode, ErrorCode};

/// Why a connection ended.
pub(crate) fn cause_of_connection(error: &ConnectionError) -> DisconnectCause {
    let code = match error.kind() {
        ConnectionErrorKind::ClosedHere => CauseCode::Closed,
        ConnectionErrorKind::Closed(code) => CauseCode::Close(CloseCode(code)),
        ConnectionErrorKind::Ended => CauseCode::Error(ErrorCode::from_wire(error.code())),
        ConnectionErrorKind::Timeout => CauseCode::Timeout,
        ConnectionErrorKind::ReceiveBufferFull => CauseCode::ReceiveBufferFull,
        // The client says of a kind that is new here whether dialling again helps.
        ConnectionErrorKind::Network | _ if error.is_retriable() => CauseCode::Network,
        ConnectionErrorKind::Protocol | _ => CauseCode::Protocol,
    };
    DisconnectCause { code, retry_after: error.retry_after() }
}

/// Why a dial failed.
pub(crate) fn cause_of_dial(error: &DialError) -> DisconnectCause {
    let code = match error.kind() {
        DialErrorKind::Refused(status) => {
            let code = Some(error.code()).filter(|code| !code.starts_with("HTTP_")).map(ErrorCode::from_wire);
            CauseCode::Http { status, code }
        }
        DialErrorKind::Rejected => CauseCode::Error(ErrorCode::from_wire(error.code())),
        DialErrorKind::Closed(code) => CauseCode::Close(CloseCode(code)),
        DialErrorKind::Timeout => CauseCode::Timeout,
        DialErrorKind::Protocol => CauseCode::Protocol,
        // The client has judged whether a credential, a certificate or a transport mends by itself.
        _ if error.is_retriable() => CauseCode::Network,
        _ => CauseCode::Local,
    };
    DisconnectCause { code, retry_after: error.retry_after() }
}

/// Why a request was refused; none when the connection ended first, which is news of its own.
pub(crate) fn cause_of_request(error: &RequestError) -> Option<DisconnectCause> {
    let code = match error.kind() {
        RequestErrorKind::Connection => return None,
        RequestErrorKind::ProofLost | RequestErrorKind::ProofInvalid | RequestErrorKind::Refused => {
            CauseCode::Error(ErrorCode::from_wire(error.code()))
        }
        // Refused before it was sent: with one ack and one ping at a time that is a fault of this side.
        _ => CauseCode::Local,
    };
    Some(DisconnectCause { code, retry_after: error.retry_after() })
}

/// A cause as a metric label: one of a fixed set, whatever the peer says.
pub(crate) const fn label(code: &CauseCode) -> &'static str {
    match code {
        CauseCode::Error(code) => match code {
            ErrorCode::Unavailable => "UNAVAILABLE",
            ErrorCode::RateLimited => "RATE_LIMITED",
            ErrorCode::ProofLost => "PROOF_LOST",
            ErrorCode::ProofInvalid => "PROOF_INVALID",
            ErrorCode::Unauthenticated => "UNAUTHENTICATED",
            ErrorCode::PermissionDenied => "PERMISSION_DENIED",
            ErrorCode::SubscriptionNotFound => "SUBSCRIPTION_NOT_FOUND",
            ErrorCode::HistoryGap => "HISTORY_GAP",
            ErrorCode::ProtocolError => "PROTOCOL_ERROR",
            _ => "OTHER",
        },
        CauseCode::Close(code) if code.is_retriable() => "CLOSE_RETRIABLE",
        CauseCode::Close(_) => "CLOSE_PERMANENT",
        CauseCode::Http { status: 500..=599, .. } => "HTTP_5XX",
        CauseCode::Http { status: 400..=499, .. } => "HTTP_4XX",
        CauseCode::Http { .. } => "HTTP_OTHER",
        CauseCode::Network => "NETWORK",
        CauseCode::Timeout => "TIMEOUT",
        CauseCode::ReceiveBufferFull => "RECEIVE_BUFFER_FULL",
        CauseCode::Protocol => "PROTOCOL_ERROR",
        CauseCode::Closed => "CLOSED",
        CauseCode::ChildLost(_) => "CHILD_LOST",
        CauseCode::Local => "LOCAL",
        _ => "OTHER",
    }
}
