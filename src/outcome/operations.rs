//! An application's operations: which types it knows, where they are kept, with which keys.

use std::sync::{Arc, Once};
use std::time::{SystemTime, UNIX_EPOCH};

use perilune_proto::ResultEvent;
use perilune_proto::scalar::Name;

use super::protect::KeyProvider;
use super::registry::Registry;
use super::store::{COMPONENT, Dialect};
use super::{Operation, OutcomeEngine, OutcomeStoreError};
use crate::sql::migrate::{Applied, MigrateError};
use crate::sql::writer::joined;
use crate::sql::{SqlError, TablePrefix, migrate};

/// Whose an operation is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The tenant; at most 255 bytes. `None` where the application has none.
    pub tenant: Option<String>,
    /// Who asked for it; at most 255 bytes.
    pub actor: Option<String>,
}

impl Origin {
    /// Whether both texts fit their columns.
    pub(super) fn check(&self) -> Result<(), OutcomeStoreError> {
        for (field, text) in [("tenant", &self.tenant), ("actor", &self.actor)] {
            if text.as_ref().is_some_and(|text| text.len() > 255) {
                return Err(OutcomeStoreError::Text { field, allowed: "at most 255 bytes" });
            }
        }
        Ok(())
    }
}

/// Whether an operation's type fits its column; one that came with an event always does.
pub(super) fn check_type(operation_type: &str) -> Result<(), OutcomeStoreError> {
    let error = |_| OutcomeStoreError::Text { field: "operation type", allowed: "1 to 128 of A-Z a-z 0-9 . _ -" };
    operation_type.parse::<Name>().map(drop).map_err(error)
}

type OriginOf = Arc<dyn Fn(&ResultEvent) -> Origin + Send + Sync>;

/// An application's operations, in its own database next to its inbox. Cloning shares them.
///
/// Source: outcome.md.
pub struct Operations<DB: OutcomeEngine> {
    pub(super) pool: sqlx::Pool<DB>,
    pub(super) readers: sqlx::Pool<DB>,
    pub(super) dialect: Arc<Dialect>,
    pub(super) prefix: TablePrefix,
    pub(super) keys: Arc<dyn KeyProvider>,
    pub(super) registry: Arc<Registry>,
    pub(super) origin_of: OriginOf,
    /// Whether an event of an unregistered type has been told of in the log.
    pub(super) first_passed_by: Arc<Once>,
}

impl<DB: OutcomeEngine> Clone for Operations<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            readers: self.readers.clone(),
            dialect: Arc::clone(&self.dialect),
            prefix: self.prefix.clone(),
            keys: Arc::clone(&self.keys),
            registry: Arc::clone(&self.registry),
            origin_of: Arc::clone(&self.origin_of),
            first_passed_by: Arc::clone(&self.first_passed_by),
        }
    }
}

impl<DB: OutcomeEngine> std::fmt::Debug for Operations<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operations").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// Begins with the pool that writes and the keys of the protected blobs.
    pub fn builder(pool: sqlx::Pool<DB>, keys: impl KeyProvider + 'static) -> OperationsBuilder<DB> {
        OperationsBuilder {
            readers: pool.clone(),
            pool,
            prefix: TablePrefix::default(),
            keys: Arc::new(keys),
            registry: Registry::default(),
            origin_of: Arc::new(|_| Origin::default()),
        }
    }

    /// Each registered operation's type with the JSON Schema of its outcome.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = (&'static str, serde_json::Value)> {
        self.registry.schemas()
    }

    /// Brings the tables to this program's version. Safe to run at every start.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn migrate(&self) -> Result<Vec<Applied>, MigrateError> {
        migrate::migrate(&self.pool, &self.prefix, &COMPONENT).await
    }

    /// Checks, without changing anything, that the tables are at this program's version.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn validate(&self) -> Result<(), MigrateError> {
        migrate::validate(&self.pool, &self.prefix, &COMPONENT).await
    }
}

/// Runs a transaction of our own to its end, whatever becomes of who asked for it: sqlx can't have a BEGIN or a COMMIT
/// cancelled, and the pool would hand a connection that is left inside a transaction to somebody else.
pub(super) async fn to_its_end<T, E>(transaction: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<SqlError> + Send + 'static,
{
    joined(tokio::spawn(transaction)).await?
}

/// Options of [`Operations`].
#[must_use]
pub struct OperationsBuilder<DB: OutcomeEngine> {
    pool: sqlx::Pool<DB>,
    readers: sqlx::Pool<DB>,
    prefix: TablePrefix,
    keys: Arc<dyn KeyProvider>,
    registry: Registry,
    origin_of: OriginOf,
}

impl<DB: OutcomeEngine> OperationsBuilder<DB> {
    /// A pool of its own for reading: SQLite has one writer and many readers.
    pub fn readers(mut self, readers: sqlx::Pool<DB>) -> Self {
        self.readers = readers;
        self
    }

    /// What the tables' names begin with.
    pub fn table_prefix(mut self, prefix: TablePrefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// Registers a type of operation. Events of other types pass by, except those of an operation that stands here:
    /// they fail ([`OutcomeStoreError::NotRegistered`]) and come again, until a program gets them that knows the type.
    pub fn operation<O: Operation>(mut self) -> Self {
        self.registry.add::<O>();
        self
    }

    /// Tells whose an operation is that was not accepted here and is first heard of by an event. Without it such
    /// an operation has neither tenant nor actor.
    pub fn origin_of(mut self, origin_of: impl Fn(&ResultEvent) -> Origin + Send + Sync + 'static) -> Self {
        self.origin_of = Arc::new(origin_of);
        self
    }

    /// Makes the operations. Asks the database nothing.
    pub fn build(self) -> Operations<DB> {
        Operations {
            dialect: Arc::new(Dialect::new::<DB>(&self.prefix)),
            pool: self.pool,
            readers: self.readers,
            prefix: self.prefix,
            keys: self.keys,
            registry: Arc::new(self.registry),
            origin_of: self.origin_of,
            first_passed_by: Arc::new(Once::new()),
        }
    }
}

/// The wall clock in microseconds since 1970: the only one of this module.
pub(super) fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
