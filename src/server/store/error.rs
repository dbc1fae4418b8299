//! Why a store didn't do what it was asked.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

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
    /// Another server has it.
    #[error("{} is in use by another server; one SQLite file serves one server", .0.display())]
    InUse(PathBuf),
    /// A newer version of this program made it.
    #[error("the database has schema version {found}, this program knows {known} at most: use the newer program")]
    Newer {
        /// The database's version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// An operator's command found a database that only a server may bring up to date.
    #[error("the database has schema version {found} and a running server; restart the server to bring it to {known}")]
    Older {
        /// The database's version.
        found: i64,
        /// The version that this program needs.
        known: i64,
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
    /// A schema step failed; nothing of it was kept.
    #[error("the schema can't be brought to version {version}")]
    Migration {
        /// The step that failed.
        version: i64,
        /// What the engine said.
        #[source]
        cause: Cause,
    },
    /// The database can't be reached.
    #[error("the database can't be reached")]
    Unreachable(#[source] Cause),
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
