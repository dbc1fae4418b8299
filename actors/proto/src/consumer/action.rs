//! The vocabulary of the consumer machine: what it hears and what it wants done. Nothing else.
//!
//! Values carry ids, events and proofs, never a socket, a future or an address, so that a shell of actors
//! and the simulator speak the same words.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::cause::DisconnectCause;
use super::notice::Notice;
use super::report::FinishReport;
use crate::event::ResultEvent;
use crate::proof::EventProof;
use crate::scalar::{EventId, Generation};

/// Numbers the connections of one run, dials included. News of an older epoch is late and discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Numbers the handler runs of one run of the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A child of the subscription, which it replaces when it crashes (consumer.md section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Owns one socket.
    Connection,
    /// Owns the interval.
    Heartbeat,
    /// Carries proofs to the connection.
    Acknowledger,
    /// Owns the running handlers and their tokens.
    HandlerPool,
}

impl Role {
    /// Every child.
    pub const ALL: [Self; 4] = [Self::Connection, Self::Heartbeat, Self::Acknowledger, Self::HandlerPool];

    /// The role as one lower-case word, for logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Heartbeat => "heartbeat",
            Self::Acknowledger => "acknowledger",
            Self::HandlerPool => "handler_pool",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether the subscription leases new deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// New deliveries come.
    Enabled,
    /// None come; what was delivered can still be confirmed.
    Paused,
}

impl From<bool> for Enabled {
    fn from(enabled: bool) -> Self {
        if enabled { Self::Enabled } else { Self::Paused }
    }
}

/// A delivery as the machine hears of it.
///
/// The connection has checked it against the contract and the registered subscription.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// What confirms it.
    pub proof: EventProof,
    /// What happened.
    pub event: Arc<ResultEvent>,
    /// What is left of the lease (at most 30 s). It becomes a deadline where it is heard.
    pub lease: Duration,
}

/// What became of an `ack`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AckAnswer {
    /// `acked`, checked against the proof that was sent. Only this settles a proof as confirmed.
    Confirmed {
        /// Whether the same proof had been confirmed before.
        replay: Replay,
    },
    /// `PROOF_LOST`: superseded or no longer kept. The connection stays.
    Lost,
    /// Any other `error` reply, as a cause ([`super::CauseCode::Error`]).
    Refused(DisconnectCause),
}

/// Whether a receipt is the first one of its proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// The proof had not been confirmed before.
    First,
    /// It had been: an earlier receipt was lost on its way.
    Replayed,
}

/// What became of a `ping`. One that is never answered ends the connection instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PingAnswer {
    /// `pong`.
    Pong(Enabled),
    /// An `error` reply, as a cause.
    Refused(DisconnectCause),
}

/// How a handler run ended. Only [`HandlerOutcome::Ok`] leads to an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerOutcome {
    /// The handler said ok: its effects are durable.
    Ok,
    /// The handler returned an error.
    Error,
    /// The handler panicked, anywhere.
    Panicked,
    /// The handler's reply was dropped, or its actor had stopped.
    Gone,
}

/// What a running handler's token is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunSignal {
    /// The consumer stops: please come to an end.
    Stopping,
    /// The lease has lapsed: another consumer may be handed the event. Cancels nothing by itself;
    /// an ok is still acknowledged.
    LeaseLapsed,
}

