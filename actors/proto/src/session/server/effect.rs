//! The vocabulary of a server's session: its terms, effects and answers.

use std::borrow::Cow;
use std::fmt;

use crate::limits::{HEARTBEAT_MS_DEFAULT, LEASE_MS_DEFAULT};
use crate::scalar::{EventId, MessageId, SessionId, Timestamp};
use crate::wire::{Ack, CloseCode, ErrorCode, Register};

/// What every `welcome` of a server states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How often a client pings, in milliseconds: 1,000 to 15,000. Three of them without a control request end a session.
    pub heartbeat_interval_ms: u32,
    /// How long a lease lasts, in milliseconds: 1,000 to 30,000.
    pub lease_ms: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { heartbeat_interval_ms: HEARTBEAT_MS_DEFAULT, lease_ms: LEASE_MS_DEFAULT }
    }
}

/// What the owner of the socket has to do. Effects are carried out in the order in which they come.
#[derive(PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Look the subscription up for this credential, then call `accept` or `refuse`.
    Register(Register),
    /// Check the credential, let the store judge the proof and make a confirmation durable, then call `answer_ack`.
    Confirm(Ack),
    /// Check the credential and its permission afresh, then call `answer_ping`.
    Check {
        /// The ping's.
        message_id: MessageId,
    },
    /// Send this text message. It may hold a secret or business data: keep it out of logs.
    Send(String),
    /// Close the WebSocket with this code. Always the last effect.
    Close(CloseCode),
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(register) => f.debug_tuple("Register").field(register).finish(),
            Self::Confirm(ack) => f.debug_tuple("Confirm").field(ack).finish(),
            Self::Check { message_id } => f.debug_struct("Check").field("message_id", message_id).finish(),
            Self::Send(text) => write!(f, "Send([{} bytes])", text.len()),
            Self::Close(code) => write!(f, "Close({code})"),
        }
    }
}

/// Which deadline comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// `register` is due: without it the session ends with 1002.
    Register,
    /// A control request is due: after three heartbeat intervals without one the session ends with 1001.
    Silence,
    /// A lease lapses: its credit is free again.
    Lapse,
}

/// What `welcome` says about the subscription that was found.
#[derive(Debug, Clone)]
pub struct Admission {
    /// A new, random id.
    pub session_id: SessionId,
    /// 1 to 128 characters.
    pub subscription_name: String,
    /// Whether new deliveries come; `false` while the subscription is paused.
    pub enabled: bool,
    /// The server's wall clock.
    pub server_time: Timestamp,
}

/// Why a session or a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code; its close code follows the error, since every refusal ends the session.
    pub code: ErrorCode,
    /// Said to the client. No secret, no other credential's data.
    pub message: Cow<'static, str>,
    /// When to try again at the earliest, in milliseconds: 0 to 3,600,000.
    pub retry_after_ms: Option<u32>,
}

impl Refusal {
    /// A refusal without a time to try again.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None }
    }
}

/// The store's verdict on a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckVerdict {
    /// It confirms, and that is durable.
    Confirmed {
        /// The delivery's event.
        event_id: EventId,
        /// Whether the same proof had been confirmed before.
        replayed: bool,
    },
    /// A newer generation exists, or the delivery is no longer kept: `PROOF_LOST`, the connection stays.
    Lost,
    /// The secret is wrong, or the generation was never leased: `PROOF_INVALID`, the connection stays.
    Invalid,
    /// The credential may no longer consume, or the store is down. Ends the session.
    Refused(Refusal),
}

/// Why a delivery was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDelivered {
    /// No `welcome` was sent, or the session is over.
    #[error("the session is not open")]
    NotOpen,
    /// The delivery belongs to another subscription.
    #[error("the delivery belongs to another subscription")]
    OtherSubscription,
    /// What is left of the lease is not 1 to 30,000 ms; with 0 it has lapsed on its way here.
    #[error("the lease is out of its range")]
    Lease,
    /// As many deliveries as the session's capacity are outstanding.
    #[error("the session has no credit left")]
    NoCredit,
}
