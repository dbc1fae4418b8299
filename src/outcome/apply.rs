//! What a result event does to its operation, in the inbox transaction of the event: all or none.
//!
//! Source: outcome.md section 1.

use perilune_proto::ResultEvent;

use super::lifecycle::{self, Change, OperationState, Standing};
use super::operations::now_micros;
use super::protect::{self, Purpose};
use super::registry::RegisteredOperation;
use super::save::NewOutcome;
use super::store::blob::{self, BlobRow};
use super::store::journal::{self, JournalRow};
use super::store::row::{self, Mode, OperationRow, Scope};
use super::{OperationId, Operations, OutcomeEngine, OutcomeStoreError};
use crate::sql::SqlError;

/// What an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppliedEvent {
    /// The operation stands so from now on.
    Changed(OperationState),
    /// The event came late or again; nothing changed.
    Stale,
    /// The operation had ended; nothing changed.
    Ended,
    /// The operation's type is not registered here, nor does such an operation stand here; nothing was written.
    Unregistered,
}

/// The schema of a dead-letter reason: a JSON object with `code` and `message`.
const DEAD_LETTER_SCHEMA_VERSION: u32 = 1;

impl<DB: OutcomeEngine> Operations<DB> {
    /// Applies an event inside the transaction `on`. Status, journal record, outcome and dead-letter reason are written
    /// there, so they commit with the inbox row or not at all. After an error the transaction must be rolled back.
    ///
    /// # Errors
    /// [`OutcomeStoreError::NotRegistered`] where the operation stands here and its type is not registered,
    /// [`OutcomeStoreError::TypeMismatch`] where the operation is of another type than the event says,
    /// [`OutcomeStoreError::CorruptedPayload`] where the result is not of the outcome's type,
    /// [`OutcomeStoreError::Duplicate`], [`OutcomeStoreError::Protection`], [`OutcomeStoreError::Storage`].
    pub async fn apply(&self, on: &mut DB::Connection, event: &ResultEvent) -> Result<AppliedEvent, OutcomeStoreError> {
        let operation_type = event.snapshot.operation.as_str();
        let Some(registered) = self.registry.find(operation_type) else { return self.pass_by(on, event).await };
        let mut operation = self.find_or_insert(on, event).await?;
        if operation.operation_type != operation_type {
            return Err(OutcomeStoreError::TypeMismatch {
                found: operation.operation_type,
                asked: operation_type.to_owned(),
            });
        }
        let now = now_micros();
        let standing = match lifecycle::apply(Some(&operation.standing), event) {
            Change::Ended => return Ok(AppliedEvent::Ended),
            Change::Stale => {
                // A start that comes late still counts as an attempt.
                self.record(on, event, now).await?;
                let attempt = self.count_attempts(on, operation.operation_id).await?;
                if attempt != operation.attempt {
                    operation.attempt = attempt;
                    row::update::<DB>(on, &self.dialect, &operation, now).await?;
                }
                return Ok(AppliedEvent::Stale);
            }
            Change::Applies(standing) => standing,
        };
        self.record(on, event, now).await?;
        let state = standing.state;
        operation.attempt = self.count_attempts(on, operation.operation_id).await?;
        operation.completed_at = state.is_terminal().then_some(now);
        operation.standing = standing;
        row::update::<DB>(on, &self.dialect, &operation, now).await?;
        match state {
            OperationState::Completed => self.keep_outcome(on, &operation, registered, event, now).await?,
            OperationState::DeadLettered => self.keep_dead_letter(on, &operation, event, now).await?,
            _ => {}
        }
        Ok(AppliedEvent::Changed(state))
    }

    /// An event of a type that is not registered here. Where its operation stands here all the same, another program knows
    /// the type, as in a rolling deployment: the event must come again, and may find that one.
    async fn pass_by(&self, on: &mut DB::Connection, event: &ResultEvent) -> Result<AppliedEvent, OutcomeStoreError> {
        let operation_type = event.snapshot.operation.as_str();
        let id = OperationId::from(event.task_id());
        if row::find::<DB>(on, &self.dialect, id, Scope::AnyTenant).await?.is_some() {
            return Err(OutcomeStoreError::NotRegistered(operation_type.to_owned()));
        }
        metrics::counter!("perilune_operation_events_passed_by_total").increment(1);
        // The counter goes on; a line for each event of somebody else's would bury the log.
        self.first_passed_by.call_once(|| {
            tracing::warn!(operation_type, "events of operation types that are not registered here pass by");
        });
        Ok(AppliedEvent::Unregistered)
    }

