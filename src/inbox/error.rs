//! Why an event was not applied. None of these is ever acknowledged.

use std::error::Error as StdError;
use std::fmt;

use perilune_proto::scalar::EventId;

use crate::sql::error::classify_chain;
use crate::sql::{SqlError, SqlErrorKind};

/// Any error of a caller's own.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An event was not applied, or nobody knows ([`ApplyErrorKind::UnknownCommit`]).
///
/// `Display` and `Debug` have neither the server's text nor the caller's error, which may both quote business data.
/// [`std::error::Error::source`] is the caller's own error, where it was the closure that failed.
pub struct ApplyError {
    kind: ApplyErrorKind,
    event_id: Option<EventId>,
    cause: Cause,
}

enum Cause {
    None,
    Sql(SqlError),
    Handler(BoxError),
}

/// What kept an event from being applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyErrorKind {
    /// The inbox has another event under this id: type, task or task version differ. Retrying can't help.
    Conflict,
    /// The caller's closure failed, a business constraint included; [`ApplyError::sql_kind`] tells. Rolled back.
    Handler,
    /// The database failed, in our statement or in the caller's: what is no fault of the event. Rolled back. For
    /// deadlocks, lock timeouts and serialisation failures all allowed attempts were made.
    Database(SqlErrorKind),
    /// The connection was lost at the commit: it took place or it did not. The next delivery finds out.
    UnknownCommit,
    /// The caller was stopped or went away before the commit. Rolled back.
    Cancelled,
    /// The closure ended and kept its transaction. Rolled back once it lets go.
    TransactionKept,
}

impl ApplyError {
    pub(super) const fn new(kind: ApplyErrorKind) -> Self {
        Self { kind, event_id: None, cause: Cause::None }
    }

    /// An error of one of our own statements.
    pub(super) fn database(error: sqlx::Error) -> Self {
        let error = SqlError::from(error);
        Self { kind: ApplyErrorKind::Database(error.kind()), event_id: None, cause: Cause::Sql(error) }
    }

    /// An error of the commit.
    pub(super) fn commit(error: sqlx::Error) -> Self {
        let error = SqlError::at_commit(error);
        let kind = match error.kind() {
            SqlErrorKind::UnknownCommit => ApplyErrorKind::UnknownCommit,
            // A deferred constraint of the business tables.
            SqlErrorKind::UniqueViolation | SqlErrorKind::ConstraintViolation => ApplyErrorKind::Handler,
            kind => ApplyErrorKind::Database(kind),
        };
        Self { kind, event_id: None, cause: Cause::Sql(error) }
    }

    /// The caller's error. Where a database error is in its chain that is no fault of the event, that is the kind.
    pub(super) fn handler(error: BoxError) -> Self {
        let kind = match classify_chain(&*error) {
            Some(SqlErrorKind::UnknownCommit) => ApplyErrorKind::UnknownCommit,
            Some(kind) if is_infrastructure(kind) => ApplyErrorKind::Database(kind),
            _ => ApplyErrorKind::Handler,
        };
        Self { kind, event_id: None, cause: Cause::Handler(error) }
    }

    pub(super) const fn of(mut self, event_id: Option<EventId>) -> Self {
        self.event_id = event_id;
        self
    }

    /// What kept the event from being applied.
    #[must_use]
    pub const fn kind(&self) -> ApplyErrorKind {
        self.kind
    }

    /// The event, where it is known.
    #[must_use]
    pub const fn event_id(&self) -> Option<EventId> {
        self.event_id
    }

    /// The class of the database error behind this one: of ours, or of the first in the chain of the caller's error.
    #[must_use]
    pub fn sql_kind(&self) -> Option<SqlErrorKind> {
        match &self.cause {
            Cause::Sql(error) => Some(error.kind()),
            Cause::Handler(error) => classify_chain(&**error),
            Cause::None => None,
        }
    }

    /// The caller's own error, where the closure failed.
    ///
    /// # Errors
    /// This error itself, where it was something else.
    pub fn into_handler_error(self) -> Result<BoxError, Self> {
        match self.cause {
            Cause::Handler(error) => Ok(error),
            cause => Err(Self { cause, ..self }),
        }
    }

    /// Whether the whole transaction may be run again: nothing of it was committed, and another order may succeed.
    pub(super) fn is_contention(&self) -> bool {
        matches!(self.kind, ApplyErrorKind::Database(kind) if kind.is_contention())
    }
}

/// Classes that are no fault of the event or of the caller's statements.
const fn is_infrastructure(kind: SqlErrorKind) -> bool {
    !matches!(
        kind,
        SqlErrorKind::UniqueViolation
            | SqlErrorKind::ConstraintViolation
            | SqlErrorKind::MissingSchema
            | SqlErrorKind::Access
            | SqlErrorKind::Other
    )
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ApplyErrorKind::Conflict => f.write_str("the inbox has another event under this event's id"),
            ApplyErrorKind::Handler => f.write_str("the handler's own statements failed"),
            ApplyErrorKind::Database(kind) => kind.fmt(f),
            ApplyErrorKind::UnknownCommit => SqlErrorKind::UnknownCommit.fmt(f),
            ApplyErrorKind::Cancelled => f.write_str("the handler was cancelled before its commit"),
            ApplyErrorKind::TransactionKept => f.write_str("the handler ended without giving its transaction back"),
        }
    }
}

impl fmt::Debug for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyError")
            .field("kind", &self.kind)
            .field("event_id", &self.event_id)
            .field("sql", &self.sql_kind())
            .finish_non_exhaustive()
    }
}

impl StdError for ApplyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.cause {
            Cause::Handler(error) => Some(&**error),
            Cause::Sql(error) => Some(error),
            Cause::None => None,
        }
    }
}

/// An inbox could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The consumer's name is not 1 to 128 of `A-Z a-z 0-9 . _ -`.
    #[error("a consumer's name must be 1 to 128 of A-Z a-z 0-9 . _ -")]
    ConsumerName,
    /// There is no tokio runtime on this thread to run transactions on.
    #[error("an inbox must be made on a thread with a tokio runtime")]
    NoRuntime,
    /// A setting is out of its range.
    #[error("{field} must be {range}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What is allowed.
        range: String,
    },
    /// The database could not be opened.
    #[error(transparent)]
    Database(#[from] crate::sql::pool::OpenError),
    /// The tables could not be brought to this program's version.
    #[error(transparent)]
    Migrate(#[from] crate::sql::MigrateError),
}
