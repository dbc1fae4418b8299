//! The inbox: one transaction per event, in the receiver's own database.
//!
//! An event may be delivered more than once and by several processes at once. The inbox makes its *effect* happen
//! once: it inserts `(consumer_name, event_id)` and runs the caller's statements in one transaction. The unique key
//! makes a concurrent twin wait until the first commits (then it is a duplicate) or rolls back (then it runs).
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # async fn apply(event: &perilune_proto::event::ResultEvent) -> Result<(), Box<dyn std::error::Error>> {
//! use perilune::inbox::{Applied, Inbox};
//!
//! let inbox = Inbox::<sqlx::Sqlite>::connect("sqlite:shop.db", "billing").await?;
//! let applied = inbox
//!     .apply_once(event, |mut tx| async move {
//!         sqlx::query("UPDATE account SET balance = balance + 1").execute(&mut **tx).await?;
//!         Ok::<_, sqlx::Error>(())
//!     })
//!     .await?;
//! assert!(matches!(applied, Applied::Fresh(()) | Applied::Duplicate));
//! # Ok(())
//! # }
//! ```
//!
//! | for | use |
//! | --- | --- |
//! | one event by hand | [`Inbox::apply_once`], [`Inbox::apply_once_within`] a lease |
//! | a transaction of your own | [`Inbox::apply_once_in`], [`Inbox::admit`] |
//! | a consumer's handler | [`Inbox::handler`] |
//! | rows of acknowledged events | [`Inbox::settle`], [`Inbox::prune`], [`Inbox::keep_pruned`] |
//! | an operator | [`inspect`] |
//!
//! Source: consumer.md section 8.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(unused, reason = "without an engine there is nothing to adapt")
)]

use std::sync::Arc;

use perilune_proto::scalar::Name;
use sqlx::Pool;

use crate::sql::{Component, MigrateError, Migration, SqlError, TablePrefix, Writer, migrate};

mod apply;
mod error;
mod fingerprint;
mod handler;
pub mod inspect;
#[cfg(feature = "mysql")]
mod mysql;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
mod prune;
mod scope;
mod settle;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod transaction;
mod within;

pub use apply::Admission;
pub use error::{ApplyError, ApplyErrorKind, BoxError, OpenError};
pub use fingerprint::Fingerprint;
pub use handler::InboxHandler;
pub use open::{InboxOptions, Schema};
pub use prune::{Pruned, PruningPolicy};
pub use scope::Scope;
pub use store::Store;
pub use transaction::OpenTransaction;

use store::Statements;

/// The inbox's tables.
pub const COMPONENT: Component = Component {
    name: "inbox",
    migrations: &[Migration {
        version: 1,
        name: "the inbox and its pruner's turn",
        sqlite: include_str!("migrations/sqlite/0001_inbox.sql"),
        postgres: include_str!("migrations/postgres/0001_inbox.sql"),
        mysql: include_str!("migrations/mysql/0001_inbox.sql"),
    }],
};

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied<T> {
    /// The caller's statements ran and are committed.
    Fresh(T),
    /// They ran before; nothing ran now. As good a reason to acknowledge as `Fresh`.
    Duplicate,
}

/// The inbox of one consumer in one database. Cloning shares it.
///
/// `DB` is `sqlx::Sqlite`, `sqlx::Postgres` or `sqlx::MySql`. Several consumers share one table, each under its name;
/// an event runs once for each.
#[derive(Debug)]
pub struct Inbox<DB: Store>(Arc<Inner<DB>>);

impl<DB: Store> Clone for Inbox<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Inner<DB: Store> {
    writer: Writer<DB>,
    consumer: Name,
    prefix: TablePrefix,
    sql: Statements,
}

