//! Embedded, versioned migrations under a table prefix, safe to run from several programs at once.
//!
//! A part (inbox, outbox, ...) is a [`Component`] with a list of [`Migration`]s; each has one text per engine, with
//! `{prefix}` where the tables' prefix goes and `;` at the end of a line between statements. What was applied stands in
//! `{prefix}migrations` with a checksum. Several components share that table, each with versions of its own.
//!
//! - One migrator works at a time: SQLite's write lock, an advisory lock on PostgreSQL, a named lock on MySQL.
//! - On SQLite and PostgreSQL a run is one transaction. MySQL commits with every DDL statement, so statements run one
//!   by one, every one of them must be repeatable (`IF NOT EXISTS`), and a run that broke off is simply run again.
//! - `sqlx::migrate!` can't be used: it knows no prefix and has one history per database
//!   (docs/decisions/0006-own-migrator.md).

use std::future::Future;

use super::engine::Engine;
use super::error::SqlError;
use super::prefix::{Statement, TablePrefix};
use super::url::EngineName;
use super::writer::joined;

mod run;

/// A part of Perilune that has tables of its own.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// Its name in the table of migrations; never changed once released.
    pub name: &'static str,
    /// In order, versions from 1 without a gap.
    pub migrations: &'static [Migration],
}

/// One step of a component's schema, the same on every engine. Never changed once released.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Its place, from 1.
    pub version: u32,
    /// What it does, in a few words.
    pub name: &'static str,
    /// The statements for SQLite.
    pub sqlite: &'static str,
    /// The statements for PostgreSQL.
    pub postgres: &'static str,
    /// The statements for MySQL and MariaDB: DDL, each repeatable.
    pub mysql: &'static str,
}

/// A migration that a run applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The component's name.
    pub component: &'static str,
    /// The migration's version.
    pub version: u32,
    /// The migration's name.
    pub name: &'static str,
}

/// Why a schema can't be brought to, or is not at, the version of this program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database refused or was unavailable.
    #[error("the schema of {component} can't be read or changed: {error}")]
    Database {
        /// The component's name.
        component: &'static str,
        /// What the database said.
        error: SqlError,
    },
    /// Migrations have not been run yet.
    #[error("the schema of {component} is at version {found} and this program needs {needed}; run the migrations")]
    Pending {
        /// The component's name.
        component: &'static str,
        /// The version in the database; 0 where there is none.
        found: u32,
        /// The version of this program.
        needed: u32,
    },
    /// A newer program has migrated this database.
    #[error("the schema of {component} is at version {found}, newer than this program's {known}")]
    Newer {
        /// The component's name.
        component: &'static str,
        /// The version in the database.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// A migration was applied with other statements than this program has.
    #[error("migration {version} of {component} was applied with other statements than this program's")]
    Changed {
        /// The component's name.
        component: &'static str,
        /// The migration's version.
        version: u32,
    },
    /// Another migrator held the lock for too long.
    #[error("another program has been migrating {component} for too long")]
    Busy {
        /// The component's name.
        component: &'static str,
    },
}

/// Brings a component's tables to this program's version. Safe to run at every start and from several programs. Dropping
/// the future leaves the run going on to its end.
///
/// # Errors
/// [`MigrateError`], never `Pending`.
pub async fn migrate<DB: Migrate>(
    pool: &sqlx::Pool<DB>,
    prefix: &TablePrefix,
    component: &Component,
) -> Result<Vec<Applied>, MigrateError> {
    let (pool, plan) = (pool.clone(), Plan::new(prefix, component, DB::ENGINE));
    let name = plan.component;
    // A task that nobody drops half-way: sqlx leaves a connection whose `BEGIN` was dropped inside a transaction.
    let applied = joined(tokio::spawn(async move { DB::apply_pending(&pool, &plan).await })).await;
    applied.map_err(|error| MigrateError::Database { component: name, error })?
}

/// Checks, without changing anything, that a component's tables are at this program's version.
///
/// # Errors
/// [`MigrateError`]: `Pending` where the migrations have not been run.
pub async fn validate<DB: Migrate>(
    pool: &sqlx::Pool<DB>,
    prefix: &TablePrefix,
    component: &Component,
) -> Result<(), MigrateError> {
    let plan = Plan::new(prefix, component, DB::ENGINE);
    let recorded = DB::recorded(pool, &plan).await?;
    let pending = plan.pending(&recorded)?;
    match pending.first() {
        None => Ok(()),
        Some(first) => Err(MigrateError::Pending {
            component: component.name,
            found: first.version - 1,
            needed: plan.steps.last().map_or(0, |step| step.version),
        }),
    }
}

