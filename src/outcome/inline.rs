//! Operations that end in the HTTP response: recorded, with nothing kept of what they answered.
//!
//! Source: outcome.md section 1, "inline, completed" and "EphemeralOutcome".

use perilune_proto::scalar::{EventId, TaskVersion};

use super::lifecycle::{OperationState, Standing};
use super::operations::{Origin, check_type, now_micros};
use super::store::journal::{self, JournalRow};
use super::store::row::{self, Mode, OperationRow};
use super::{EphemeralOutcome, Operation, OperationId, Operations, OutcomeEngine, OutcomeStoreError};

impl<DB: OutcomeEngine> Operations<DB> {
    /// Records an operation that completed within its request. Its outcome goes into the response alone.
    ///
    /// # Errors
    /// [`OutcomeStoreError::Duplicate`] where the id is taken, [`OutcomeStoreError::Storage`].
    pub async fn record_inline<O: Operation>(
        &self,
        on: &mut DB::Connection,
        id: OperationId,
        origin: Origin,
    ) -> Result<(), OutcomeStoreError> {
        self.record_ended(on, id, O::TYPE, origin, Mode::Inline).await
    }

    /// Records an operation whose outcome is shown once, and hands the value over for that one response. Nothing of it
    /// is kept: status and query know the operation as unavailable.
    ///
    /// # Errors
    /// [`OutcomeStoreError::Duplicate`] where the id is taken, [`OutcomeStoreError::Storage`]; then the value is dropped.
    pub async fn record_ephemeral<T>(
        &self,
        on: &mut DB::Connection,
        id: OperationId,
        operation_type: &'static str,
        origin: Origin,
        outcome: EphemeralOutcome<T>,
    ) -> Result<T, OutcomeStoreError> {
        self.record_ended(on, id, operation_type, origin, Mode::Ephemeral).await?;
        Ok(outcome.into_response_value())
    }

    async fn record_ended(
        &self,
        on: &mut DB::Connection,
        id: OperationId,
        operation_type: &str,
        origin: Origin,
        mode: Mode,
    ) -> Result<(), OutcomeStoreError> {
        check_type(operation_type)?;
        origin.check()?;
        let now = now_micros();
        let standing =
            Standing { state: OperationState::Completed, task_version: TaskVersion(1), ..Standing::accepted() };
        let ended = OperationRow {
            operation_id: id,
            operation_type: operation_type.to_owned(),
            tenant: origin.tenant,
            actor: origin.actor,
            mode,
            standing,
            attempt: 1,
            accepted_at: now,
            completed_at: Some(now),
        };
        if !row::insert::<DB>(on, &self.dialect, &ended).await? {
            return Err(OutcomeStoreError::Duplicate(id));
        }
        let record = JournalRow {
            operation_id: id,
            task_version: TaskVersion(1),
            status: "succeeded",
            // There was no event; the record says so by the operation's own id.
            event_id: EventId::from_bytes(*id.as_bytes()),
            occurred_at: now,
            recorded_at: now,
        };
        Ok(journal::record::<DB>(on, &self.dialect, &record).await?)
    }
}