impl<DB: Store> Inner<DB> {
    fn count<T>(&self, result: &Result<Applied<T>, ApplyError>) {
        let outcome = match result {
            Ok(Applied::Fresh(_)) => "applied",
            Ok(Applied::Duplicate) => "duplicate",
            Err(error) => match error.kind() {
                ApplyErrorKind::Conflict => "conflict",
                ApplyErrorKind::Handler => "handler_failed",
                ApplyErrorKind::Database(_) => "database_failed",
                ApplyErrorKind::UnknownCommit => "unknown_commit",
                ApplyErrorKind::Cancelled => "cancelled",
                ApplyErrorKind::TransactionKept => "transaction_kept",
            },
        };
        let consumer = self.consumer.to_string();
        metrics::counter!("perilune_inbox_events_total", "consumer" => consumer, "outcome" => outcome).increment(1);
    }

    fn count_retry(&self, error: &ApplyError) {
        tracing::debug!(consumer = %self.consumer, %error, "an event's transaction is run again");
        metrics::counter!("perilune_inbox_retries_total", "consumer" => self.consumer.to_string()).increment(1);
    }
}

impl<DB: Store> Inbox<DB> {
    /// The inbox of `consumer` over a pool of the caller's, with tables named `perilune_…`.
    ///
    /// Transactions run on the runtime where this is called, so call it where the pool was opened and where nothing
    /// blocks. The pool's limits are the caller's business ([`crate::sql::pool`] says which matter); isolation is not, every
    /// transaction here states its own. Nothing is migrated or pruned: see [`Inbox::migrate`], [`Inbox::keep_pruned`].
    ///
    /// # Errors
    /// [`OpenError::ConsumerName`], [`OpenError::NoRuntime`].
    pub fn new(pool: Pool<DB>, consumer: &str) -> Result<Self, OpenError> {
        Self::with_prefix(pool, consumer, &TablePrefix::default())
    }

    /// [`Inbox::new`] with another prefix of the tables' names.
    ///
    /// # Errors
    /// [`OpenError::ConsumerName`], [`OpenError::NoRuntime`].
    pub fn with_prefix(pool: Pool<DB>, consumer: &str, prefix: &TablePrefix) -> Result<Self, OpenError> {
        let consumer = consumer.parse().map_err(|_| OpenError::ConsumerName)?;
        let writer = Writer::new(pool).map_err(|_| OpenError::NoRuntime)?;
        let sql = Statements::new::<DB>(prefix);
        Ok(Self(Arc::new(Inner { writer, consumer, prefix: prefix.clone(), sql })))
    }

    /// Opens the database that `url` names, brings the inbox's tables to this version, makes the inbox and keeps it
    /// pruned. [`InboxOptions`] has the choices.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn connect(url: &str, consumer: &str) -> Result<Self, OpenError> {
        InboxOptions::new(consumer).connect(url).await
    }

    /// Brings the inbox's tables to this program's version. Safe at every start and from several programs at once.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn migrate(&self) -> Result<(), MigrateError> {
        migrate::migrate(self.0.writer.pool(), &self.0.prefix, &COMPONENT).await.map(drop)
    }

    /// Checks that the inbox's tables are at this program's version.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn validate(&self) -> Result<(), MigrateError> {
        migrate::validate(self.0.writer.pool(), &self.0.prefix, &COMPONENT).await
    }

    /// Runs upkeep to its end on the inbox's runtime, whatever becomes of the caller.
    async fn in_task<T, Fut>(&self, task: impl FnOnce(Arc<Inner<DB>>) -> Fut) -> Result<T, SqlError>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T, SqlError>> + Send + 'static,
    {
        self.0.writer.in_task(task(Arc::clone(&self.0))).await
    }

    /// The consumer's name.
    #[must_use]
    pub fn consumer(&self) -> &Name {
        &self.0.consumer
    }

    /// The pool that the inbox works on.
    #[must_use]
    pub fn pool(&self) -> &Pool<DB> {
        self.0.writer.pool()
    }
}

// The page's snippets compile.
#[cfg(all(doctest, feature = "outbox", feature = "postgres"))]
#[doc = include_str!("../../docs/inbox.md")]
struct InboxDocument;
