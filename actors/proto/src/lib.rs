//! The `orbit.events.v1` contract as pure code.
//!
//! - [`scalar`], [`json`], [`wire`]: the frames, strict in both directions.
//! - [`event`], [`proof`]: what is delivered, and what confirms it.
//! - [`session`]: the two ends of one session.
//! - [`consumer`]: the consumer's decisions; [`backoff`] and [`rng`] serve it.
//! - [`lease`], [`dispatch`], [`task`]: the server's rules.
//! - [`limits`]: every number of the contract.
//! - [`instant`]: sums of a moment and a wait.
//!
//! This crate knows no clock, no I/O, no randomness of its own and no `async`.

pub mod backoff;
pub mod consumer;
pub mod dispatch;
pub mod event;
pub mod instant;
pub mod json;
pub mod lease;
pub mod limits;
pub mod proof;
pub mod rng;
pub mod scalar;
pub mod session;
#[cfg(feature = "sim")]
pub mod sim;
pub mod task;
pub mod wire;

pub use event::{ResultEvent, Snapshot, Status, TaskError};
pub use json::RawJson;
pub use proof::EventProof;
