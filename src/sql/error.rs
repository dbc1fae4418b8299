//! One class for each thing that can go wrong in a database, told by its code and never by its text: a server
//! may speak any language.

use std::fmt;

use super::url::EngineName;

mod codes;

/// What went wrong, sorted by what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqlErrorKind {
    /// A unique key refused the row. [`SqlError::constraint`] says which.
    UniqueViolation,
    /// Another constraint (foreign key, check, not null, exclusion) refused the row.
    ConstraintViolation,
    /// The engine chose this transaction to end a deadlock. The whole transaction may be run again.
    Deadlock,
    /// A lock was not had in time (SQLite's busy timeout too). The whole transaction may be run again.
    LockTimeout,
    /// The transaction could not be put in order with the others. It may be run again.
    Serialization,
    /// A statement took longer than the engine allows, or somebody cancelled it.
    StatementTimeout,
    /// The transaction was open and idle for longer than the engine allows.
    IdleTimeout,
    /// No connection: refused, lost, all taken, or the server is starting or ending. Nothing was committed.
    Unavailable,
    /// The connection was lost while the commit was under way: it took place or it did not.
    UnknownCommit,
    /// The engine had given the transaction up (after an error that the caller swallowed) when it was to be committed.
    TransactionAborted,
    /// The database's disk is full.
    DiskFull,
    /// The database or the transaction takes no writes: a replica, a read-only file, a read-only transaction.
    ReadOnly,
    /// A table or column is missing: the migrations have not been run.
    MissingSchema,
    /// The server refused the user, the password or the database.
    Access,
    /// The file is no database, or a damaged one.
    Corrupt,
    /// Anything else: a mistake in a statement, a type that does not fit.
    Other,
}

impl SqlErrorKind {
    /// Whether running the whole transaction again may help, with nothing of it committed.
    #[must_use]
    pub const fn is_contention(self) -> bool {
        matches!(self, Self::Deadlock | Self::LockTimeout | Self::Serialization)
    }

    const fn clause(self) -> &'static str {
        match self {
            Self::UniqueViolation => "a unique key refused the row",
            Self::ConstraintViolation => "a constraint refused the row",
            Self::Deadlock => "the transaction was chosen to end a deadlock",
            Self::LockTimeout => "a lock was not had in time",
            Self::Serialization => "the transaction could not be serialised with others",
            Self::StatementTimeout => "a statement took longer than the database allows",
            Self::IdleTimeout => "the transaction was idle for longer than the database allows",
            Self::Unavailable => "the database is unavailable",
            Self::UnknownCommit => "the connection was lost at the commit, whose outcome is unknown",
            Self::TransactionAborted => "the database had given the transaction up before its commit",
            Self::DiskFull => "the database's disk is full",
            Self::ReadOnly => "the database is read-only",
            Self::MissingSchema => "a table or column is missing; run the migrations",
            Self::Access => "the database refused the user or has no such database",
            Self::Corrupt => "the file is not a database or is damaged",
            Self::Other => "the database refused a statement",
        }
    }
}

impl fmt::Display for SqlErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.clause())
    }
}

/// A database error with its class.
///
/// Neither `Display` nor `Debug` nor the chain of sources has the server's text, which may quote rows (business
/// data) and comes in any language. Who needs it asks for [`SqlError::driver_error`] and keeps it out of logs.
pub struct SqlError {
    kind: SqlErrorKind,
    constraint: Option<Box<str>>,
    driver: Box<sqlx::Error>,
}

impl SqlError {
    /// What went wrong.
    #[must_use]
    pub const fn kind(&self) -> SqlErrorKind {
        self.kind
    }

    /// The violated unique key: the constraint's name on PostgreSQL, `table.column, table.column` on SQLite, the
    /// key's name (possibly behind its table's) on MySQL and MariaDB.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        self.constraint.as_deref()
    }

    /// The driver's error. Its text is the server's and may quote rows: do not log it.
    #[must_use]
    pub const fn driver_error(&self) -> &sqlx::Error {
        &self.driver
    }

    /// The error of a commit: where the connection broke, nobody knows whether it took place.
    #[must_use]
    pub fn at_commit(driver: sqlx::Error) -> Self {
        let mut error = Self::from(driver);
        if error.kind == SqlErrorKind::Unavailable || codes::is_ambiguous_at_commit(&error.driver) {
            error.kind = SqlErrorKind::UnknownCommit;
        } else if codes::is_gone_at_commit(&error.driver) {
            error.kind = SqlErrorKind::TransactionAborted;
        }
        error
    }
}

impl From<sqlx::Error> for SqlError {
    fn from(driver: sqlx::Error) -> Self {
        let (kind, constraint) = codes::classify(&driver);
        Self { kind, constraint, driver: Box::new(driver) }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SqlError");
        out.field("kind", &self.kind);
        if let Some(code) = codes::code(&self.driver) {
            out.field("code", &code);
        }
        out.finish_non_exhaustive()
    }
}

impl std::error::Error for SqlError {}

/// The class of a driver's error.
#[must_use]
pub fn classify(driver: &sqlx::Error) -> SqlErrorKind {
    codes::classify(driver).0
}

/// The class of the first database error in a chain of sources, where there is one.
///
/// A caller's own error type may hold a [`sqlx::Error`] or a [`SqlError`] at any depth.
#[must_use]
pub fn classify_chain(error: &(dyn std::error::Error + 'static)) -> Option<SqlErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(driver) = error.downcast_ref::<sqlx::Error>() {
            return Some(classify(driver));
        }
        if let Some(error) = error.downcast_ref::<SqlError>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    None
}

/// Which engine an error came from, where the engine itself reported it.
#[must_use]
pub fn origin(driver: &sqlx::Error) -> Option<EngineName> {
    codes::origin(driver)
}
