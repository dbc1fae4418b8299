//! Asking for an outcome from Rust: denied unless somebody allows it.
//!
//! Source: outcome.md section 3. The order is fixed: the subject by id and tenant, the authoriser, the blob, its key.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::authorise::{Authoriser, AuthoriserError, Caller, Decision, DenyAll, QueryPurpose, Subject};
use super::lifecycle::OperationState;
use super::protect::{self, Purpose};
use super::store::blob::{self, KeptOutcome};
use super::store::row::{self, Mode, OperationRow, Scope};
use super::{OperationId, Operations, Outcome, OutcomeEngine, OutcomeStoreError};
use crate::sql::SqlError;

/// What a query found.
#[derive(Debug)]
pub enum FindOutcome {
    /// The outcome of a completed operation.
    Found(OutcomeRecord),
    /// Unknown, of another tenant, denied, unfinished, inline, ephemeral or purged: all look the same. How the
    /// operation stands must not be guessed from it.
    Unavailable,
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The authoriser failed.
    #[error(transparent)]
    Authoriser(#[from] AuthoriserError),
    /// The store failed, or what it holds can't be read.
    #[error(transparent)]
    Store(#[from] OutcomeStoreError),
    /// The operation completed, its outcome is missing, and no audit says that it was purged.
    #[error("operation {0} completed without the outcome that it must have")]
    Contradiction(OperationId),
}

impl From<SqlError> for QueryError {
    fn from(error: SqlError) -> Self {
        Self::Store(OutcomeStoreError::Storage(error))
    }
}

/// An outcome, opened and not yet typed. Its payload is wiped when it is dropped and never prints.
pub struct OutcomeRecord {
    operation_id: OperationId,
    operation_type: String,
    outcome_type: String,
    schema_version: u32,
    payload: Zeroizing<Vec<u8>>,
}

impl OutcomeRecord {
    /// The operation.
    #[must_use]
    pub const fn operation_id(&self) -> OperationId {
        self.operation_id
    }

    /// The operation's type.
    #[must_use]
    pub fn operation_type(&self) -> &str {
        &self.operation_type
    }

    /// The outcome's type.
    #[must_use]
    pub fn outcome_type(&self) -> &str {
        &self.outcome_type
    }

    /// The outcome as its type.
    ///
    /// # Errors
    /// [`OutcomeStoreError::TypeMismatch`], [`OutcomeStoreError::UnsupportedSchemaVersion`],
    /// [`OutcomeStoreError::CorruptedPayload`].
    pub fn outcome<O: Outcome>(&self) -> Result<O, OutcomeStoreError> {
        if self.outcome_type != O::TYPE {
            return Err(OutcomeStoreError::TypeMismatch {
                found: self.outcome_type.clone(),
                asked: O::TYPE.to_owned(),
            });
        }
        if self.schema_version > O::SCHEMA_VERSION {
            return Err(OutcomeStoreError::UnsupportedSchemaVersion {
                found: self.schema_version,
                known: O::SCHEMA_VERSION,
            });
        }
        serde_json::from_slice(&self.payload).map_err(|_| OutcomeStoreError::CorruptedPayload)
    }

    /// The payload's JSON, for whoever was allowed to see it.
    pub(super) fn payload(&self) -> Result<&str, OutcomeStoreError> {
        std::str::from_utf8(&self.payload).map_err(|_| OutcomeStoreError::CorruptedPayload)
    }
}

impl std::fmt::Debug for OutcomeRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutcomeRecord")
            .field("operation_id", &self.operation_id)
            .field("outcome_type", &self.outcome_type)
            .finish_non_exhaustive()
    }
}

/// The only way to an outcome.
pub struct OutcomeQuery<DB: OutcomeEngine> {
    operations: Operations<DB>,
    authoriser: Arc<dyn Authoriser>,
}

impl<DB: OutcomeEngine> std::fmt::Debug for OutcomeQuery<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutcomeQuery").finish_non_exhaustive()
    }
}

impl<DB: OutcomeEngine> Clone for OutcomeQuery<DB> {
    fn clone(&self) -> Self {
        Self { operations: self.operations.clone(), authoriser: Arc::clone(&self.authoriser) }
    }
}

/// How an allowed detail read ended.
pub(super) enum Detail {
    Kept(OutcomeRecord),
    Purged,
}

