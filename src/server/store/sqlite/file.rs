//! The database's file: whose it is, who has it, which schema it has.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use perilune_proto::limits::{LEASE_MS, REDELIVERY_BACKOFF_MAX};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection, SqlitePool};

use super::super::migrations::SERVER;
use super::super::{Cause, Clock, OpenError, Role};
use super::row::{Times, micros};
use crate::sql::migrate::{self, MigrateError};
use crate::sql::pool::{PoolSettings, SqlitePools, open_sqlite};
use crate::sql::url::{SqliteAccess, SqlitePlace, SqliteUrl};
use crate::sql::{SqlError, SqlErrorKind, TablePrefix};

/// `PRAGMA application_id` of our files: "PLSV".
const APPLICATION_ID: i64 = 0x504c_5356;

const CONTENTS: &str =
    "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)";

// A host whose clock was set back since the last run would hold leases and backoffs for that long.
const CLAMP_LEASES: &str = "UPDATE delivery SET due_at = ?1 WHERE state = 1 AND due_at > ?1";
const CLAMP_BACKOFFS: &str = "UPDATE delivery SET due_at = ?1 + s.backoff_max
    FROM subscription s
    WHERE s.subscription_no = delivery.subscription_no AND delivery.state = 0 AND delivery.state < 3
        AND delivery.due_at > ?1 + max(s.backoff_max, ?2)";

/// An open database.
pub(super) struct Opened {
    pub(super) writer: SqliteConnection,
    /// What the writer was opened with.
    pub(super) options: SqliteConnectOptions,
    pub(super) readers: SqlitePool,
    /// Keeps other servers out for as long as it lives.
    pub(super) claim: Option<File>,
}

pub(super) async fn open(url: &SqliteUrl, role: Role, clock: &dyn Clock) -> Result<Opened, OpenError> {
    if url.place == SqlitePlace::Memory {
        return Err(OpenError::InMemory);
    }
    let path = url.options.get_filename().to_path_buf();
    if url.access == SqliteAccess::ReadOnly {
        return Err(OpenError::ReadOnly(path));
    }
    inspect(&path).await?;
    let claim = claim(&path, role)?;
    let failed = |error: SqlError| failure(&path, error);
    let pools = open_sqlite(url, &PoolSettings { max_connections: 4, ..PoolSettings::default() }).await;
    let SqlitePools { writer, readers } = pools.map_err(failed)?;
    bring_up_to_date(&writer, &path, claim.is_some()).await?;
    let options = (*writer.connect_options()).clone();
    let mut writer = writer.acquire().await.map_err(|error| failed(error.into()))?.detach();
    if role == Role::Server {
        clamp(&mut writer, Times::of(clock)).await.map_err(|error| failed(error.into()))?;
    }
    // An operator's command only held it to migrate undisturbed.
    Ok(Opened { writer, options, readers, claim: claim.filter(|_| role == Role::Server) })
}

/// Looks at a database and its schema without changing either, beside whoever has it.
pub(super) async fn examine(url: &SqliteUrl) -> Result<(), OpenError> {
    let path = url.options.get_filename().to_path_buf();
    match path.try_exists() {
        Ok(true) => inspect(&path).await?,
        Ok(false) => return Err(unreadable(&path, std::io::ErrorKind::NotFound.into())),
        Err(error) => return Err(unreadable(&path, error)),
    }
    let options = url.options.clone().read_only(true).create_if_missing(false).busy_timeout(Duration::from_secs(5));
    let pool = SqlitePool::connect_with(options).await.map_err(|error| failure(&path, error.into()))?;
    let valid = migrate::validate(&pool, &TablePrefix::default(), &SERVER).await;
    pool.close().await;
    valid.map_err(|error| refused(&path, error))
}

/// Looks at what is there without changing it: a file of another program must stay as it is.
async fn inspect(path: &Path) -> Result<(), OpenError> {
    if !path.try_exists().map_err(|error| unreadable(path, error))? {
        return Ok(());
    }
    let options = SqliteConnectOptions::new().filename(path).read_only(true).busy_timeout(Duration::from_secs(5));
    let look = async {
        let mut connection = SqliteConnection::connect_with(&options).await?;
        let contents: (i64, i64) = sqlx::query_as(CONTENTS).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok::<_, sqlx::Error>(contents)
    };
    match look.await.map_err(|error| failure(path, error.into()))? {
        (APPLICATION_ID, _) | (0, 0) => Ok(()),
        _ => Err(OpenError::Foreign(path.to_owned())),
    }
}

/// Claims the database by a lock on a file beside it, which the operating system lets go when the process ends.
///
/// It is not the database's own file: closing a second handle on that would drop SQLite's locks.
fn claim(path: &Path, role: Role) -> Result<Option<File>, OpenError> {
    // Two names of one file are one claim.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut beside = real.into_os_string();
    beside.push("-server");
    let beside = PathBuf::from(beside);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&beside);
    let file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly(path.to_owned())
        }
        std::io::ErrorKind::StorageFull => OpenError::Full(path.to_owned()),
        _ => unreadable(path, error),
    })?;
    match (file.try_lock(), role) {
        (Ok(()), _) => Ok(Some(file)),
        (Err(TryLockError::WouldBlock), Role::Operator) => Ok(None),
        (Err(TryLockError::WouldBlock), Role::Server) => Err(OpenError::InUse(path.to_owned())),
        (Err(TryLockError::Error(error)), _) => Err(unreadable(path, error)),
    }
}

/// Migrates where nobody else has the database; beside a running server only checks.
async fn bring_up_to_date(pool: &SqlitePool, path: &Path, ours_alone: bool) -> Result<(), OpenError> {
    let prefix = TablePrefix::default();
    let done = if ours_alone {
        migrate::migrate(pool, &prefix, &SERVER).await.map(|_| ())
    } else {
        migrate::validate(pool, &prefix, &SERVER).await
    };
    done.map_err(|error| refused(path, error))
}

fn refused(path: &Path, error: MigrateError) -> OpenError {
    match error {
        MigrateError::Database { error, .. } => failure(path, error),
        other => OpenError::of_migration(other),
    }
}

async fn clamp(writer: &mut SqliteConnection, times: Times) -> Result<(), sqlx::Error> {
    let longest_lease = Duration::from_millis(u64::from(*LEASE_MS.end()));
    sqlx::query(CLAMP_LEASES).bind(micros(times.now.plus(longest_lease))).execute(&mut *writer).await?;
    let backoff = i64::try_from(REDELIVERY_BACKOFF_MAX.as_micros()).unwrap_or(i64::MAX);
    sqlx::query(CLAMP_BACKOFFS).bind(micros(times.now)).bind(backoff).execute(&mut *writer).await?;
    Ok(())
}

fn unreadable(path: &Path, error: std::io::Error) -> OpenError {
    OpenError::Unreadable { path: path.to_owned(), cause: Cause::new(error) }
}

fn failure(path: &Path, error: SqlError) -> OpenError {
    let path = path.to_owned();
    match error.kind() {
        SqlErrorKind::Corrupt => OpenError::NotADatabase(path),
        SqlErrorKind::ReadOnly => OpenError::ReadOnly(path),
        SqlErrorKind::DiskFull => OpenError::Full(path),
        SqlErrorKind::LockTimeout => OpenError::Locked(Cause::new(error)),
        _ => OpenError::Unreadable { path, cause: Cause::new(error) },
    }
}
