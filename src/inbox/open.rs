//! Making an inbox from a URL, with everything on that it needs to live long.

use std::time::Duration;

use super::error::OpenError;
use super::prune::PruningPolicy;
use super::store::Store;
use super::{COMPONENT, Inbox};
use crate::sql::migrate::{migrate, validate};
use crate::sql::{DatabaseUrl, PoolSettings, TablePrefix, pool};

/// Options of an inbox that opens its own pool.
///
/// ```
/// # #[cfg(feature = "postgres")]
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// use perilune::inbox::{InboxOptions, PruningPolicy};
/// # use std::time::Duration;
/// let day = Duration::from_secs(86_400);
/// let inbox = InboxOptions::new("billing")
///     .table_prefix("shop_".parse()?)
///     .pruning(PruningPolicy::new(90 * day, 30 * day)?)
///     .connect::<sqlx::Postgres>("postgres://shop@localhost/shop")
///     .await?;
/// # drop(inbox);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct InboxOptions {
    consumer: String,
    prefix: TablePrefix,
    pool: PoolSettings,
    schema: Schema,
    pruning: Option<PruningPolicy>,
}

/// What is done about the inbox's tables when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// They are brought to this program's version.
    Migrate,
    /// They must be at this program's version already: the program's user may change no schema.
    Validate,
}

impl InboxOptions {
    /// The defaults for this consumer; its name is checked when the inbox is made.
    pub fn new(consumer: &str) -> Self {
        Self {
            consumer: consumer.to_owned(),
            prefix: TablePrefix::default(),
            pool: PoolSettings::default(),
            schema: Schema::Migrate,
            pruning: Some(PruningPolicy::default()),
        }
    }

    /// What the tables' names begin with; `perilune_` by default.
    pub fn table_prefix(mut self, prefix: TablePrefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// The pool's limits.
    pub const fn pool(mut self, pool: PoolSettings) -> Self {
        self.pool = pool;
        self
    }

    /// Whether the tables are migrated (the default) or only checked.
    pub const fn schema(mut self, schema: Schema) -> Self {
        self.schema = schema;
        self
    }

    /// When rows of settled events are deleted. On by default, after thirty days.
    pub const fn pruning(mut self, policy: PruningPolicy) -> Self {
        self.pruning = Some(policy);
        self
    }

    /// Keeps every row for ever, or until somebody else prunes.
    pub const fn without_pruning(mut self) -> Self {
        self.pruning = None;
        self
    }

    /// Opens the database and makes the inbox. Where pruning is on, it goes on until the last clone of the inbox is
    /// dropped.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn connect<DB: Store>(self, url: &str) -> Result<Inbox<DB>, OpenError> {
        self.open(&url.parse().map_err(pool::OpenError::from)?).await
    }

    /// [`Self::connect`] with a URL that was read before.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open<DB: Store>(self, url: &DatabaseUrl) -> Result<Inbox<DB>, OpenError> {
        let inbox = Inbox::with_prefix(DB::open(url, &self.pool).await?, &self.consumer, &self.prefix)?;
        match self.schema {
            Schema::Migrate => drop(migrate(inbox.pool(), &self.prefix, &COMPONENT).await?),
            Schema::Validate => validate(inbox.pool(), &self.prefix, &COMPONENT).await?,
        }
        if let Some(policy) = self.pruning {
            inbox.keep_pruned(policy);
        }
        Ok(inbox)
    }
}

/// An error that names a setting, its range and nothing else.
pub(super) fn out_of_range(field: &'static str, range: impl Into<String>) -> OpenError {
    OpenError::Setting { field, range: range.into() }
}

/// A duration as a person writes it, whole seconds up.
pub(super) fn spelled(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        _ if seconds.is_multiple_of(86_400) => format!("{} d", seconds / 86_400),
        _ if seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        _ => format!("{seconds} s"),
    }
}
