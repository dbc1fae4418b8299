//! Which operations a target is due of, page by page along the target's own table.
//!
//! The target's table is walked, not that of the operations: what was purged long ago costs nothing again.

use super::policy::Target;
use crate::outcome::OutcomeEngine;
use crate::outcome::store::{Dialect, Value};
use crate::sql::SqlError;

macro_rules! due {
    ($columns:literal, $table:literal, $lock:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM {prefix}",
            $table,
            " x JOIN {prefix}operations o ON o.operation_id = x.operation_id WHERE x.operation_id > ? AND o.completed_at <= ? \
             AND NOT EXISTS (SELECT 1 FROM {prefix}operation_holds h WHERE h.operation_id = o.operation_id AND h.released_at IS NULL) \
             ORDER BY o.operation_id LIMIT ?",
            $lock
        )
    };
    // A target that has at most one row an operation.
    (one: $table:literal, $lock:literal) => {
        due!("o.operation_id, o.operation_type, o.tenant, o.completed_at", $table, $lock)
    };
    (many: $table:literal) => {
        due!("DISTINCT o.operation_id, o.operation_type, o.tenant, o.completed_at", $table, "")
    };
}

macro_rules! count {
    ($table:literal, $exists:literal) => {
        concat!(
            "SELECT COUNT(DISTINCT o.operation_id), MIN(o.completed_at) FROM {prefix}",
            $table,
            " x JOIN {prefix}operations o ON o.operation_id = x.operation_id WHERE o.completed_at <= ? AND ",
            $exists,
            " (SELECT 1 FROM {prefix}operation_holds h WHERE h.operation_id = o.operation_id AND h.released_at IS NULL)"
        )
    };
}

/// An operation that a target is due of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) operation_id: String,
    pub(super) operation_type: String,
    pub(super) tenant: Option<String>,
    /// Microseconds since 1970.
    pub(super) completed_at: i64,
}

/// Where a page of candidates begins and how long it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page<'a> {
    pub(super) target: Target,
    /// Microseconds since 1970.
    pub(super) cutoff: i64,
    pub(super) after: &'a str,
    pub(super) limit: i64,
}

/// The next candidates, held ones left out.
pub(super) async fn due<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    page: Page<'_>,
) -> Result<Vec<Candidate>, SqlError> {
    let statement = match page.target {
        Target::Input => due!(one: "operation_inputs", ""),
        Target::Journal => due!(many: "operation_journal"),
        Target::Outcome => due!(one: "outcomes", ""),
        Target::DeadLetter => due!(one: "dead_letters", ""),
    };
    read::<DB>(on, dialect, statement, page).await
}

/// The same with their operations locked in the order of their ids, where the engine can do both at once; whether
/// they are locked.
pub(super) async fn due_locked<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    page: Page<'_>,
) -> Result<(Vec<Candidate>, bool), SqlError> {
    let statement = match page.target {
        Target::Input => due!(one: "operation_inputs", " {lock_operations}"),
        Target::Outcome => due!(one: "outcomes", " {lock_operations}"),
        Target::DeadLetter => due!(one: "dead_letters", " {lock_operations}"),
        // What is made distinct can't be locked.
        Target::Journal => return Ok((due::<DB>(on, dialect, page).await?, false)),
    };
    Ok((read::<DB>(on, dialect, statement, page).await?, dialect.locks_operations()))
}

async fn read<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    statement: &'static str,
    page: Page<'_>,
) -> Result<Vec<Candidate>, SqlError> {
    let values = [Value::Text(page.after), Value::Integer(page.cutoff), Value::Integer(page.limit)];
    let rows = DB::rows(on, &dialect.statement(statement), &values).await?;
    rows.iter()
        .map(|row| {
            Ok(Candidate {
                operation_id: DB::text(row, 0)?.unwrap_or_default(),
                operation_type: DB::text(row, 1)?.unwrap_or_default(),
                tenant: DB::text(row, 2)?,
                completed_at: DB::integer(row, 3)?.unwrap_or_default(),
            })
        })
        .collect()
}

/// How many operations a target is due of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DueCount {
    pub(super) operations: i64,
    /// Microseconds since 1970.
    pub(super) oldest: Option<i64>,
}

pub(super) async fn count_due<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    target: Target,
    cutoff: i64,
) -> Result<DueCount, SqlError> {
    let statement = match target {
        Target::Input => count!("operation_inputs", "NOT EXISTS"),
        Target::Journal => count!("operation_journal", "NOT EXISTS"),
        Target::Outcome => count!("outcomes", "NOT EXISTS"),
        Target::DeadLetter => count!("dead_letters", "NOT EXISTS"),
    };
    count::<DB>(on, dialect, statement, cutoff).await
}

/// How many operations would be due, were they not held.
pub(super) async fn count_held<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    target: Target,
    cutoff: i64,
) -> Result<DueCount, SqlError> {
    let statement = match target {
        Target::Input => count!("operation_inputs", "EXISTS"),
        Target::Journal => count!("operation_journal", "EXISTS"),
        Target::Outcome => count!("outcomes", "EXISTS"),
        Target::DeadLetter => count!("dead_letters", "EXISTS"),
    };
    count::<DB>(on, dialect, statement, cutoff).await
}

async fn count<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    statement: &'static str,
    cutoff: i64,
) -> Result<DueCount, SqlError> {
    let rows = DB::rows(on, &dialect.statement(statement), &[Value::Integer(cutoff)]).await?;
    let Some(row) = rows.first() else { return Ok(DueCount::default()) };
    Ok(DueCount { operations: DB::integer(row, 0)?.unwrap_or(0), oldest: DB::integer(row, 1)? })
}
