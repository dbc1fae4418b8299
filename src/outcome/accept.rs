//! Accepting an operation in the application's own transaction.
//!
//! Source: outcome.md section 1.

use perilune_proto::scalar::Timestamp;

use super::lifecycle::Standing;
use super::operations::{Origin, check_type, now_micros};
use super::protect::{self, Purpose};
use super::store::blob::{self, BlobRow};
use super::store::row::{self, Mode, OperationRow};
use super::{Operation, OperationId, Operations, OutcomeEngine, OutcomeStoreError};

/// The schema version of an input: an operation's type names it, so a change of its input is a new type.
const INPUT_SCHEMA_VERSION: u32 = 1;

/// An operation that was accepted; it exists once the transaction commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedOperation {
    /// The operation, and the platform's task.
    pub operation_id: OperationId,
    /// When.
    pub accepted_at: Timestamp,
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// Accepts an operation inside the transaction `on`: its row and its protected input. After an error the
    /// transaction must be rolled back.
    ///
    /// Nothing has been sent to the platform yet.
    ///
    /// # Errors
    /// [`OutcomeStoreError::Text`], [`OutcomeStoreError::CorruptedPayload`] where the input does not serialise,
    /// [`OutcomeStoreError::Protection`], [`OutcomeStoreError::Storage`].
    pub async fn accept<O: Operation>(
        &self,
        on: &mut DB::Connection,
        input: &O::Input,
        origin: Origin,
    ) -> Result<AcceptedOperation, OutcomeStoreError> {
        let input = serde_json::to_string(input).map_err(|_| OutcomeStoreError::CorruptedPayload)?;
        self.accept_input(on, O::TYPE, &zeroize::Zeroizing::new(input), origin).await
    }

    pub(super) async fn accept_input(
        &self,
        on: &mut DB::Connection,
        operation_type: &str,
        input: &str,
        origin: Origin,
    ) -> Result<AcceptedOperation, OutcomeStoreError> {
        check_type(operation_type)?;
        origin.check()?;
        let now = now_micros();
        let operation_id = OperationId::new();
        let operation = OperationRow {
            operation_id,
            operation_type: operation_type.to_owned(),
            tenant: origin.tenant,
            actor: origin.actor,
            mode: Mode::Deferred,
            standing: Standing::accepted(),
            attempt: 0,
            accepted_at: now,
            completed_at: None,
        };
        if !row::insert::<DB>(on, &self.dialect, &operation).await? {
            return Err(OutcomeStoreError::Duplicate(operation_id));
        }
        let context = operation.blob_context(Purpose::Input, INPUT_SCHEMA_VERSION);
        let blob = protect::protect(&*self.keys, &context, input.as_bytes())?;
        let kept = BlobRow {
            operation_id,
            schema_version: INPUT_SCHEMA_VERSION,
            key_id: blob.key_id()?.0,
            blob: &blob,
            stored_at: now,
        };
        blob::insert_input::<DB>(on, &self.dialect, &kept).await?;
        let accepted_at = Timestamp::from_unix_micros(now).ok_or(OutcomeStoreError::CorruptedPayload)?;
        Ok(AcceptedOperation { operation_id, accepted_at })
    }
}
