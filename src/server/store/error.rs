//! Why a store didn't do what it was asked.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::sql::{MigrateError, SqlError, SqlErrorKind};

/// What a key named that isn't there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A credential.
    Credential,
    /// A subscription, or one that this credential may not see.
    Subscription,
    /// A delivery of a subscription.
    Delivery,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credential => "credential",
            Self::Subscription => "subscription",
            Self::Delivery => "delivery",
        })
    }
}

/// Why a question has no answer. Whatever was asked has then had no effect, unless
/// [`Self::Unavailable`] says that nobody knows.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The caller's fault: nothing has that key.
    #[error("no such {0}")]
    NotFound(Resource),
    /// The caller's fault: a credential that isn't revoked has that name.
    #[error("a credential of that name exists")]
    NameTaken,
    /// The caller's fault: only an EXPIRED delivery takes budget.
    #[error("the delivery is not expired")]
    NotExpired,
    /// Too much is queued; try again later.
    #[error("the store has too much to do")]
    Busy,
    /// The disk has no room.
    #[error("the store's disk is full")]
    Full,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The database can't be reached, is locked or failed. A write may or may not have happened; ask again.
    #[error("the store is unavailable")]
    Unavailable(#[source] Cause),
    /// The database holds something that the server didn't write.
    #[error("the store is damaged: {0}")]
    Damaged(&'static str),
}

/// Why a database can't be used, in a sentence that an operator can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file exists and isn't an SQLite database.
    #[error("{} is not an SQLite database", .0.display())]
    NotADatabase(PathBuf),
    /// The file is an SQLite database of another program.
    #[error("{} is the database of another program", .0.display())]
    Foreign(PathBuf),
    /// An engine that the server doesn't keep its log in.
    #[error("a server keeps its log in SQLite or PostgreSQL")]
    UnknownEngine,
    /// A server keeps what it answered: it needs a file or a database server.
    #[error("an in-memory database can't be served: name a file or a PostgreSQL database")]
    InMemory,
    /// Another server has it.
    #[error("{} is in use by another server; one SQLite file serves one server", .0.display())]
    InUse(PathBuf),
    /// A newer version of this program made it.
    #[error("the database has schema version {found}, this program knows {known} at most: use the newer program")]
    Newer {
        /// The database's version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// An operator's command found a database that only a server may bring up to date.
    #[error(
        "the database has schema version {found}, this program needs {known}: a server of this version makes it so when it starts"
    )]
    Older {
        /// The database's version.
        found: u32,
        /// The version that this program needs.
        known: u32,
    },
    /// The file or its folder can't be written.
    #[error("{} can't be written: the file, its folder or its file system is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The folder isn't there, or the file can't be opened.
    #[error("{} can't be opened", .path.display())]
    Unreadable {
        /// The database's file.
        path: PathBuf,
        /// What the operating system or the engine said.
        #[source]
        cause: Cause,
    },
    /// The disk has no room for the schema.
    #[error("the disk of {} is full", .0.display())]
    Full(PathBuf),
    /// Somebody holds a lock on it for longer than we wait.
    #[error("the database is locked by another process")]
    Locked(#[source] Cause),
    /// The schema can't be brought up to date; nothing was changed.
    #[error("the database's schema can't be brought up to date")]
    Schema(#[source] Cause),
    /// The database can't be reached.
    #[error("the database can't be reached")]
    Unreachable(#[source] Cause),
}

impl OpenError {
    /// What a migrator says, apart from what the database said to it.
    pub(super) fn of_migration(error: MigrateError) -> Self {
        match error {
            MigrateError::Newer { found, known, .. } => Self::Newer { found, known },
            MigrateError::Pending { found, needed, .. } => Self::Older { found, known: needed },
            MigrateError::Busy { .. } => Self::Locked(Cause::new(error)),
            _ => Self::Schema(Cause::new(error)),
        }
    }
}

impl StoreError {
    /// The database does not say whether it is there.
    pub(super) fn silent() -> Self {
        Self::Unavailable(Cause::new("it did not answer in time"))
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        match error.kind() {
            SqlErrorKind::DiskFull => Self::Full,
            _ => Self::Unavailable(Cause::new(error)),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Damaged("a column has another type"),
            sqlx::Error::PoolClosed => Self::Closed,
            error => SqlError::from(error).into(),
        }
    }
}

/// What lies beneath a store's error. Its text may name tables and files, never a secret or a payload.
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// Keeps what an engine or the operating system said.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }
}

// The `Debug` of a driver's error may hold rows of the database, so both forms print the message alone.
impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Cause {}
