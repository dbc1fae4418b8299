//! One row of `operations`: the clear columns that a decision needs.

use perilune_proto::scalar::{TaskVersion, Timestamp};

use super::dialect::Dialect;
use super::engine::{OutcomeEngine, Value};
use crate::outcome::OperationId;
use crate::outcome::lifecycle::{OperationState, Rejection, Standing};
use crate::outcome::protect::{BlobContext, Purpose};
use crate::sql::SqlError;

/// How an operation answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::outcome) enum Mode {
    /// Later, by events.
    Deferred,
    /// In the HTTP response; no outcome is kept.
    Inline,
    /// In the HTTP response, once; nothing about it is shown again.
    Ephemeral,
}

impl Mode {
    pub(in crate::outcome) const fn as_str(self) -> &'static str {
        match self {
            Self::Deferred => "deferred",
            Self::Inline => "inline",
            Self::Ephemeral => "ephemeral",
        }
    }

    fn from_stored(text: &str) -> Option<Self> {
        [Self::Deferred, Self::Inline, Self::Ephemeral].into_iter().find(|mode| mode.as_str() == text)
    }
}

/// An operation as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::outcome) struct OperationRow {
    pub(in crate::outcome) operation_id: OperationId,
    pub(in crate::outcome) operation_type: String,
    pub(in crate::outcome) tenant: Option<String>,
    pub(in crate::outcome) actor: Option<String>,
    pub(in crate::outcome) mode: Mode,
    pub(in crate::outcome) standing: Standing,
    /// How many times it was started.
    pub(in crate::outcome) attempt: i64,
    /// Microseconds since 1970.
    pub(in crate::outcome) accepted_at: i64,
    /// Microseconds since 1970; of the terminal state.
    pub(in crate::outcome) completed_at: Option<i64>,
}

impl OperationRow {
    /// What a blob of this operation is bound to.
    pub(in crate::outcome) fn blob_context(&self, purpose: Purpose, schema_version: u32) -> BlobContext<'_> {
        BlobContext {
            purpose,
            operation_id: self.operation_id,
            operation_type: &self.operation_type,
            schema_version,
            tenant: self.tenant.as_deref(),
        }
    }
}

macro_rules! select_operation {
    ($rest:literal) => {
        concat!(
            "SELECT operation_id, operation_type, tenant, actor, mode, state, task_version, attempt, review_required, \
             retry_at, rejection_category, rejection_code, accepted_at, completed_at FROM {prefix}operations ",
            $rest
        )
    };
}

const BY_ID: &str = select_operation!("WHERE operation_id = ?");
const BY_ID_LOCKED: &str = select_operation!("WHERE operation_id = ? {lock}");
const BY_ID_AND_TENANT: &str = select_operation!("WHERE operation_id = ? AND tenant = ?");
const BY_ID_WITHOUT_TENANT: &str = select_operation!("WHERE operation_id = ? AND tenant IS NULL");
/// Locks many in the order of their ids, so that two who do so never wait for each other.
pub(in crate::outcome) const LOCK_MANY: &str =
    "SELECT operation_id FROM {prefix}operations WHERE operation_id IN ({ids}) ORDER BY operation_id {lock}";
const INSERT: &str = "{insert} {prefix}operations (operation_id, operation_type, tenant, actor, mode, state, task_version, \
     attempt, review_required, retry_at, rejection_category, rejection_code, accepted_at, updated_at, completed_at) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {unless_present}";
const UPDATE: &str = "UPDATE {prefix}operations SET state = ?, task_version = ?, attempt = ?, review_required = ?, retry_at = ?, \
     rejection_category = ?, rejection_code = ?, updated_at = ?, completed_at = ? WHERE operation_id = ?";

/// Whose operation is looked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::outcome) enum Scope<'a> {
    /// Whosever it is; a transaction that will change it locks its row.
    AnyTenantLocked,
    /// Whosever it is.
    AnyTenant,
    /// This tenant's, or one without a tenant.
    Tenant(Option<&'a str>),
}

