//! The tables of protected blobs: inputs, outcomes, dead-letter reasons.

use super::dialect::Dialect;
use super::engine::{OutcomeEngine, Value};
use crate::outcome::OperationId;
use crate::outcome::protect::ProtectedBlob;
use crate::sql::SqlError;

const INSERT_INPUT: &str = "INSERT INTO {prefix}operation_inputs (operation_id, schema_version, key_id, payload, stored_at) VALUES (?, ?, ?, ?, ?)";
const INSERT_DEAD_LETTER: &str = "INSERT INTO {prefix}dead_letters (operation_id, schema_version, key_id, payload, stored_at) VALUES (?, ?, ?, ?, ?)";
const INSERT_OUTCOME: &str = "{insert} {prefix}outcomes (operation_id, outcome_type, schema_version, key_id, payload, stored_at) \
     VALUES (?, ?, ?, ?, ?, ?) {unless_present}";
/// An outcome beside its operation's state and the audit of its purge: one statement is one snapshot.
const SELECT_OUTCOME: &str = "SELECT o.state, x.outcome_type, x.schema_version, x.payload, \
     (SELECT COUNT(*) FROM {prefix}retention_audit a WHERE a.operation_id = o.operation_id AND a.target = 'outcome') \
     FROM {prefix}operations o LEFT JOIN {prefix}outcomes x ON x.operation_id = o.operation_id WHERE o.operation_id = ?";

const SELECT_INPUT: &str = "SELECT schema_version, payload FROM {prefix}operation_inputs WHERE operation_id = ?";

/// A blob with its clear columns.
pub(in crate::outcome) struct BlobRow<'a> {
    pub(in crate::outcome) operation_id: OperationId,
    pub(in crate::outcome) schema_version: u32,
    pub(in crate::outcome) key_id: u32,
    pub(in crate::outcome) blob: &'a ProtectedBlob,
    /// Microseconds since 1970.
    pub(in crate::outcome) stored_at: i64,
}

pub(in crate::outcome) async fn insert_input<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    row: &BlobRow<'_>,
) -> Result<(), SqlError> {
    insert::<DB>(on, dialect, INSERT_INPUT, row).await
}

/// An operation's input as it is kept.
pub(in crate::outcome) struct KeptInput {
    pub(in crate::outcome) schema_version: u32,
    pub(in crate::outcome) blob: ProtectedBlob,
}

pub(in crate::outcome) async fn read_input<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    id: OperationId,
) -> Result<Option<KeptInput>, SqlError> {
    let id = id.to_string();
    let rows = DB::rows(on, &dialect.statement(SELECT_INPUT), &[Value::Text(&id)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(KeptInput {
        schema_version: DB::integer(row, 0)?.and_then(|version| version.try_into().ok()).unwrap_or_default(),
        blob: ProtectedBlob::from_stored(DB::bytes(row, 1)?.unwrap_or_default()),
    }))
}

pub(in crate::outcome) async fn insert_dead_letter<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    row: &BlobRow<'_>,
) -> Result<(), SqlError> {
    insert::<DB>(on, dialect, INSERT_DEAD_LETTER, row).await
}

async fn insert<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    statement: &'static str,
    row: &BlobRow<'_>,
) -> Result<(), SqlError> {
    let id = row.operation_id.to_string();
    let values = [
        Value::Text(&id),
        Value::Integer(row.schema_version.into()),
        Value::Integer(row.key_id.into()),
        Value::Bytes(row.blob.as_stored()),
        Value::Integer(row.stored_at),
    ];
    DB::execute(on, &dialect.statement(statement), &values).await.map(drop)
}

/// Writes an outcome; whether it is the operation's first.
pub(in crate::outcome) async fn insert_outcome<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    outcome_type: &str,
    row: &BlobRow<'_>,
) -> Result<bool, SqlError> {
    let id = row.operation_id.to_string();
    let values = [
        Value::Text(&id),
        Value::Text(outcome_type),
        Value::Integer(row.schema_version.into()),
        Value::Integer(row.key_id.into()),
        Value::Bytes(row.blob.as_stored()),
        Value::Integer(row.stored_at),
    ];
    Ok(DB::execute(on, &dialect.statement(INSERT_OUTCOME), &values).await? == 1)
}

/// What is kept of a completed operation's outcome.
pub(in crate::outcome) enum KeptOutcome {
    /// The outcome.
    Present { outcome_type: String, schema_version: u32, blob: ProtectedBlob },
    /// It was purged, and the audit says so.
    Purged,
    /// There is none, and nothing says why.
    Missing,
}

pub(in crate::outcome) async fn read_outcome<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    id: OperationId,
) -> Result<KeptOutcome, SqlError> {
    let id = id.to_string();
    let rows = DB::rows(on, &dialect.statement(SELECT_OUTCOME), &[Value::Text(&id)]).await?;
    let Some(row) = rows.first() else { return Ok(KeptOutcome::Missing) };
    match (DB::text(row, 1)?, DB::integer(row, 2)?, DB::bytes(row, 3)?) {
        (Some(outcome_type), Some(schema_version), Some(bytes)) => Ok(KeptOutcome::Present {
            outcome_type,
            schema_version: u32::try_from(schema_version).unwrap_or(u32::MAX),
            blob: ProtectedBlob::from_stored(bytes),
        }),
        _ if DB::integer(row, 4)?.unwrap_or(0) > 0 => Ok(KeptOutcome::Purged),
        _ => Ok(KeptOutcome::Missing),
    }
}
