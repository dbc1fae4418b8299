//! Pools with the durability, isolation and time limits that exactly-once effects need.
//!
//! | engine | set on each connection |
//! | --- | --- |
//! | SQLite | WAL, `synchronous = FULL` (what was answered is on disk), foreign keys, busy timeout; one writer connection, a few readers |
//! | PostgreSQL | READ COMMITTED, `statement_timeout`, `lock_timeout`, `idle_in_transaction_session_timeout` |
//! | MySQL, MariaDB | READ COMMITTED, `innodb_lock_wait_timeout`, the engine's statement and idle limits |
//!
//! A pool is driven by the runtime that opened it: make one where it is used, and never share one with an
//! arbiter that may block or be stopped (SQLite excepted, whose connections have threads of their own).

use std::time::Duration;

use sqlx::pool::PoolOptions;
#[cfg(feature = "sqlite")]
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use super::error::SqlError;
use super::url::DatabaseUrlError;
#[cfg(feature = "sqlite")]
use super::url::{SqliteAccess, SqlitePlace, SqliteUrl};

/// How long a connection may have been idle before it is tested when it is taken. The test costs a round trip.
const TEST_AFTER_IDLE: Duration = Duration::from_secs(5);

/// The limits of a pool.
///
/// A plain value: start from `default()` and change what is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Most connections; 16 by default. A SQLite pool has one writer whatever stands here, and up to this many
    /// readers.
    pub max_connections: u32,
    /// Longest wait for a free connection; 5 s by default.
    pub acquire_timeout: Duration,
    /// Longest a statement may run; 20 s by default, within the contract's lease of 30 s. SQLite has no such limit.
    pub statement_timeout: Duration,
    /// Longest wait for a lock; 5 s by default. MySQL counts whole seconds and rounds up. On SQLite it is the busy
    /// timeout.
    pub lock_timeout: Duration,
    /// Longest a transaction may be open without a statement; 60 s by default. MySQL (not MariaDB) and SQLite have no
    /// such limit.
    pub idle_in_transaction_timeout: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            max_connections: 16,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(20),
            lock_timeout: Duration::from_secs(5),
            idle_in_transaction_timeout: Duration::from_secs(60),
        }
    }
}

impl PoolSettings {
    fn options<DB: sqlx::Database>(&self) -> PoolOptions<DB> {
        PoolOptions::new()
            .max_connections(self.max_connections.max(1))
            .acquire_timeout(self.acquire_timeout)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > TEST_AFTER_IDLE {
                        sqlx::Connection::ping(connection).await?;
                    }
                    // SQLite ends a transaction by itself after a full disk or an I/O error; sqlx goes on counting it as
                    // open, and every later `BEGIN` on that connection would be refused. Our own transactions see to that
                    // at their end (`Engine::commit`, `roll_back`); this does in a user's. What was queued when the
                    // connection was given back is done: the pool has pinged it since.
                    Ok(!sqlx::Connection::is_in_transaction(connection))
                })
            })
    }
}