/// The operation, where there is one in this scope.
pub(in crate::outcome) async fn find<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    id: OperationId,
    scope: Scope<'_>,
) -> Result<Option<OperationRow>, SqlError> {
    let id = id.to_string();
    let id = Value::Text(&id);
    let rows = match scope {
        Scope::AnyTenantLocked => DB::rows(on, &dialect.statement(BY_ID_LOCKED), &[id]).await?,
        Scope::AnyTenant => DB::rows(on, &dialect.statement(BY_ID), &[id]).await?,
        Scope::Tenant(Some(tenant)) => {
            DB::rows(on, &dialect.statement(BY_ID_AND_TENANT), &[id, Value::Text(tenant)]).await?
        }
        Scope::Tenant(None) => DB::rows(on, &dialect.statement(BY_ID_WITHOUT_TENANT), &[id]).await?,
    };
    rows.first().map(read::<DB>).transpose()
}

/// Writes a new operation; whether it was new.
pub(in crate::outcome) async fn insert<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    row: &OperationRow,
) -> Result<bool, SqlError> {
    let id = row.operation_id.to_string();
    let standing = &row.standing;
    let values = [
        Value::Text(&id),
        Value::Text(&row.operation_type),
        Value::MaybeText(row.tenant.as_deref()),
        Value::MaybeText(row.actor.as_deref()),
        Value::Text(row.mode.as_str()),
        Value::Text(standing.state.as_str()),
        Value::Integer(version(standing)?),
        Value::Integer(row.attempt),
        Value::Integer(standing.review_required.into()),
        Value::MaybeInteger(standing.retry_at.map(|at| at.unix_micros())),
        Value::MaybeText(standing.rejection.as_ref().map(|rejection| &*rejection.category)),
        Value::MaybeText(standing.rejection.as_ref().map(|rejection| &*rejection.code)),
        Value::Integer(row.accepted_at),
        Value::Integer(row.accepted_at),
        Value::MaybeInteger(row.completed_at),
    ];
    // MySQL counts an existing row as 0 changed, since nothing of it changes.
    Ok(DB::execute(on, &dialect.statement(INSERT), &values).await? == 1)
}

/// Writes how an operation stands now.
pub(in crate::outcome) async fn update<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    row: &OperationRow,
    updated_at: i64,
) -> Result<(), SqlError> {
    let id = row.operation_id.to_string();
    let standing = &row.standing;
    let values = [
        Value::Text(standing.state.as_str()),
        Value::Integer(version(standing)?),
        Value::Integer(row.attempt),
        Value::Integer(standing.review_required.into()),
        Value::MaybeInteger(standing.retry_at.map(|at| at.unix_micros())),
        Value::MaybeText(standing.rejection.as_ref().map(|rejection| &*rejection.category)),
        Value::MaybeText(standing.rejection.as_ref().map(|rejection| &*rejection.code)),
        Value::Integer(updated_at),
        Value::MaybeInteger(row.completed_at),
        Value::Text(&id),
    ];
    DB::execute(on, &dialect.statement(UPDATE), &values).await.map(drop)
}

/// A task's version as the engines' 64-bit integers hold it. The platform counts from 1, so a version that does not
/// fit is no version.
fn version(standing: &Standing) -> Result<i64, SqlError> {
    i64::try_from(standing.task_version.0).map_err(|error| SqlError::from(sqlx::Error::Encode(error.into())))
}

fn read<DB: OutcomeEngine>(row: &DB::Row) -> Result<OperationRow, SqlError> {
    let text = |at| DB::text(row, at);
    let integer = |at| DB::integer(row, at);
    let rejection = match (text(10)?, text(11)?) {
        (Some(category), Some(code)) => Some(Rejection { category, code }),
        _ => None,
    };
    let standing = Standing {
        state: present(text(5)?.and_then(|state| OperationState::from_stored(&state)))?,
        task_version: TaskVersion(present(integer(6)?.and_then(|version| u64::try_from(version).ok()))?),
        review_required: integer(8)? == Some(1),
        retry_at: integer(9)?.and_then(Timestamp::from_unix_micros),
        rejection,
    };
    Ok(OperationRow {
        operation_id: present(text(0)?.and_then(|id| id.parse().ok()))?,
        operation_type: present(text(1)?)?,
        tenant: text(2)?,
        actor: text(3)?,
        mode: present(text(4)?.and_then(|mode| Mode::from_stored(&mode)))?,
        standing,
        attempt: present(integer(7)?)?,
        accepted_at: present(integer(12)?)?,
        completed_at: integer(13)?,
    })
}

/// A column that this program always writes; another program's row is refused, not guessed at.
fn present<T>(value: Option<T>) -> Result<T, SqlError> {
    value.ok_or_else(|| SqlError::from(sqlx::Error::Decode("a stored operation is not readable".into())))
}
