//! Error and close codes as data.
//!
//! Source: events-v1.md section 6 and settled.md.

use std::fmt;

/// The code of an `error` frame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The server can't now: it shuts down or its store is down.
    Unavailable,
    /// Too many sessions or requests.
    RateLimited,
    /// The proof was superseded, or its delivery is no longer kept. Only as the reply to an `ack`.
    ProofLost,
    /// The secret is wrong, or the generation was never leased. Only as the reply to an `ack`.
    ProofInvalid,
    /// The credential is unknown, expired or revoked.
    Unauthenticated,
    /// The credential may not consume this subscription.
    PermissionDenied,
    /// This credential has no such subscription.
    SubscriptionNotFound,
    /// The log no longer holds the subscription's next event.
    HistoryGap,
    /// The peer broke the contract.
    ProtocolError,
    /// A code that this version does not know.
    Other(Box<str>),
}

impl ErrorCode {
    /// Reads a code; an unknown one is kept.
    #[must_use]
    pub fn from_wire(text: &str) -> Self {
        const KNOWN: [ErrorCode; 9] = [
            ErrorCode::Unavailable,
            ErrorCode::RateLimited,
            ErrorCode::ProofLost,
            ErrorCode::ProofInvalid,
            ErrorCode::Unauthenticated,
            ErrorCode::PermissionDenied,
            ErrorCode::SubscriptionNotFound,
            ErrorCode::HistoryGap,
            ErrorCode::ProtocolError,
        ];
        KNOWN.into_iter().find(|code| code.as_str() == text).unwrap_or_else(|| Self::Other(text.into()))
    }

    /// The code as the wire writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unavailable => "UNAVAILABLE",
            Self::RateLimited => "RATE_LIMITED",
            Self::ProofLost => "PROOF_LOST",
            Self::ProofInvalid => "PROOF_INVALID",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::SubscriptionNotFound => "SUBSCRIPTION_NOT_FOUND",
            Self::HistoryGap => "HISTORY_GAP",
            Self::ProtocolError => "PROTOCOL_ERROR",
            Self::Other(text) => text,
        }
    }

    /// Whether a consumer reconnects after it. Every other code is permanent, but for
    /// [`Self::ProofLost`], after which the connection stays.
    #[must_use]
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::Unavailable | Self::RateLimited)
    }

    /// The WebSocket close code that a server sends after an `error` about the session.
    ///
    /// At a shutdown it is [`CloseCode::RESTART`] instead.
    #[must_use]
    pub const fn close_code(&self) -> CloseCode {
        match self {
            Self::Unavailable | Self::RateLimited => CloseCode::TRY_AGAIN,
            Self::ProtocolError => CloseCode::PROTOCOL,
            _ => CloseCode::POLICY,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A WebSocket close code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The session is over.
    pub const NORMAL: Self = Self(1000);
    /// An end that leaves: a server after missed heartbeats, a client after a request's timeout.
    pub const AWAY: Self = Self(1001);
    /// The peer broke the contract.
    pub const PROTOCOL: Self = Self(1002);
    /// A binary message.
    pub const UNSUPPORTED: Self = Self(1003);
    /// A text message that is not UTF-8.
    pub const INVALID_TEXT: Self = Self(1007);
    /// The credential may no longer do this.
    pub const POLICY: Self = Self(1008);
    /// A message over the limit.
    pub const TOO_LARGE: Self = Self(1009);
    /// The server restarts.
    pub const RESTART: Self = Self(1012);
    /// The server can't now.
    pub const TRY_AGAIN: Self = Self(1013);

    /// Whether a consumer reconnects after a close with this code and no `error` frame.
    #[must_use]
    pub const fn is_retriable(self) -> bool {
        matches!(self.0, 1000 | 1001 | 1005 | 1006 | 1011..=1014)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
