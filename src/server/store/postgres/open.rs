//! Opening the database: the store's thread, its schema, its connections.

use std::fmt;
use std::str::FromStr;

use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::oneshot;

use super::super::lapses::Untold;
use super::super::migrations::SERVER;
use super::super::{Cause, OpenError, Role};
use super::PostgresStore;
use super::lanes::Lanes;
use super::news::News;
use crate::sql::migrate::{self, MigrateError};
use crate::sql::pool::{PoolSettings, connect_postgres};
use crate::sql::{SqlError, SqlErrorKind, TablePrefix};

const HAS_SCHEMA: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";

/// The schema that the server's tables stand in: 1 to 40 of `a-z 0-9 _`, a letter first, and not PostgreSQL's own.
/// It becomes part of SQL text and of the connections' search path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaName(String);

/// A text is not a [`SchemaName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a schema's name must be 1 to 40 of a-z 0-9 _, a letter first, and not begin with pg_")]
pub struct SchemaNameError;

impl SchemaName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("perilune".to_owned())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SchemaName {
    type Err = SchemaNameError;

    fn from_str(text: &str) -> Result<Self, SchemaNameError> {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let begins = text.bytes().next().is_some_and(|c| c.is_ascii_lowercase()) && !text.starts_with("pg_");
        if text.len() <= 40 && begins && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SchemaNameError)
        }
    }
}

/// Starts the store's thread and waits until it has opened the database. The thread ends when the store is closed or
/// dropped, after what was asked before.
pub(super) async fn start(
    options: PgConnectOptions,
    schema: SchemaName,
    role: Role,
) -> Result<PostgresStore, OpenError> {
    let (reply, opened) = oneshot::channel();
    let failed = |error: std::io::Error| OpenError::Unreachable(Cause::new(error));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let thread = std::thread::Builder::new().name("perilune-postgres".to_owned());
    let served = move || {
        runtime.block_on(async {
            let (store, ended) = match open(&options, &schema, role).await {
                Ok(open) => open,
                Err(error) => return drop(reply.send(Err(error))),
            };
            // Where nobody waits any more the store is dropped here, and its lanes end.
            drop(reply.send(Ok(store)));
            futures_util::future::join_all(ended).await;
        });
    };
    thread.spawn(served).map_err(failed)?;
    opened.await.unwrap_or_else(|_| Err(failed(std::io::Error::other("the store's thread has ended"))))
}

/// Looks at a database and its schema without changing either.
pub(super) async fn examine(options: &PgConnectOptions, schema: &SchemaName) -> Result<(), OpenError> {
    let pool = connect(options, schema).await?;
    let valid = migrate::validate(&pool, &TablePrefix::default(), &SERVER).await;
    pool.close().await;
    valid.map_err(schema_failure)
}

/// Connects with the schema alone on the path: a table of somebody else's never takes the place of a missing one of
/// ours.
async fn connect(options: &PgConnectOptions, schema: &SchemaName) -> Result<PgPool, OpenError> {
    let options = options.clone().options([("search_path", schema.as_str())]);
    connect_postgres(&options, &PoolSettings::default()).await.map_err(failure)
}

type Ended = Vec<tokio::task::JoinHandle<()>>;

async fn open(
    options: &PgConnectOptions,
    schema: &SchemaName,
    role: Role,
) -> Result<(PostgresStore, Ended), OpenError> {
    let pool = connect(options, schema).await?;
    bring_up_to_date(&pool, schema, role).await?;
    let news = News::start(&pool, schema);
    let untold = Untold::default();
    let (lanes, ended) = Lanes::start(&pool, &news, &untold).await.map_err(|error| failure(error.into()))?;
    Ok((PostgresStore { pool, lanes, news, untold, runtime: tokio::runtime::Handle::current() }, ended))
}

/// A server migrates. An operator's command makes a schema where there is none, but leaves one that servers may be
/// running on as it is.
async fn bring_up_to_date(pool: &PgPool, schema: &SchemaName, role: Role) -> Result<(), OpenError> {
    let prefix = TablePrefix::default();
    if role == Role::Operator {
        match migrate::validate(pool, &prefix, &SERVER).await {
            Err(MigrateError::Pending { found: 0, .. }) => {}
            checked => return checked.map_err(schema_failure),
        }
    }
    make_schema(pool, schema).await.map_err(|error| failure(error.into()))?;
    migrate::migrate(pool, &prefix, &SERVER).await.map(|_| ()).map_err(schema_failure)
}

async fn make_schema(pool: &PgPool, schema: &SchemaName) -> Result<(), sqlx::Error> {
    let (there,): (bool,) = sqlx::query_as(HAS_SCHEMA).bind(schema.as_str()).fetch_one(pool).await?;
    if there {
        return Ok(());
    }
    // The name is of a small alphabet, so the text is safe.
    let create = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
    match sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(pool).await {
        // Another server made it at the same moment.
        Err(error) if crate::sql::error::classify(&error) == SqlErrorKind::UniqueViolation => Ok(()),
        done => done.map(|_| ()),
    }
}

fn schema_failure(error: MigrateError) -> OpenError {
    match error {
        MigrateError::Database { error, .. } => failure(error),
        other => OpenError::of_migration(other),
    }
}

fn failure(error: SqlError) -> OpenError {
    match error.kind() {
        SqlErrorKind::LockTimeout => OpenError::Locked(Cause::new(error)),
        SqlErrorKind::Unavailable | SqlErrorKind::Access => OpenError::Unreachable(Cause::new(error)),
        _ => OpenError::Schema(Cause::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schemas_name_is_a_plain_lowercase_identifier() {
        for good in ["a", "perilune", "t1_2", &"s".repeat(40)] {
            assert!(good.parse::<SchemaName>().is_ok(), "{good}");
        }
        for bad in ["", "1a", "_a", "A", "a-b", "a;b", "a\"", "pg_x", "é", &"s".repeat(41)] {
            assert_eq!(bad.parse::<SchemaName>(), Err(SchemaNameError), "{bad}");
        }
    }
}