impl<DB: OutcomeEngine> OutcomeQuery<DB> {
    /// A query that denies everything.
    #[must_use]
    pub fn new(operations: &Operations<DB>) -> Self {
        Self { operations: operations.clone(), authoriser: Arc::new(DenyAll) }
    }

    /// The same query with an authoriser that may allow.
    #[must_use]
    pub fn with_authoriser(mut self, authoriser: impl Authoriser + 'static) -> Self {
        self.authoriser = Arc::new(authoriser);
        self
    }

    /// The outcome of an operation, where there is one and the caller may know it, for
    /// [`QueryPurpose::ReadOutcome`].
    ///
    /// # Errors
    /// [`QueryError`]: an authoriser that fails is an error, never a deny.
    pub async fn find(&self, id: OperationId, caller: &Caller) -> Result<FindOutcome, QueryError> {
        self.find_for(id, caller, QueryPurpose::ReadOutcome).await
    }

    /// [`OutcomeQuery::find`] for another purpose, which the authoriser is told.
    ///
    /// # Errors
    /// [`QueryError`]: an authoriser that fails is an error, never a deny.
    pub async fn find_for(
        &self,
        id: OperationId,
        caller: &Caller,
        purpose: QueryPurpose,
    ) -> Result<FindOutcome, QueryError> {
        let Some(operation) = self.read_subject(id, caller).await? else { return Ok(FindOutcome::Unavailable) };
        if self.decide(id, Some(&operation), caller, purpose).await? == Decision::Deny {
            return Ok(FindOutcome::Unavailable);
        }
        if operation.standing.state != OperationState::Completed || operation.mode != Mode::Deferred {
            return Ok(FindOutcome::Unavailable);
        }
        Ok(match self.read_detail(&operation).await? {
            Detail::Kept(record) => FindOutcome::Found(record),
            Detail::Purged => FindOutcome::Unavailable,
        })
    }

    /// The operation's clear columns, where it is of the caller's tenant. The connection goes back to the pool before
    /// the authoriser is asked, which may need one itself.
    pub(super) async fn read_subject(
        &self,
        id: OperationId,
        caller: &Caller,
    ) -> Result<Option<OperationRow>, SqlError> {
        let mut connection = self.operations.readers.acquire().await?;
        let scope = Scope::Tenant(caller.tenant.as_deref());
        row::find::<DB>(&mut connection, &self.operations.dialect, id, scope).await
    }

    /// Asks the authoriser; about an operation that is not there as about one that is.
    pub(super) async fn decide(
        &self,
        id: OperationId,
        operation: Option<&OperationRow>,
        caller: &Caller,
        purpose: QueryPurpose,
    ) -> Result<Decision, AuthoriserError> {
        let subject = Subject {
            purpose,
            operation_id: id,
            operation_type: operation.map_or("", |operation| &operation.operation_type),
            current_actor: caller.actor.as_deref(),
            origin_actor: operation.and_then(|operation| operation.actor.as_deref()),
            current_tenant: caller.tenant.as_deref(),
            origin_tenant: operation.map_or(caller.tenant.as_deref(), |operation| operation.tenant.as_deref()),
        };
        self.authoriser.decide(subject).await
    }

    /// Reads and opens the outcome of a completed operation that the caller may know: one statement, so one snapshot
    /// of state, outcome and audit.
    pub(super) async fn read_detail(&self, operation: &OperationRow) -> Result<Detail, QueryError> {
        let id = operation.operation_id;
        let mut connection = self.operations.readers.acquire().await.map_err(SqlError::from)?;
        let kept = blob::read_outcome::<DB>(&mut connection, &self.operations.dialect, id).await?;
        drop(connection);
        match kept {
            KeptOutcome::Purged => Ok(Detail::Purged),
            KeptOutcome::Missing => Err(QueryError::Contradiction(id)),
            KeptOutcome::Present { outcome_type, schema_version, blob } => {
                let context = operation.blob_context(Purpose::Outcome, schema_version);
                let payload =
                    protect::open(&*self.operations.keys, &context, &blob).map_err(OutcomeStoreError::from)?;
                let operation_type = operation.operation_type.clone();
                Ok(Detail::Kept(OutcomeRecord {
                    operation_id: id,
                    operation_type,
                    outcome_type,
                    schema_version,
                    payload,
                }))
            }
        }
    }
}
