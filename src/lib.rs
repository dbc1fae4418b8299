#![cfg_attr(all(feature = "cli", feature = "sqlite"), doc = include_str!("../README.md"))]
#![cfg_attr(not(all(feature = "cli", feature = "sqlite")), doc = "Durable result events for actix applications.")]

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
#[cfg(feature = "testkit")]
pub mod testkit;
#[cfg(feature = "outcome")]
pub mod typescript;

/// The supervised actors that consume events.
#[cfg(feature = "inbox")]
pub use perilune_actors as consumer;
/// One session of the contract, without policy.
#[cfg(feature = "inbox")]
pub use perilune_actors::client;
/// The contract as pure code.
pub use perilune_proto as proto;
