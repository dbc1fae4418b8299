//! What can go wrong, and whether dialling again helps.
//!
//! Every error has a kind to match, a `code()` to print and a `source()` to dig. `Display` and `Debug`
//! never show text from the other side, a credential or a payload.

mod connection;
mod dial;
mod request;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use perilune_proto::session::Refusal;
use perilune_proto::wire::ErrorCode;

pub use connection::{ConnectionError, ConnectionErrorKind};
pub use dial::{DialError, DialErrorKind};
pub use request::{AckError, PingError, RequestError, RequestErrorKind};

/// An option that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct ConfigError {
    /// The option's name.
    pub field: &'static str,
    /// What is wrong with it, as the rest of a sentence.
    pub problem: &'static str,
}

impl ConfigError {
    pub(crate) const fn base_url(problem: &'static str) -> Self {
        Self { field: "base_url", problem }
    }

    pub(crate) const fn credential(problem: &'static str) -> Self {
        Self { field: "credential", problem }
    }
}

pub(crate) type Source = Arc<dyn std::error::Error + Send + Sync + 'static>;

/// Whether a consumer dials again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Retriable,
    Permanent,
}

impl Verdict {
    pub(crate) const fn retriable(is: bool) -> Self {
        if is { Self::Retriable } else { Self::Permanent }
    }
}

/// What all errors of this crate know.
#[derive(Clone)]
pub(crate) struct Facts {
    /// One lower-case clause of our own.
    pub(crate) clause: Cow<'static, str>,
    /// For a person or a script: `PROTOCOL_ERROR`, `CLOSE_1008`, `HTTP_403`, the platform's code.
    pub(crate) code: Cow<'static, str>,
    pub(crate) verdict: Verdict,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) source: Option<Source>,
}

impl Facts {
    pub(crate) fn new(
        clause: impl Into<Cow<'static, str>>,
        code: impl Into<Cow<'static, str>>,
        verdict: Verdict,
    ) -> Self {
        Self { clause: clause.into(), code: code.into(), verdict, retry_after: None, source: None }
    }

    pub(crate) fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn breach(clause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(clause, ErrorCode::ProtocolError.as_str().to_owned(), Verdict::Permanent)
    }

    pub(crate) fn refusal(clause: &'static str, refusal: &Refusal) -> Self {
        let code = printable(refusal.code.as_str());
        let mut facts = Self::new(clause, code, Verdict::retriable(refusal.code.is_retriable()));
        facts.retry_after = refusal.retry_after;
        facts
    }
}

/// A code from outside, as far as it looks like one: a text that does not must not reach a log.
pub(crate) fn printable(code: &str) -> Cow<'static, str> {
    let looks_like_one = (1..=64).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if looks_like_one { Cow::Owned(code.to_owned()) } else { Cow::Borrowed("UNKNOWN") }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The source may quote the other side (names in its certificate, say).
        f.debug_struct("Facts")
            .field("clause", &self.clause)
            .field("code", &self.code)
            .field("verdict", &self.verdict)
            .field("retry_after", &self.retry_after)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.clause, self.code)
    }
}

/// The accessors that every error of this crate has, and its traits.
macro_rules! error_type {
    ($error:ident, $kind:ident) => {
        impl $error {
            /// What happened, to match on.
            #[must_use]
            pub const fn kind(&self) -> $kind {
                self.kind
            }

            /// A short code to print: `PROTOCOL_ERROR` for a breach that this side found, `CLOSE_` and
            /// the number for a close without an error, `HTTP_` and the status for a refusal without a
            /// readable body, the platform's own code where it gave one, else a word of ours.
            #[must_use]
            pub fn code(&self) -> &str {
                &self.facts.code
            }

            /// Whether a consumer tries again after a wait.
            #[must_use]
            pub fn is_retriable(&self) -> bool {
                self.facts.verdict == $crate::error::Verdict::Retriable
            }

            /// How long the platform asks to be left alone, as it stated it. A consumer honours at most
            /// [`perilune_proto::limits::RETRY_AFTER_HONOURED_MAX`].
            #[must_use]
            pub fn retry_after(&self) -> Option<std::time::Duration> {
                self.facts.retry_after
            }

            /// Whether the credential is unknown, expired or revoked.
            #[must_use]
            pub fn is_unauthenticated(&self) -> bool {
                matches!(self.code(), "UNAUTHENTICATED" | "HTTP_401")
            }

            /// Whether the credential may not do this.
            #[must_use]
            pub fn is_permission_denied(&self) -> bool {
                matches!(self.code(), "PERMISSION_DENIED" | "HTTP_403")
            }

            /// Whether this credential has no such subscription.
            #[must_use]
            pub fn is_subscription_not_found(&self) -> bool {
                self.code() == "SUBSCRIPTION_NOT_FOUND"
            }

            /// Whether the log no longer holds the subscription's next event.
            #[must_use]
            pub fn is_history_gap(&self) -> bool {
                self.code() == "HISTORY_GAP"
            }

            /// Whether one side broke the contract.
            #[must_use]
            pub fn is_protocol_error(&self) -> bool {
                self.code() == "PROTOCOL_ERROR"
            }
        }

        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.facts, f)
            }
        }

        impl std::error::Error for $error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                self.facts.source.as_deref().map(|source| source as _)
            }
        }
    };
}
pub(crate) use error_type;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_a_text_is_not_shown() {
        assert_eq!(printable("HISTORY_GAP"), "HISTORY_GAP");
        for text in ["", "token s3cret refused", "Unauthenticated", "A\nB", &"A".repeat(65)] {
            assert_eq!(printable(text), "UNKNOWN", "{text}");
        }
    }
}
