//! Why a connection ended, or never came to be: what may be known of it without remote text.
//!
//! Source: consumer.md section 4, events-v1.md section 6, settled.md.

use std::fmt;
use std::time::Duration;

use super::action::Role;
use crate::wire::{CloseCode, ErrorCode};

/// Why a connection ended, or a dial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisconnectCause {
    /// What happened.
    pub code: CauseCode,
    /// When to come back at the earliest, as the server said; at most 30 s of it are honoured.
    pub retry_after: Option<Duration>,
}

impl DisconnectCause {
    /// A cause without a server's `retry_after`.
    #[must_use]
    pub const fn new(code: CauseCode) -> Self {
        Self { code, retry_after: None }
    }

    /// The same cause with the server's `retry_after`.
    #[must_use]
    pub fn with_retry_after(self, retry_after: Duration) -> Self {
        Self { code: self.code, retry_after: Some(retry_after) }
    }

    /// Whether a consumer comes back after it.
    #[must_use]
    pub const fn kind(&self) -> CauseKind {
        self.code.kind()
    }

    /// Whether the consumer stops because of it.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        matches!(self.kind(), CauseKind::Permanent)
    }
}

impl From<CauseCode> for DisconnectCause {
    fn from(code: CauseCode) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for DisconnectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.code, f)
    }
}

/// What a consumer does after a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CauseKind {
    /// It reconnects with backoff.
    Retriable,
    /// It stops.
    Permanent,
}

impl CauseKind {
    /// The kind as one lower-case word, for logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retriable => "retriable",
            Self::Permanent => "permanent",
        }
    }
}

/// What happened, as a code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CauseCode {
    /// The server's `error` frame, or its reply to a request.
    Error(ErrorCode),
    /// A close frame without an `error` frame before it.
    Close(CloseCode),
    /// The handshake was refused with an HTTP status. The status alone decides the kind.
    Http {
        /// The status.
        status: u16,
        /// The problem body's code, where there was a readable one.
        code: Option<ErrorCode>,
    },
    /// The network: resolving, connecting, TLS transport, reading, writing.
    Network,
    /// A handshake or a control request ran out of its time.
    Timeout,
    /// One more delivery than the session may have unread.
    ReceiveBufferFull,
    /// The peer broke the contract, as this side found.
    Protocol,
    /// Closed by this side on purpose.
    Closed,
    /// A child of the subscription crashed.
    ChildLost(Role),
    /// Something local that does not mend by itself: configuration, a certificate file, the credential
    /// provider.
    Local,
}

impl CauseCode {
    /// Whether a consumer comes back after it.
    #[must_use]
    pub const fn kind(&self) -> CauseKind {
        let retriable = match self {
            Self::Error(code) => code.is_retriable(),
            Self::Close(code) => code.is_retriable(),
            Self::Http { status, .. } => matches!(*status, 408 | 429 | 500..=599),
            Self::Network | Self::Timeout | Self::ReceiveBufferFull | Self::Closed | Self::ChildLost(_) => true,
            Self::Protocol | Self::Local => false,
        };
        if retriable { CauseKind::Retriable } else { CauseKind::Permanent }
    }
}

/// Upper case with underscores: `UNAVAILABLE`, `CLOSE_1008`, `HTTP_503`, `NETWORK`.
impl fmt::Display for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(code) | Self::Http { code: Some(code), .. } => f.write_str(code.as_str()),
            Self::Close(code) => write!(f, "CLOSE_{code}"),
            Self::Http { status, code: None } => write!(f, "HTTP_{status}"),
            Self::Network => f.write_str("NETWORK"),
            Self::Timeout => f.write_str("TIMEOUT"),
            Self::ReceiveBufferFull => f.write_str("RECEIVE_BUFFER_FULL"),
            Self::Protocol => f.write_str("PROTOCOL_ERROR"),
            Self::Closed => f.write_str("CLOSED"),
            Self::ChildLost(_) => f.write_str("CHILD_LOST"),
            Self::Local => f.write_str("LOCAL"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(code: CauseCode) -> CauseKind {
        DisconnectCause::new(code).kind()
    }

    #[test]
    fn an_http_refusal_is_retriable_by_its_status_alone() {
        for (status, kind) in [
            (408, CauseKind::Retriable),
            (429, CauseKind::Retriable),
            (500, CauseKind::Retriable),
            (599, CauseKind::Retriable),
            (400, CauseKind::Permanent),
            (401, CauseKind::Permanent),
            (403, CauseKind::Permanent),
            (404, CauseKind::Permanent),
            (302, CauseKind::Permanent),
        ] {
            assert_eq!(kind_of(CauseCode::Http { status, code: None }), kind, "{status}");
            assert_eq!(kind_of(CauseCode::Http { status, code: Some(ErrorCode::Unavailable) }), kind, "{status}");
        }
    }

    #[test]
    fn close_and_error_codes_keep_the_contracts_kind() {
        for code in [1000, 1001, 1005, 1006, 1011, 1012, 1013, 1014] {
            assert_eq!(kind_of(CauseCode::Close(CloseCode(code))), CauseKind::Retriable, "{code}");
        }
        for code in [1002, 1003, 1007, 1008, 1009, 1010, 1015, 4000, 4999] {
            assert_eq!(kind_of(CauseCode::Close(CloseCode(code))), CauseKind::Permanent, "{code}");
        }
        assert_eq!(kind_of(CauseCode::Error(ErrorCode::RateLimited)), CauseKind::Retriable);
        assert_eq!(kind_of(CauseCode::Error(ErrorCode::from_wire("NEW"))), CauseKind::Permanent);
    }

    #[test]
    fn a_cause_prints_its_code() {
        assert_eq!(DisconnectCause::new(CauseCode::Close(CloseCode(1008))).to_string(), "CLOSE_1008");
        assert_eq!(DisconnectCause::new(CauseCode::Http { status: 503, code: None }).to_string(), "HTTP_503");
    }
}
