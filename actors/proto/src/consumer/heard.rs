//! What a session tells, as the machine hears of it: for shells that hold a [`ClientSession`] themselves.
//!
//! [`ClientSession`]: crate::session::ClientSession

use super::action::{AckAnswer, Epoch, Input, PingAnswer, Replay};
use super::cause::{CauseCode, DisconnectCause};
use crate::scalar::{EventId, Generation};
use crate::session::client::{Answer, EndCause, Refusal};
use crate::wire::ErrorCode;

impl From<Refusal> for DisconnectCause {
    fn from(refusal: Refusal) -> Self {
        Self { code: CauseCode::Error(refusal.code), retry_after: refusal.retry_after }
    }
}

impl From<EndCause> for DisconnectCause {
    fn from(end: EndCause) -> Self {
        match end {
            EndCause::Breach(_) => CauseCode::Protocol.into(),
            EndCause::Refused(refusal) => refusal.into(),
            EndCause::PeerClosed(code) => CauseCode::Close(code).into(),
            EndCause::HandshakeTimeout | EndCause::RequestTimeout => CauseCode::Timeout.into(),
            EndCause::ReceiveBufferFull => CauseCode::ReceiveBufferFull.into(),
        }
    }
}

impl Input {
    /// The answer to a request on this connection: to the `ack` of `acked`, or else to a `ping`.
    #[must_use]
    pub fn answered(epoch: Epoch, acked: Option<(EventId, Generation)>, answer: Answer) -> Self {
        let Some((event_id, generation)) = acked else {
            return Self::PingAnswered { epoch, answer: answer.into() };
        };
        Self::AckAnswered { epoch, event_id, generation, answer: answer.into() }
    }
}

impl From<Answer> for AckAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Acked(acked) => {
                Self::Confirmed { replay: if acked.replayed { Replay::Replayed } else { Replay::First } }
            }
            Answer::Refused(Refusal { code: ErrorCode::ProofLost, .. }) => Self::Lost,
            Answer::Refused(refusal) => Self::Refused(refusal.into()),
            // A session lets no answer of another kind through.
            Answer::Pong(_) => Self::Refused(CauseCode::Protocol.into()),
        }
    }
}

impl From<Answer> for PingAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Pong(pong) => Self::Pong(pong.enabled.into()),
            Answer::Refused(refusal) => Self::Refused(refusal.into()),
            Answer::Acked(_) => Self::Refused(CauseCode::Protocol.into()),
        }
    }
}
