//! The tables of operations and outcomes, and the statements on them.
//!
//! Private to [`crate::outcome`]: what it reads goes out through the query and the status resource alone.

pub(super) mod blob;
mod dialect;
mod engine;
pub(super) mod journal;
pub(super) mod row;
mod schema;

pub(super) use dialect::Dialect;
pub use engine::OutcomeEngine;
pub(super) use engine::Value;
pub(super) use schema::COMPONENT;
