//! One validated type for each scalar of the contract. Parsing is the only way in.
//!
//! Source: events-v1.md section 2. A value of one of these types is always well formed, so nothing
//! behind the frame reader checks it a second time.

mod count;
mod id;
mod name;
mod secret;
mod timestamp;

pub use count::{Generation, Sequence, TaskVersion, parse_u64};
pub use id::{DeliveryId, EventId, MessageId, SessionId, SubscriptionId, TaskId};
pub use name::Name;
pub use secret::Secret;
pub use timestamp::Timestamp;

/// Why a text is not the scalar it was read as.
///
/// The text itself is never part of the message: it may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {expected}")]
pub struct ScalarError {
    /// What is allowed, as a noun phrase.
    pub expected: &'static str,
}

impl ScalarError {
    pub(crate) const fn new(expected: &'static str) -> Self {
        Self { expected }
    }
}

/// A scalar that appends itself as it is written, without quotes: frames are made of these, and to go through
/// [`std::fmt::Display`] takes several times as long.
pub(crate) trait Written {
    fn push_to(&self, text: &mut String);
}

impl<T: Written> Written for &T {
    fn push_to(&self, text: &mut String) {
        (*self).push_to(text);
    }
}

/// Appends bytes that are known to be ASCII.
fn push_ascii(text: &mut String, ascii: &[u8]) {
    text.push_str(std::str::from_utf8(ascii).unwrap_or_default());
}
