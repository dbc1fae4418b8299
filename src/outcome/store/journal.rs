//! The journal: one row an event that was applied.

use perilune_proto::scalar::{EventId, TaskVersion};

use super::dialect::Dialect;
use super::engine::{OutcomeEngine, Value};
use crate::outcome::OperationId;
use crate::sql::SqlError;

const INSERT: &str = "{insert} {prefix}operation_journal (operation_id, task_version, status, event_id, occurred_at, recorded_at) \
     VALUES (?, ?, ?, ?, ?, ?) {unless_present}";
const COUNT_STARTED: &str =
    "SELECT COUNT(*) FROM {prefix}operation_journal WHERE operation_id = ? AND status = 'started'";

/// One event of an operation. Times are microseconds since 1970.
pub(in crate::outcome) struct JournalRow {
    pub(in crate::outcome) operation_id: OperationId,
    pub(in crate::outcome) task_version: TaskVersion,
    pub(in crate::outcome) status: &'static str,
    pub(in crate::outcome) event_id: EventId,
    pub(in crate::outcome) occurred_at: i64,
    pub(in crate::outcome) recorded_at: i64,
}

/// Writes an event into the journal. One that stands there already is left as it is.
pub(in crate::outcome) async fn record<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    row: &JournalRow,
) -> Result<(), SqlError> {
    let (id, event_id) = (row.operation_id.to_string(), row.event_id.to_string());
    let version = i64::try_from(row.task_version.0).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let values = [
        Value::Text(&id),
        Value::Integer(version),
        Value::Text(row.status),
        Value::Text(&event_id),
        Value::Integer(row.occurred_at),
        Value::Integer(row.recorded_at),
    ];
    DB::execute(on, &dialect.statement(INSERT), &values).await.map(drop)
}

/// How many times the operation was started, as far as the journal knows. Events come in any order, so it is counted
/// and not added up.
pub(in crate::outcome) async fn count_started<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    id: OperationId,
) -> Result<i64, SqlError> {
    let id = id.to_string();
    let rows = DB::rows(on, &dialect.statement(COUNT_STARTED), &[Value::Text(&id)]).await?;
    Ok(rows.first().map(|row| DB::integer(row, 0)).transpose()?.flatten().unwrap_or(0))
}
