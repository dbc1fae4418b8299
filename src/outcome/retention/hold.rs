//! Holds: while one stands on an operation, nothing of it is planned or purged.

use std::fmt;
use std::str::FromStr;

use perilune_proto::scalar::{EventId, ScalarError, Timestamp};

use super::plan::moment;
use super::{RetentionError, TenantScope, checked};
use crate::outcome::operations::to_its_end;
use crate::outcome::store::Value;
use crate::outcome::store::row::{self, Scope};
use crate::outcome::{OperationId, Operations, OutcomeEngine};
use crate::sql::SqlError;
use crate::sql::writer::transaction;

const INSERT: &str = "INSERT INTO {prefix}operation_holds (hold_id, operation_id, category, reason, placed_by, placed_at, released_by, released_at) \
     VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)";
const RELEASE: &str =
    "UPDATE {prefix}operation_holds SET released_by = ?, released_at = ? WHERE hold_id = ? AND released_at IS NULL";
const FIND_OPERATION: &str = "SELECT operation_id FROM {prefix}operation_holds WHERE hold_id = ?";
const LIST: &str = "SELECT hold_id, operation_id, category, reason, placed_by, placed_at, released_by, released_at \
     FROM {prefix}operation_holds WHERE operation_id = ? ORDER BY placed_at, hold_id";
/// The longest reason, in bytes.
const REASON_BYTES_MAX: usize = 4_096;

/// Names a hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(EventId);

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for HoldId {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self)
    }
}

/// Why an operation is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HoldCategory {
    /// A dispute or an order of a court.
    Legal,
    /// An incident is looked into.
    Security,
    /// An audit is under way.
    Audit,
    /// A customer is being helped.
    Support,
    /// Anything else; the reason says what.
    Other,
}

impl HoldCategory {
    /// Every category.
    pub const ALL: [Self; 5] = [Self::Legal, Self::Security, Self::Audit, Self::Support, Self::Other];

    /// The category as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legal => "legal",
            Self::Security => "security",
            Self::Audit => "audit",
            Self::Support => "support",
            Self::Other => "other",
        }
    }
}

impl FromStr for HoldCategory {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let found = Self::ALL.into_iter().find(|category| category.as_str() == text);
        found.ok_or(ScalarError { expected: "one of legal, security, audit, support, other" })
    }
}

/// A hold to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceHold {
    /// On which operation, ended or not.
    pub operation_id: OperationId,
    /// Why.
    pub category: HoldCategory,
    /// Why, in words: 1 to 4,096 bytes.
    pub reason: String,
    /// Who places it: 1 to 255 bytes.
    pub actor: String,
    /// When.
    pub now: Timestamp,
}

