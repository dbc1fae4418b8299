//! Why a control request has no receipt.

use perilune_proto::session::{Refusal, RequestRefused};
use perilune_proto::wire::ErrorCode;

use super::{ConnectionError, Facts, Verdict, error_type};

/// Why an `ack` or a `ping` failed.
#[derive(Debug, Clone)]
pub struct RequestError {
    kind: RequestErrorKind,
    facts: Facts,
}

/// Why an `ack` failed.
pub type AckError = RequestError;
/// Why a `ping` failed.
pub type PingError = RequestError;

/// What a control request failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestErrorKind {
    /// 32 requests are unanswered. Nothing was sent; the connection stays.
    Busy,
    /// The message id belongs to an unanswered request. Nothing was sent; the connection stays.
    MessageIdInUse,
    /// The proof belongs to another subscription. Nothing was sent; the connection stays.
    OtherSubscription,
    /// The proof was superseded, or its delivery is no longer kept. Forget it; the connection stays.
    ProofLost,
    /// The secret is wrong. Permanent.
    ProofInvalid,
    /// The platform refused for another reason; see the code.
    Refused,
    /// The connection ended first: whether the request was carried out is unknown.
    Connection,
}

error_type!(RequestError, RequestErrorKind);

impl RequestError {
    /// Whether the proof was superseded, or its delivery is no longer kept.
    #[must_use]
    pub fn is_proof_lost(&self) -> bool {
        self.kind == RequestErrorKind::ProofLost
    }
}

impl From<Refusal> for RequestError {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.code {
            ErrorCode::ProofLost => RequestErrorKind::ProofLost,
            ErrorCode::ProofInvalid => RequestErrorKind::ProofInvalid,
            _ => RequestErrorKind::Refused,
        };
        Self { kind, facts: Facts::refusal("the platform refused the request", &refusal) }
    }
}

impl From<ConnectionError> for RequestError {
    fn from(error: ConnectionError) -> Self {
        let mut facts = error.facts().clone();
        facts.source = Some(std::sync::Arc::new(error));
        Self { kind: RequestErrorKind::Connection, facts }
    }
}

impl From<RequestRefused> for RequestError {
    fn from(refused: RequestRefused) -> Self {
        let (kind, code, verdict) = match refused {
            RequestRefused::Busy => (RequestErrorKind::Busy, "BUSY", Verdict::Retriable),
            RequestRefused::MessageIdInUse => {
                (RequestErrorKind::MessageIdInUse, "MESSAGE_ID_IN_USE", Verdict::Permanent)
            }
            RequestRefused::OtherSubscription => {
                (RequestErrorKind::OtherSubscription, "OTHER_SUBSCRIPTION", Verdict::Permanent)
            }
            _ => (RequestErrorKind::Connection, "CLOSED", Verdict::Retriable),
        };
        Self { kind, facts: Facts::new(refused.to_string(), code, verdict) }
    }
}