/// A database could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no database that can be used here.
    #[error(transparent)]
    Url(#[from] DatabaseUrlError),
    /// The engine refused, or there is none.
    #[error(transparent)]
    Sql(#[from] SqlError),
}

/// The two pools of a SQLite database: one connection that writes, a few that read.
///
/// More than one writer only adds starvation: SQLite's busy handler sleeps, it does not queue.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone)]
pub struct SqlitePools {
    /// One connection. Its transactions begin with `BEGIN IMMEDIATE`.
    pub writer: sqlx::SqlitePool,
    /// Read-only connections; the writer itself where the database is in memory.
    pub readers: sqlx::SqlitePool,
}

/// Opens a SQLite database, making its file where there is none (unless the URL says `mode=ro` or `mode=rw`).
///
/// # Errors
/// [`SqlError`]: the file can't be opened, is no database, or its folder takes no writes.
#[cfg(feature = "sqlite")]
pub async fn open_sqlite(url: &SqliteUrl, settings: &PoolSettings) -> Result<SqlitePools, SqlError> {
    let (writer, options) = sqlite_writer(url, settings);
    let writer = writer.connect_with(options.clone()).await?;
    let readers = match url.place {
        SqlitePlace::Memory => writer.clone(),
        SqlitePlace::File => {
            let readers = lasting(settings.options(), url.place);
            readers.connect_with(options.create_if_missing(false).read_only(true)).await?
        }
    };
    Ok(SqlitePools { writer, readers })
}

/// How the connection that writes is made and kept.
#[cfg(feature = "sqlite")]
pub(crate) fn sqlite_writer(
    url: &SqliteUrl,
    settings: &PoolSettings,
) -> (PoolOptions<sqlx::Sqlite>, SqliteConnectOptions) {
    let mut options = url
        .options
        .clone()
        .foreign_keys(true)
        .busy_timeout(settings.lock_timeout)
        .synchronous(SqliteSynchronous::Full)
        .create_if_missing(url.access == SqliteAccess::Create && url.place == SqlitePlace::File);
    if url.access != SqliteAccess::ReadOnly {
        options = options.journal_mode(SqliteJournalMode::Wal);
    }
    let one = PoolSettings { max_connections: 1, ..*settings };
    (lasting(one.options(), url.place).min_connections(1), options)
}

/// An in-memory database ends with its last connection, so connections never age out, nor are they closed for anything.
#[cfg(feature = "sqlite")]
fn lasting(pool: PoolOptions<sqlx::Sqlite>, place: SqlitePlace) -> PoolOptions<sqlx::Sqlite> {
    let pool = pool.idle_timeout(None).max_lifetime(None);
    match place {
        SqlitePlace::File => pool,
        SqlitePlace::Memory => pool.before_acquire(|_, _| Box::pin(std::future::ready(Ok(true)))),
    }
}

/// Connects to PostgreSQL.
///
/// The limits travel with the connection's start, so they cost no round trip.
///
/// # Errors
/// [`SqlError`]: no connection, or the server refused it.
#[cfg(feature = "postgres")]
pub async fn connect_postgres(
    options: &sqlx::postgres::PgConnectOptions,
    settings: &PoolSettings,
) -> Result<sqlx::PgPool, SqlError> {
    let ms = |limit: Duration| format!("{}ms", limit.as_millis().max(1));
    let options = options.clone().application_name("perilune").options([
        ("default_transaction_isolation", "read committed".to_owned()),
        ("statement_timeout", ms(settings.statement_timeout)),
        ("lock_timeout", ms(settings.lock_timeout)),
        ("idle_in_transaction_session_timeout", ms(settings.idle_in_transaction_timeout)),
    ]);
    Ok(settings.options().connect_with(options).await?)
}

/// Connects to MySQL or MariaDB.
///
/// # Errors
/// [`SqlError`]: no connection, or the server refused it.
#[cfg(feature = "mysql")]
pub async fn connect_mysql(
    options: &sqlx::mysql::MySqlConnectOptions,
    settings: &PoolSettings,
) -> Result<sqlx::MySqlPool, SqlError> {
    let seconds = |limit: Duration| limit.as_millis().div_ceil(1000).max(1);
    // The two comments are executable: the first by MariaDB alone, the second by MySQL alone.
    let session = format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET SESSION innodb_lock_wait_timeout = {lock} \
         /*M!100303 , max_statement_time = {statement}, idle_transaction_timeout = {idle} */ \
         /*!50708 , max_execution_time = {statement_ms} */",
        lock = seconds(settings.lock_timeout),
        statement = seconds(settings.statement_timeout),
        idle = seconds(settings.idle_in_transaction_timeout),
        statement_ms = settings.statement_timeout.as_millis().max(1),
    );
    let session: std::sync::Arc<str> = session.into();
    let pool = settings.options().after_connect(move |connection, _| {
        let session = sqlx::AssertSqlSafe(std::sync::Arc::clone(&session));
        Box::pin(async move {
            sqlx::Executor::execute(connection, sqlx::raw_sql(session)).await?;
            Ok(())
        })
    });
    Ok(pool.connect_with(options.clone()).await?)
}