/// An engine whose schema can be migrated: the three that [`Engine`] has.
pub trait Migrate: Engine {
    /// Applies what is pending, under the engine's lock.
    #[doc(hidden)]
    fn apply_pending(
        pool: &sqlx::Pool<Self>,
        plan: &Plan,
    ) -> impl Future<Output = Result<Vec<Applied>, MigrateError>> + Send;

    /// What the database says was applied; empty where the table of migrations is missing.
    #[doc(hidden)]
    fn recorded(
        pool: &sqlx::Pool<Self>,
        plan: &Plan,
    ) -> impl Future<Output = Result<Vec<Recorded>, MigrateError>> + Send;
}

/// A component's migrations for one engine, with the prefix in place.
#[doc(hidden)]
#[derive(Debug)]
pub struct Plan {
    component: &'static str,
    prefix: TablePrefix,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    version: u32,
    name: &'static str,
    checksum: i64,
    statements: Vec<Statement>,
}

/// A row of the table of migrations.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    version: u32,
    checksum: i64,
}

impl Plan {
    fn new(prefix: &TablePrefix, component: &Component, engine: EngineName) -> Self {
        let steps = component
            .migrations
            .iter()
            .map(|migration| {
                let text = match engine {
                    EngineName::Sqlite => migration.sqlite,
                    EngineName::Postgres => migration.postgres,
                    EngineName::MySql => migration.mysql,
                };
                Step {
                    version: migration.version,
                    name: migration.name,
                    checksum: checksum(text),
                    statements: statements(text).map(|statement| prefix.render(statement)).collect(),
                }
            })
            .collect();
        Self { component: component.name, prefix: prefix.clone(), steps }
    }

    /// The steps that are not recorded yet.
    fn pending(&self, recorded: &[Recorded]) -> Result<&[Step], MigrateError> {
        let known = self.steps.last().map_or(0, |step| step.version);
        for row in recorded {
            let Some(step) = self.steps.iter().find(|step| step.version == row.version) else {
                return Err(MigrateError::Newer { component: self.component, found: row.version, known });
            };
            if step.checksum != row.checksum {
                return Err(MigrateError::Changed { component: self.component, version: row.version });
            }
        }
        let done = recorded.iter().map(|row| row.version).max().unwrap_or(0);
        let first = self.steps.iter().position(|step| step.version > done).unwrap_or(self.steps.len());
        Ok(&self.steps[first..])
    }

    fn failed(&self, error: sqlx::Error) -> MigrateError {
        MigrateError::Database { component: self.component, error: error.into() }
    }
}

/// The statements of a migration's text: they end with `;` at the end of a line.
fn statements(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split(";\n").map(|statement| statement.trim().trim_end_matches(';')).filter(|statement| !statement.is_empty())
}

/// FNV-1a over the text without carriage returns: it tells a changed migration, it resists nobody.
fn checksum(text: &str) -> i64 {
    let hash = text
        .bytes()
        .filter(|&byte| byte != b'\r')
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: Component = Component {
        name: "toy",
        migrations: &[
            Migration { version: 1, name: "one", sqlite: "a;\nb;\n", postgres: "a;\n", mysql: "a;\n" },
            Migration { version: 2, name: "two", sqlite: "c (x)\n", postgres: "c;\n", mysql: "c;\n" },
        ],
    };

    fn plan() -> Plan {
        Plan::new(&TablePrefix::default(), &COMPONENT, EngineName::Sqlite)
    }

    fn recorded(version: u32, text: &str) -> Recorded {
        Recorded { version, checksum: checksum(text) }
    }

    #[test]
    fn a_text_is_cut_into_statements_at_line_ends() {
        let plan = plan();
        let texts: Vec<Vec<_>> =
            plan.steps.iter().map(|step| step.statements.iter().map(Statement::as_str).collect()).collect();
        assert_eq!(texts, [vec!["a", "b"], vec!["c (x)"]]);
    }

    #[test]
    fn what_is_not_recorded_is_pending() {
        let plan = plan();
        let versions = |rows: &[Recorded]| -> Vec<u32> {
            plan.pending(rows).expect("known rows").iter().map(|step| step.version).collect()
        };
        assert_eq!(versions(&[]), [1, 2]);
        assert_eq!(versions(&[recorded(1, "a;\nb;\n")]), [2]);
        assert_eq!(versions(&[recorded(1, "a;\r\nb;\r\n"), recorded(2, "c (x)\n")]), [0; 0]);
    }

    #[test]
    fn a_newer_or_changed_schema_is_refused() {
        let plan = plan();
        assert!(matches!(plan.pending(&[recorded(3, "")]), Err(MigrateError::Newer { found: 3, known: 2, .. })));
        assert!(matches!(plan.pending(&[recorded(1, "a;\n")]), Err(MigrateError::Changed { version: 1, .. })));
    }
}
