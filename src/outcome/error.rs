//! What can go wrong with outcomes. No message holds payload.

use super::OperationId;
use super::protect::ProtectError;
use crate::sql::SqlError;

/// Why an outcome can't be saved or read.
///
/// Source: outcome.md section 2.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeStoreError {
    /// The operation has an outcome already; the first one stays.
    #[error("operation {0} has an outcome already")]
    Duplicate(OperationId),
    /// The operation is unknown, or it has not completed.
    #[error("operation {0} is unknown or has not completed")]
    NotCompleted(OperationId),
    /// The outcome was written with a schema version that this build does not read.
    #[error("outcome has schema version {found}, this build reads up to {known}")]
    UnsupportedSchemaVersion {
        /// What is stored.
        found: u32,
        /// The type's own.
        known: u32,
    },
    /// What is stored is not what the type reads.
    #[error("the outcome's payload does not decode as its type")]
    CorruptedPayload,
    /// The outcome, or the operation, is of another type.
    #[error("it is of type {found}, not {asked}")]
    TypeMismatch {
        /// What is stored.
        found: String,
        /// What was asked for.
        asked: String,
    },
    /// An operation of this type stands here, and the type is not registered: another program knows it.
    #[error("operations of type {0} are not registered here, and one stands here")]
    NotRegistered(String),
    /// The operation ends without an outcome that is kept: inline, ephemeral, or not successful.
    #[error("operation {0} ends without an outcome that is kept")]
    NotAnOutcome(OperationId),
    /// A tenant, an actor or an operation's type does not fit its column.
    #[error("{field} must be {allowed}")]
    Text {
        /// Which.
        field: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The blob can't be written or opened.
    #[error("the outcome can't be protected or opened")]
    Protection(#[from] ProtectError),
    /// The database failed.
    #[error("the outcome store failed")]
    Storage(#[from] SqlError),
}
