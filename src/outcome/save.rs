//! Saving an outcome: the first one wins.
//!
//! Source: outcome.md section 2.

use super::lifecycle::OperationState;
use super::operations::now_micros;
use super::protect::{self, Purpose};
use super::store::blob::{self, BlobRow, KeptOutcome};
use super::store::row::{self, Mode, OperationRow, Scope};
use super::{OperationId, Operations, Outcome, OutcomeEngine, OutcomeStoreError};

/// An outcome on its way into the store, its Rust type gone.
pub(super) struct NewOutcome<'a> {
    pub(super) outcome_type: &'static str,
    pub(super) schema_version: u32,
    pub(super) json: &'a str,
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// Saves the outcome of an operation that has completed, inside the transaction `on`. After an error the
    /// transaction must be rolled back.
    ///
    /// A `succeeded` event saves its result by itself. This is for whoever must put an outcome in place that the store
    /// does not hold, after a partial restore for example. Nothing that is there is merged or replaced.
    ///
    /// # Errors
    /// [`OutcomeStoreError::NotCompleted`] where the operation is unknown or pending,
    /// [`OutcomeStoreError::NotAnOutcome`] where it ended without one that is kept,
    /// [`OutcomeStoreError::TypeMismatch`] where its outcome is of another type,
    /// [`OutcomeStoreError::Duplicate`] where it has one, or had one that was purged,
    /// [`OutcomeStoreError::CorruptedPayload`] where it does not serialise, [`OutcomeStoreError::Protection`],
    /// [`OutcomeStoreError::Storage`].
    pub async fn save_outcome<O: Outcome>(
        &self,
        on: &mut DB::Connection,
        id: OperationId,
        outcome: &O,
    ) -> Result<(), OutcomeStoreError> {
        let operation = row::find::<DB>(on, &self.dialect, id, Scope::AnyTenantLocked).await?;
        let operation = operation.ok_or(OutcomeStoreError::NotCompleted(id))?;
        match (operation.mode, operation.standing.state) {
            (Mode::Deferred, OperationState::Completed) => {}
            (Mode::Deferred, state) if !state.is_terminal() => return Err(OutcomeStoreError::NotCompleted(id)),
            _ => return Err(OutcomeStoreError::NotAnOutcome(id)),
        }
        let registered = self.registry.find(&operation.operation_type);
        if registered.is_none_or(|registered| registered.outcome_type != O::TYPE) {
            let found = registered.map_or("unregistered", |registered| registered.outcome_type).to_owned();
            return Err(OutcomeStoreError::TypeMismatch { found, asked: O::TYPE.to_owned() });
        }
        // One that was purged was the first all the same.
        match blob::read_outcome::<DB>(on, &self.dialect, id).await? {
            KeptOutcome::Missing => {}
            KeptOutcome::Present { .. } | KeptOutcome::Purged => return Err(OutcomeStoreError::Duplicate(id)),
        }
        let json = serde_json::to_string(outcome).map_err(|_| OutcomeStoreError::CorruptedPayload)?;
        let json = zeroize::Zeroizing::new(json);
        let new = NewOutcome { outcome_type: O::TYPE, schema_version: O::SCHEMA_VERSION, json: &json };
        self.insert_outcome(on, &operation, &new, now_micros()).await
    }

    /// Protects an outcome and writes it, where there is none.
    pub(super) async fn insert_outcome(
        &self,
        on: &mut DB::Connection,
        operation: &OperationRow,
        new: &NewOutcome<'_>,
        now: i64,
    ) -> Result<(), OutcomeStoreError> {
        let context = operation.blob_context(Purpose::Outcome, new.schema_version);
        let blob = protect::protect(&*self.keys, &context, new.json.as_bytes())?;
        let kept = BlobRow {
            operation_id: operation.operation_id,
            schema_version: new.schema_version,
            key_id: blob.key_id()?.0,
            blob: &blob,
            stored_at: now,
        };
        match blob::insert_outcome::<DB>(on, &self.dialect, new.outcome_type, &kept).await? {
            true => Ok(()),
            false => Err(OutcomeStoreError::Duplicate(operation.operation_id)),
        }
    }
}
