//! Fresh message ids. The contract's crate has no randomness of its own.

use perilune_proto::scalar::MessageId;

/// Makes ids that no other request has.
pub trait NewMessageId {
    /// 128 random bits.
    #[must_use]
    fn new() -> Self;
}

impl NewMessageId for MessageId {
    fn new() -> Self {
        Self::from_u128(rand::random())
    }
}
