//! A message on its way out.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use perilune_proto::scalar::{MessageId, Name};
use zeroize::Zeroize as _;

/// Most bytes of a body.
pub const BODY_BYTES_MAX: usize = 1_048_576;
/// Most characters of an order key.
const ORDER_KEY_CHARS_MAX: usize = 200;
/// Most characters of a content type.
const CONTENT_TYPE_CHARS_MAX: usize = 128;

/// What messages must keep their order among: an account, an order, a document. 1 to 200 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(Arc<str>);

impl OrderKey {
    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OrderKey {
    type Err = MessageError;

    fn from_str(text: &str) -> Result<Self, MessageError> {
        if (1..=ORDER_KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(MessageError::OrderKey)
        }
    }
}

/// A part of a message is not what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The topic is not a name.
    #[error("a topic must be 1 to 128 of A-Z a-z 0-9 . _ -")]
    Topic,
    /// The order key is empty, too long or has other characters.
    #[error("an order key must be 1 to 200 visible ASCII characters")]
    OrderKey,
    /// The content type is empty, too long or has other characters.
    #[error("a content type must be 1 to 128 printable ASCII characters")]
    ContentType,
    /// The body is too long.
    #[error("a body must be at most 1,048,576 bytes")]
    Body,
}

/// A message to be sent after the transaction that writes it has committed.
///
/// Its body is business data: it never prints and is wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub(super) id: MessageId,
    pub(super) topic: Name,
    pub(super) order_key: Option<OrderKey>,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// A JSON message on a topic, under a fresh random id and in no order.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn new(topic: &str, body: impl Into<Vec<u8>>) -> Result<Self, MessageError> {
        let topic = topic.parse().map_err(|_| MessageError::Topic)?;
        let body = body.into();
        if body.len() > BODY_BYTES_MAX {
            return Err(MessageError::Body);
        }
        let id = MessageId::from_u128(rand::random());
        Ok(Self { id, topic, order_key: None, content_type: "application/json".to_owned(), body })
    }

    /// Gives the message an id of the caller's, which is its idempotency key. Writing the same id twice is a unique
    /// violation, so derive it from what must be sent once.
    #[must_use]
    pub const fn with_id(mut self, id: MessageId) -> Self {
        self.id = id;
        self
    }

    /// Sends the message after those of the same key that were committed before it.
    ///
    /// # Errors
    /// [`MessageError::OrderKey`].
    pub fn in_order_of(mut self, key: &str) -> Result<Self, MessageError> {
        self.order_key = Some(key.parse()?);
        Ok(self)
    }

    /// States another content type than JSON.
    ///
    /// # Errors
    /// [`MessageError::ContentType`].
    pub fn content_type(mut self, content_type: &str) -> Result<Self, MessageError> {
        let printable = |c: u8| c == b' ' || c.is_ascii_graphic();
        if !(1..=CONTENT_TYPE_CHARS_MAX).contains(&content_type.len()) || !content_type.bytes().all(printable) {
            return Err(MessageError::ContentType);
        }
        content_type.clone_into(&mut self.content_type);
        Ok(self)
    }

    /// The message's id: its idempotency key wherever it goes.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        self.id
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("id", &self.id).field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.body.zeroize();
    }
}

/// A message that a relay has claimed and hands to its sender.
///
/// Its body is business data: it never prints and is wiped when dropped.
pub struct Outgoing {
    pub(super) row: i64,
    pub(super) claim: String,
    /// Sending that has not begun by then might outlive the claim.
    pub(super) send_by: tokio::time::Instant,
    /// The idempotency key: the same in every attempt, by every relay.
    pub id: MessageId,
    /// What it is about.
    pub topic: Name,
    /// What it is in order with.
    pub order_key: Option<OrderKey>,
    /// The body's type.
    pub content_type: String,
    /// The body, as it was written.
    pub body: Vec<u8>,
    /// Which attempt this is, from 1. Attempts whose relay died count too; those that found the receiver
    /// [out of reach](super::SendFailure::out_of_reach) do not.
    pub attempt: u32,
    /// When it was written, by the database's clock.
    pub created_at: SystemTime,
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.body.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_out_of_their_bounds_are_refused() {
        assert_eq!(Message::new("a b", "").err(), Some(MessageError::Topic));
        assert_eq!(Message::new("a", vec![0; BODY_BYTES_MAX + 1]).err(), Some(MessageError::Body));
        let message = || Message::new("a", vec![0; BODY_BYTES_MAX]).expect("valid");
        for bad in ["", "a b", "é", &"k".repeat(201)] {
            assert_eq!(message().in_order_of(bad).err(), Some(MessageError::OrderKey), "{bad}");
        }
        for bad in ["", "a\r\nb", &"t".repeat(129)] {
            assert_eq!(message().content_type(bad).err(), Some(MessageError::ContentType), "{bad}");
        }
        assert!(message().in_order_of(&"k".repeat(200)).is_ok());
    }

    #[test]
    fn a_body_never_prints() {
        let message = Message::new("topic", "s3cret").expect("valid");
        assert!(!format!("{message:?}").contains("s3cret"));
        assert!(!format!("{message:?}").contains("115"));
    }
}