/// A hold, released or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Names it.
    pub hold_id: HoldId,
    /// The held operation.
    pub operation_id: OperationId,
    /// Why.
    pub category: HoldCategory,
    /// Why, in words.
    pub reason: String,
    /// Who placed it.
    pub placed_by: String,
    /// When.
    pub placed_at: Timestamp,
    /// Who released it and when; `None` while it stands.
    pub released: Option<(String, Timestamp)>,
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// Places a hold. Once this has answered, no purge takes anything of the operation until the hold is released.
    ///
    /// # Errors
    /// [`RetentionError::UnknownOperation`], [`RetentionError::Text`], [`RetentionError::Storage`].
    pub async fn place_hold(&self, scope: &TenantScope, hold: &PlaceHold) -> Result<HoldId, RetentionError> {
        checked("actor", &hold.actor)?;
        if !(1..=REASON_BYTES_MAX).contains(&hold.reason.len()) {
            return Err(RetentionError::Text { field: "reason", allowed: "1 to 4096 bytes" });
        }
        let (this, scope, hold) = (self.clone(), scope.clone(), hold.clone());
        to_its_end(async move { transaction(&this.pool, async |on| this.place(on, &scope, &hold).await).await }).await
    }

    async fn place(
        &self,
        on: &mut DB::Connection,
        scope: &TenantScope,
        hold: &PlaceHold,
    ) -> Result<HoldId, RetentionError> {
        self.lock_operation(on, scope, hold.operation_id).await?;
        let hold_id = HoldId(EventId::from_bytes(*OperationId::new().as_bytes()));
        let (id, operation_id) = (hold_id.to_string(), hold.operation_id.to_string());
        let values = [
            Value::Text(&id),
            Value::Text(&operation_id),
            Value::Text(hold.category.as_str()),
            Value::Text(&hold.reason),
            Value::Text(&hold.actor),
            Value::Integer(hold.now.unix_micros()),
        ];
        DB::execute(on, &self.dialect.statement(INSERT), &values).await?;
        Ok(hold_id)
    }

    /// Releases a hold. Its history stays; other holds on the operation stand on.
    ///
    /// # Errors
    /// [`RetentionError::UnknownHold`], [`RetentionError::AlreadyReleased`], [`RetentionError::Text`],
    /// [`RetentionError::Storage`].
    pub async fn release_hold(
        &self,
        scope: &TenantScope,
        hold_id: HoldId,
        actor: &str,
        now: Timestamp,
    ) -> Result<(), RetentionError> {
        checked("actor", actor)?;
        let (this, scope, actor) = (self.clone(), scope.clone(), actor.to_owned());
        let work = async move {
            transaction(&this.pool, async |on| this.release(on, &scope, hold_id, &actor, now).await).await
        };
        to_its_end(work).await
    }

    async fn release(
        &self,
        on: &mut DB::Connection,
        scope: &TenantScope,
        hold_id: HoldId,
        actor: &str,
        now: Timestamp,
    ) -> Result<(), RetentionError> {
        let id = hold_id.to_string();
        let rows = DB::rows(on, &self.dialect.statement(FIND_OPERATION), &[Value::Text(&id)]).await?;
        let operation = rows.first().map(|row| DB::text(row, 0)).transpose()?.flatten();
        let operation_id = operation.and_then(|id| id.parse().ok()).ok_or(RetentionError::UnknownHold)?;
        self.lock_operation(on, scope, operation_id).await.map_err(|error| match error {
            RetentionError::UnknownOperation(_) => RetentionError::UnknownHold,
            other => other,
        })?;
        let values = [Value::Text(actor), Value::Integer(now.unix_micros()), Value::Text(&id)];
        if DB::execute(on, &self.dialect.statement(RELEASE), &values).await? == 0 {
            return Err(RetentionError::AlreadyReleased);
        }
        Ok(())
    }

    /// Every hold on an operation, released ones too, oldest first.
    ///
    /// # Errors
    /// [`RetentionError::UnknownOperation`], [`RetentionError::Storage`].
    pub async fn holds(&self, scope: &TenantScope, operation_id: OperationId) -> Result<Vec<Hold>, RetentionError> {
        let mut connection = self.readers.acquire().await.map_err(SqlError::from)?;
        let found = row::find::<DB>(&mut connection, &self.dialect, operation_id, Scope::AnyTenant).await?;
        if !found.is_some_and(|operation| scope.includes(operation.tenant.as_deref())) {
            return Err(RetentionError::UnknownOperation(operation_id));
        }
        let id = operation_id.to_string();
        let rows = DB::rows(&mut connection, &self.dialect.statement(LIST), &[Value::Text(&id)]).await?;
        Ok(rows.iter().map(read::<DB>).collect::<Result<_, _>>()?)
    }

    /// The lock that a purge takes too: one of the two comes first.
    async fn lock_operation(
        &self,
        on: &mut DB::Connection,
        scope: &TenantScope,
        id: OperationId,
    ) -> Result<(), RetentionError> {
        let found = row::find::<DB>(on, &self.dialect, id, Scope::AnyTenantLocked).await?;
        match found {
            Some(operation) if scope.includes(operation.tenant.as_deref()) => Ok(()),
            _ => Err(RetentionError::UnknownOperation(id)),
        }
    }
}

fn read<DB: OutcomeEngine>(row: &DB::Row) -> Result<Hold, SqlError> {
    let unreadable = || SqlError::from(sqlx::Error::Decode("a stored hold is not readable".into()));
    let text = |at| DB::text(row, at)?.ok_or_else(unreadable);
    let released = match (DB::text(row, 6)?, DB::integer(row, 7)?) {
        (Some(by), Some(at)) => Some((by, moment(at))),
        _ => None,
    };
    Ok(Hold {
        hold_id: text(0)?.parse().map_err(|_| unreadable())?,
        operation_id: text(1)?.parse().map_err(|_| unreadable())?,
        category: text(2)?.parse().map_err(|_| unreadable())?,
        reason: text(3)?,
        placed_by: text(4)?,
        placed_at: moment(DB::integer(row, 5)?.ok_or_else(unreadable)?),
        released,
    })
}
