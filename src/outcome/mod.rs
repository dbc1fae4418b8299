//! Operations and their typed outcomes.
//!
//! Source: outcome.md.

mod operation;
pub mod protect;

pub use operation::{EmptyOutcome, EphemeralOutcome, Operation, OperationId, Outcome};