/// What the machine hears.
///
/// Every epoch of an [`Action::Dial`] ends with exactly one of `DialFailed`, `Disconnected` or
/// `ChildLost(Role::Connection)`, and none of its news follows that end. [`Action::Close`] is answered by
/// the same end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Input {
    /// The handshake ended with a `welcome`.
    Connected {
        /// Which dial.
        epoch: Epoch,
        /// The `welcome`'s `heartbeat_interval_ms`.
        heartbeat_interval: Duration,
        /// The `welcome`'s `enabled`, as of the handshake.
        enabled: Enabled,
    },
    /// The dial ended without a session, or was given up after [`Action::Close`].
    DialFailed {
        /// Which dial.
        epoch: Epoch,
        /// Why.
        cause: DisconnectCause,
    },
    /// The session is over and its reader has ended.
    Disconnected {
        /// Which connection.
        epoch: Epoch,
        /// Why.
        cause: DisconnectCause,
    },
    /// A delivery arrived. Hand each over as soon as it is there: the machine keeps those that wait.
    Delivered {
        /// On which connection.
        epoch: Epoch,
        /// The delivery.
        delivery: Delivered,
    },
    /// An [`Action::Ack`] was answered; answers come in the order of the actions. One that was sent and is not
    /// answered ends the connection within 10 s.
    AckAnswered {
        /// On which connection.
        epoch: Epoch,
        /// The proof's event.
        event_id: EventId,
        /// The proof's generation.
        generation: Generation,
        /// What the server said.
        answer: AckAnswer,
    },
    /// A `ping` of the heartbeat was answered.
    PingAnswered {
        /// On which connection.
        epoch: Epoch,
        /// What the server said.
        answer: PingAnswer,
    },
    /// A handler run ended.
    HandlerEnded {
        /// Which run.
        run: RunId,
        /// How.
        outcome: HandlerOutcome,
    },
    /// A child crashed. A lost pool has taken its handlers' results with it.
    ChildLost(Role),
    /// The shell itself crashed and a new one stands around this machine; all four children are gone, and
    /// any action that was polled may or may not have been carried out.
    ShellLost,
    /// So many notices were dropped because their reader is slow. Only counted.
    NoticesDropped(u64),
    /// Stop in an orderly way. Again: nothing more.
    Stop,
    /// The instant of [`super::Consumer::poll_timeout`] has come. Too early is harmless.
    TimedOut,
}

/// What the machine wants done. Poll all of them after each input, and carry them out in order.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Action {
    /// Open a connection: ask for the credential, resolve, handshake.
    Dial {
        /// The new connection's number.
        epoch: Epoch,
        /// The `register`'s capacity: the consumer's, or 1 where a stop only has proofs to report.
        capacity: u8,
    },
    /// Close the connection, or give its dial up. Answer with its end once its reader has ended.
    Close {
        /// Which connection.
        epoch: Epoch,
    },
    /// Let the heartbeat ping this connection: first after one interval, then once an interval, whatever
    /// else happens.
    StartHeartbeat {
        /// Which connection.
        epoch: Epoch,
        /// The interval.
        interval: Duration,
    },
    /// Let the heartbeat rest: its connection is gone or about to be closed.
    StopHeartbeat {
        /// Which connection.
        epoch: Epoch,
    },
    /// Report a proof on this connection, under a new message id, in its turn: behind those handed over before,
    /// one in flight at a time ([`super::AckQueue`]).
    Ack {
        /// On which connection.
        epoch: Epoch,
        /// The proof; its secret must not be printed.
        proof: EventProof,
    },
    /// Run the user's handler.
    Start {
        /// The run's number; its [`Input::HandlerEnded`] carries it.
        run: RunId,
        /// What happened.
        event: Arc<ResultEvent>,
        /// Which lease of the delivery.
        generation: Generation,
        /// When the lease lapses, by the local clock.
        lease_ends: std::time::Instant,
    },
    /// Tell a running handler's token.
    Signal {
        /// Which run.
        run: RunId,
        /// What.
        signal: RunSignal,
    },
    /// Replace a crashed child.
    Respawn(Role),
    /// Offer a notice to whoever listens. Never wait for it.
    Notify(Notice),
    /// The run is over; nothing follows but the end of the children. Always preceded by
    /// [`Notice::Stopped`].
    Finish(FinishReport),
}

/// Why the machine wants to hear [`Input::TimedOut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The wait before the next dial is over.
    Reconnect,
    /// A lease lapses of an event that waits, of a successor, or of a running handler.
    LeaseLapses,
    /// The connection has had nothing to confirm for a minute and counts as healthy again.
    Healthy,
    /// A child has been silent for longer than it may be.
    ChildSilent,
    /// `shutdown_timeout` is over.
    ShutdownDeadline,
}
