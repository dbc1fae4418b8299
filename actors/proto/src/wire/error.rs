//! Why a message is no frame.

use super::CloseCode;
use crate::json::{FieldError, Flaw, Malformed};

/// Why a message is refused. It never repeats what the message says; a message that is refused has no
/// effect.
///
/// Source: events-v1.md section 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A binary message.
    #[error("a message must be text")]
    Binary,
    /// A message over 524,288 bytes.
    #[error("a message must have at most 524288 bytes")]
    TooLong,
    /// A text message that is not UTF-8.
    #[error("a message must be utf-8")]
    NotUtf8,
    /// Not one strict JSON object.
    #[error("a message must be one strict json object: {0}")]
    Malformed(Malformed),
    /// A field that is missing, mistyped, out of range, or in contradiction to another; or a frame
    /// type that this receiver does not know.
    #[error("{0}")]
    Field(FieldError),
}

impl FrameError {
    /// The WebSocket close code with which the finder ends the connection.
    #[must_use]
    pub const fn close_code(&self) -> CloseCode {
        match self {
            Self::Binary => CloseCode::UNSUPPORTED,
            Self::TooLong => CloseCode::TOO_LARGE,
            Self::NotUtf8 => CloseCode::INVALID_TEXT,
            Self::Malformed(_) | Self::Field(_) => CloseCode::PROTOCOL,
        }
    }
}

impl From<Malformed> for FrameError {
    fn from(malformed: Malformed) -> Self {
        match malformed.flaw {
            Flaw::TooLong => Self::TooLong,
            _ => Self::Malformed(malformed),
        }
    }
}

impl From<FieldError> for FrameError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}
