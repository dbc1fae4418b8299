//! Why a session ended, and why a request was not sent.

use std::time::Duration;

use crate::wire::{CloseCode, ErrorCode, ErrorFrame, FrameError};

/// Why the session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// The server broke the contract. Permanent.
    Breach(Breach),
    /// The server ended the session with an `error`.
    Refused(Refusal),
    /// The server closed without an `error`; 1006 where it went without a close.
    PeerClosed(CloseCode),
    /// No `welcome` within the handshake's time.
    HandshakeTimeout,
    /// A control request had no answer within its time.
    RequestTimeout,
    /// More deliveries came than the capacity allows to be unread. Retriable.
    ReceiveBufferFull,
}

impl EndCause {
    /// The code that the client closes with.
    #[must_use]
    pub const fn close_code(&self) -> CloseCode {
        match self {
            Self::Breach(breach) => breach.close_code(),
            Self::Refused(_) => CloseCode::NORMAL,
            // A close is answered with its own code.
            Self::PeerClosed(code) => *code,
            Self::HandshakeTimeout | Self::RequestTimeout | Self::ReceiveBufferFull => CloseCode::AWAY,
        }
    }
}

impl From<Breach> for EndCause {
    fn from(breach: Breach) -> Self {
        Self::Breach(breach)
    }
}

/// How the server broke the contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Breach {
    /// A message that is not one of the contract's frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame that may not come at this point.
    #[error("a frame came out of place")]
    OutOfPlace,
    /// A frame without this session's id, or with one before `welcome`.
    #[error("a frame names another session")]
    Session,
    /// A reply to no request in flight, or to one of another kind.
    #[error("a reply belongs to no request in flight")]
    Reply,
    /// A receipt for another proof than the one that was sent.
    #[error("a receipt names another proof")]
    Receipt,
    /// A `welcome` that does not repeat the `register`.
    #[error("the welcome does not repeat the registration")]
    Echo,
    /// A delivery of another subscription.
    #[error("a delivery belongs to another subscription")]
    OtherSubscription,
    /// `PROOF_LOST` or `PROOF_INVALID` elsewhere than in the reply to an `ack`.
    #[error("an error about a proof answers no acknowledgement")]
    ProofCode,
    /// RFC 6455 itself was broken.
    #[error("the WebSocket framing is broken")]
    Framing,
}

impl Breach {
    /// The code that the finder closes with.
    #[must_use]
    pub const fn close_code(&self) -> CloseCode {
        match self {
            Self::Frame(error) => error.close_code(),
            _ => CloseCode::PROTOCOL,
        }
    }
}

/// What an `error` frame said, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What failed.
    pub code: ErrorCode,
    /// When to try again at the earliest, as the server stated it.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether a close with this code is the one that a server sends after this refusal.
    pub(super) fn explains(&self, code: CloseCode) -> bool {
        let restart = code == CloseCode::RESTART && self.code == ErrorCode::Unavailable;
        code == self.code.close_code() || restart
    }
}

impl From<ErrorFrame> for Refusal {
    fn from(error: ErrorFrame) -> Self {
        let retry_after = error.retry_after_ms.map(|ms| Duration::from_millis(ms.into()));
        Self { code: error.code, retry_after }
    }
}

/// Why a control request was not sent. The session stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestRefused {
    /// [`crate::limits::CONTROL_REQUESTS_MAX`] requests are unanswered.
    #[error("too many requests are unanswered")]
    Busy,
    /// The message id belongs to a request that is still unanswered.
    #[error("the message id is still in use")]
    MessageIdInUse,
    /// The proof belongs to another subscription.
    #[error("the proof belongs to another subscription")]
    OtherSubscription,
    /// There is no session yet, or no more.
    #[error("the session is not open")]
    NotOpen,
}
