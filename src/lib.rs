//! Perilune: durable result events for actix applications.

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "inbox")]
pub mod inbox;
#[cfg(feature = "outbox")]
pub mod outbox;
#[cfg(feature = "outcome")]
pub mod outcome;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "_sql")]
pub mod sql;
#[cfg(feature = "outcome")]
pub mod typescript;
