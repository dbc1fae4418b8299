//! The frames of the contract, both directions.
//!
//! Source: events-v1.md sections 2 to 4. The decoders and encoders here are the only ways between these
//! types and text; which frame may come when is [`crate::session`]'s business.

mod code;
mod decode;
mod decode_event;
mod encode;
mod error;
mod shape;
mod verbatim;

use std::fmt;
use std::sync::Arc;

use crate::event::ResultEvent;
use crate::proof::EventProof;
use crate::scalar::{DeliveryId, EventId, Generation, MessageId, Secret, SessionId, SubscriptionId, Timestamp};

pub use code::{CloseCode, ErrorCode};
pub use decode::{decode_client, decode_server, message_text};
pub use decode_event::decode_event;
pub use encode::{encode_client, encode_delivery, encode_event, encode_server, encode_snapshot};
pub use error::FrameError;

/// A frame that a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientFrame {
    /// Opens the session; the first frame of a client.
    Register(Register),
    /// Confirms a delivery.
    Ack(Ack),
    /// Keeps the session and asks whether the subscription is enabled.
    Ping(Ping),
}

/// Opens a session on a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// Correlates the `welcome` or `error`.
    pub message_id: MessageId,
    /// The subscription to consume.
    pub subscription_id: SubscriptionId,
    /// Unconfirmed, unlapsed deliveries that the server may have outstanding: 1 to 32.
    pub capacity: u8,
}

/// Confirms a delivery with its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// This session.
    pub session_id: SessionId,
    /// Correlates the reply.
    pub message_id: MessageId,
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// Which lease of it.
    pub generation: Generation,
    /// What only the receiver of that lease knows.
    pub secret: Secret,
}

/// Keeps a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// This session.
    pub session_id: SessionId,
    /// Correlates the reply.
    pub message_id: MessageId,
}

/// A frame that a server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerFrame {
    /// Answers `register`.
    Welcome(Welcome),
    /// An event under a lease.
    Delivery(Delivery),
    /// Answers an `ack` that confirmed.
    Acked(Acked),
    /// Answers a `ping`.
    Pong(Pong),
    /// Answers a request that failed, or ends the session.
    Error(ErrorFrame),
}

/// The session's terms, as they were at the handshake's moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The `register`'s message id.
    pub reply_to: MessageId,
    /// The new session.
    pub session_id: SessionId,
    /// The registered subscription.
    pub subscription_id: SubscriptionId,
    /// The subscription's name: 1 to 128 characters.
    pub subscription_name: String,
    /// Whether new deliveries come; `false` while the subscription is paused.
    pub enabled: bool,
    /// The `register`'s capacity.
    pub capacity: u8,
    /// How often the client pings, in milliseconds: 1,000 to 15,000.
    pub heartbeat_interval_ms: u32,
    /// How long a lease lasts from its sending, in milliseconds: 1,000 to 30,000.
    pub lease_ms: u32,
    /// The server's wall clock.
    pub server_time: Timestamp,
}

/// An event under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// This session.
    pub session_id: SessionId,
    /// What confirms it.
    pub proof: EventProof,
    /// What was left of the lease when it was sent, in milliseconds: 1 to 30,000.
    pub lease_ms: u32,
    /// What happened.
    pub event: Arc<ResultEvent>,
}

/// The receipt for an `ack`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acked {
    /// This session.
    pub session_id: SessionId,
    /// The `ack`'s message id.
    pub reply_to: MessageId,
    /// The confirmed delivery.
    pub delivery_id: DeliveryId,
    /// Its event.
    pub event_id: EventId,
    /// The confirmed generation.
    pub generation: Generation,
    /// Whether the same proof had been confirmed before.
    pub replayed: bool,
}

/// The answer to a `ping`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pong {
    /// This session.
    pub session_id: SessionId,
    /// The `ping`'s message id.
    pub reply_to: MessageId,
    /// Whether the subscription is enabled; `false` while it is paused.
    pub enabled: bool,
}

/// What failed.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorFrame {
    /// This session; absent before `welcome`.
    pub session_id: Option<SessionId>,
    /// The request that failed; absent where the session as a whole is meant, which then ends.
    pub reply_to: Option<MessageId>,
    /// What failed.
    pub code: ErrorCode,
    /// Remote detail: never in logs, `Debug` or `Display`.
    pub message: String,
    /// When to try again at the earliest, in milliseconds: 0 to 3,600,000.
    pub retry_after_ms: Option<u32>,
}

impl fmt::Debug for ErrorFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorFrame")
            .field("session_id", &self.session_id)
            .field("reply_to", &self.reply_to)
            .field("code", &self.code)
            .field("retry_after_ms", &self.retry_after_ms)
            .finish_non_exhaustive()
    }
}
