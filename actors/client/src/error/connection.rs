//! Why a connection ended.

use std::io;
use std::sync::Arc;

use perilune_proto::session::EndCause;
use perilune_proto::wire::CloseCode;

use super::{Facts, Verdict, error_type};

/// Why a connection ended. Cheap to clone: everybody who waits for the connection gets it.
#[derive(Debug, Clone)]
pub struct ConnectionError {
    kind: ConnectionErrorKind,
    facts: Arc<Facts>,
}

/// What ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionErrorKind {
    /// [`crate::Connection::close`] was called, or the last handle dropped.
    ClosedHere,
    /// The platform closed with this code and no error; 1006 where it went without a close.
    Closed(u16),
    /// The platform ended the session with an error; see the code.
    Ended,
    /// The platform broke the contract. Permanent.
    Protocol,
    /// The transport failed.
    Network,
    /// A control request, or a write, had no answer in time.
    Timeout,
    /// More deliveries came than the capacity allows to be unread.
    ReceiveBufferFull,
}

error_type!(ConnectionError, ConnectionErrorKind);

impl ConnectionError {
    fn new(kind: ConnectionErrorKind, facts: Facts) -> Self {
        Self { kind, facts: Arc::new(facts) }
    }

    pub(crate) fn closed_here() -> Self {
        let facts = Facts::new("the connection was closed here", "CLOSED", Verdict::Retriable);
        Self::new(ConnectionErrorKind::ClosedHere, facts)
    }

    /// The pump is gone without a word: its thread ended, or it panicked.
    pub(crate) fn abandoned() -> Self {
        let facts = Facts::new("the connection's task is gone", "NETWORK", Verdict::Retriable);
        Self::new(ConnectionErrorKind::Network, facts)
    }

    pub(crate) fn network(error: io::Error) -> Self {
        let facts = Facts::new("the connection failed", "NETWORK", Verdict::Retriable).caused_by(error);
        Self::new(ConnectionErrorKind::Network, facts)
    }

    pub(crate) fn write_stalled() -> Self {
        let facts = Facts::new("the platform does not read", "TIMEOUT", Verdict::Retriable);
        Self::new(ConnectionErrorKind::Timeout, facts)
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }
}

impl From<EndCause> for ConnectionError {
    fn from(cause: EndCause) -> Self {
        use ConnectionErrorKind as Kind;
        match cause {
            EndCause::Breach(breach) => Self::new(Kind::Protocol, Facts::breach(breach.to_string()).caused_by(breach)),
            EndCause::Refused(refusal) => {
                Self::new(Kind::Ended, Facts::refusal("the platform ended the session", &refusal))
            }
            EndCause::PeerClosed(code) => Self::new(Kind::Closed(code.0), closed(code)),
            EndCause::HandshakeTimeout => {
                Self::new(Kind::Timeout, Facts::new("no welcome came in time", "TIMEOUT", Verdict::Retriable))
            }
            EndCause::RequestTimeout => {
                Self::new(Kind::Timeout, Facts::new("a request had no answer in time", "TIMEOUT", Verdict::Retriable))
            }
            EndCause::ReceiveBufferFull => {
                let clause = "more deliveries came than may be unread";
                Self::new(Kind::ReceiveBufferFull, Facts::new(clause, "RECEIVE_BUFFER_FULL", Verdict::Retriable))
            }
            // The list may grow; what is not known here must not stop a consumer silently.
            _ => Self::abandoned(),
        }
    }
}

fn closed(code: CloseCode) -> Facts {
    let clause = if code.0 == 1006 { "the platform went without a close" } else { "the platform closed" };
    Facts::new(clause, format!("CLOSE_{code}"), Verdict::retriable(code.is_retriable()))
}
