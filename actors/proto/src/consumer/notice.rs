//! What a consumer tells whoever listens. Nothing in the work depends on it.
//!
//! Source: consumer.md section 6, settled.md.

use super::action::Replay;
use super::cause::DisconnectCause;
use crate::scalar::{EventId, Generation};

/// The code of every handler failure: whatever the handler said stays inside the process.
pub const HANDLER_FAILED: &str = "HANDLER_FAILED";

/// Something a listener may want to know. Holds no secret, payload or remote text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A session was opened.
    Connected,
    /// A session ended, but not at a clean stop.
    Disconnected {
        /// Why.
        cause: DisconnectCause,
    },
    /// A handler ended without ok: error, panic, dropped reply or stopped actor.
    HandlerFailed {
        /// The event.
        event_id: EventId,
        /// Which lease of it.
        generation: Generation,
        /// Always [`HANDLER_FAILED`].
        code: &'static str,
    },
    /// A proof was confirmed.
    Acknowledged {
        /// The event.
        event_id: EventId,
        /// The confirmed generation.
        generation: Generation,
        /// Whether it had been confirmed before.
        replayed: Replay,
    },
    /// A committed proof was superseded or is no longer kept by the platform.
    ProofLost {
        /// The event.
        event_id: EventId,
        /// The lost generation.
        generation: Generation,
    },
    /// A lease lapsed: of an event or a successor that waited (which is gone with it), or of a running
    /// handler (which goes on).
    LeaseLapsed {
        /// The event.
        event_id: EventId,
        /// The lapsed generation.
        generation: Generation,
    },
    /// The run is over. The last notice.
    Stopped,
}
