//! Operations and their typed outcomes.
//!
//! Source: outcome.md.

mod accept;
mod apply;
mod authorise;
mod dispatch;
mod error;
mod handler;
mod inline;
pub mod lifecycle;
mod operation;
mod operations;
mod platform_sender;
pub mod protect;
mod query;
mod registry;
pub mod retention;
mod rotation;
mod save;
pub mod status;
mod store;

pub use accept::AcceptedOperation;
pub use apply::AppliedEvent;
pub use authorise::{
    AuthoriseBy, Authoriser, AuthoriserError, Caller, Deciding, Decision, DenyAll, QueryPurpose, Subject,
};
pub use dispatch::{DISPATCH_TOPIC, DispatchError};
pub use error::OutcomeStoreError;
pub use operation::{EmptyOutcome, EphemeralOutcome, Operation, OperationId, Outcome};
pub use operations::{Operations, OperationsBuilder, Origin};
pub use platform_sender::{NoOtherTopics, PlatformSender};
pub use query::{FindOutcome, OutcomeQuery, OutcomeRecord, QueryError};
pub use rotation::KeyRotation;
pub use store::OutcomeEngine;

#[cfg(doctest)]
#[doc = include_str!("../../docs/outcome.md")]
struct OutcomeDocument;