    /// The event's operation with its row locked. One that was not accepted here begins with its first event.
    async fn find_or_insert(
        &self,
        on: &mut DB::Connection,
        event: &ResultEvent,
    ) -> Result<OperationRow, OutcomeStoreError> {
        let id = OperationId::from(event.task_id());
        if let Some(found) = row::find::<DB>(on, &self.dialect, id, Scope::AnyTenantLocked).await? {
            return Ok(found);
        }
        let origin = (self.origin_of)(event);
        origin.check()?;
        let new = OperationRow {
            operation_id: id,
            operation_type: event.snapshot.operation.to_string(),
            tenant: origin.tenant,
            actor: origin.actor,
            mode: Mode::Deferred,
            standing: Standing::accepted(),
            attempt: 0,
            accepted_at: event.snapshot.created_at.unix_micros(),
            completed_at: None,
        };
        if row::insert::<DB>(on, &self.dialect, &new).await? {
            return Ok(new);
        }
        // A twin inserted it meanwhile and has committed.
        let found = row::find::<DB>(on, &self.dialect, id, Scope::AnyTenantLocked).await?;
        found.ok_or_else(|| SqlError::from(sqlx::Error::RowNotFound).into())
    }

    async fn record(&self, on: &mut DB::Connection, event: &ResultEvent, now: i64) -> Result<(), SqlError> {
        let record = JournalRow {
            operation_id: event.task_id().into(),
            task_version: event.task_version(),
            status: event.snapshot.status.as_str(),
            event_id: event.event_id,
            occurred_at: event.occurred_at.unix_micros(),
            recorded_at: now,
        };
        journal::record::<DB>(on, &self.dialect, &record).await
    }

    /// At least one: what runs was started, even where the start itself has not been heard of.
    async fn count_attempts(&self, on: &mut DB::Connection, id: OperationId) -> Result<i64, SqlError> {
        Ok(journal::count_started::<DB>(on, &self.dialect, id).await?.max(1))
    }

    async fn keep_outcome(
        &self,
        on: &mut DB::Connection,
        operation: &OperationRow,
        registered: &RegisteredOperation,
        event: &ResultEvent,
        now: i64,
    ) -> Result<(), OutcomeStoreError> {
        // An operation that leaves nothing may well be reported without a result.
        let result = if event.snapshot.result.is_null() { "{}" } else { event.snapshot.result.as_str() };
        if !(registered.decodes)(result) {
            return Err(OutcomeStoreError::CorruptedPayload);
        }
        let new = NewOutcome {
            outcome_type: registered.outcome_type,
            schema_version: registered.schema_version,
            json: result,
        };
        self.insert_outcome(on, operation, &new, now).await
    }

    async fn keep_dead_letter(
        &self,
        on: &mut DB::Connection,
        operation: &OperationRow,
        event: &ResultEvent,
        now: i64,
    ) -> Result<(), OutcomeStoreError> {
        let Some(error) = &event.snapshot.error else { return Ok(()) };
        let reason = serde_json::json!({ "code": error.code, "message": error.message }).to_string();
        let reason = zeroize::Zeroizing::new(reason);
        let context = operation.blob_context(Purpose::DeadLetterReason, DEAD_LETTER_SCHEMA_VERSION);
        let blob = protect::protect(&*self.keys, &context, reason.as_bytes())?;
        let kept = BlobRow {
            operation_id: operation.operation_id,
            schema_version: DEAD_LETTER_SCHEMA_VERSION,
            key_id: blob.key_id()?.0,
            blob: &blob,
            stored_at: now,
        };
        Ok(blob::insert_dead_letter::<DB>(on, &self.dialect, &kept).await?)
    }
}
