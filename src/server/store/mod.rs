//! What the server asks of its database, and the engines that answer.
//!
//! The port is one trait a subject, each in a file with its records: [`Credentials`], [`TaskLog`],
//! [`Subscriptions`], [`Deliveries`], [`Upkeep`]. [`Store`] is all five; the server holds an
//! `Arc<dyn Store>` and knows no SQL.
//!
//! - What a store has answered is on disk: an answer comes after its commit. A dropped future cancels
//!   nothing that was begun.
//! - Leases, backoff and retention are judged by the store's own clock. Waits come back as durations, so
//!   that the clock of the node that asks decides nothing.
//! - A store never leases by itself. It *says* that a lease may now succeed: by [`Wakes`] when something
//!   changed, by [`Leases::again_in`] when only time must pass. Whoever has sessions then calls
//!   [`Deliveries::lease`].
//! - Events leave the store as the text that was frozen when they were written; nobody parses them again.

mod batch;
mod bounds;
mod choice;
mod clock;
mod credential;
mod delivery;
mod error;
mod fresh;
mod frozen;
mod group;
mod lapses;
mod memory;
mod migrations;
#[cfg(feature = "postgres")]
mod postgres;
mod scan;
mod sqlite;
mod subscription;
mod task;
mod upkeep;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::sql::DatabaseUrl;

pub use clock::{Clock, HostClock, ManualClock};
pub use credential::{
    CredentialId, CredentialRecord, CredentialSecret, Credentials, NewCredential, Principal, Rotation, Scope, Scopes,
    SecretHash,
};
pub use delivery::{
    AddBudget, Confirmation, Confirmed, Deliveries, DeliveryRecord, DeliveryState, EventBrief, Lease, LeaseRequest,
    Leases, ListDeliveries, SessionCredit, SessionRequest, Standing, Supply,
};
pub use error::{Cause, OpenError, Resource, StoreError};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresStore, SchemaName};
pub use sqlite::SqliteStore;
pub use subscription::{
    Figures, ListSubscriptions, NewSubscription, Start, Subscription, SubscriptionKey, SubscriptionRecord,
    Subscriptions, Switch,
};
pub use task::{IdempotencyKey, Report, TaskLog, TaskRecord, Verdict, WrittenEvent};
pub use upkeep::{ExpiredDeliveries, PastCursors, Retained, Retention, StoreFigures, Swept, Upkeep, Wake, Wakes};

/// A store's answer to one question.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Everything the server asks of its database.
///
/// Implementations are cheap to share: one behind an `Arc` serves every session and route.
pub trait Store: Credentials + TaskLog + Subscriptions + Deliveries + Upkeep + fmt::Debug + Send + Sync {}

impl<T> Store for T where T: Credentials + TaskLog + Subscriptions + Deliveries + Upkeep + fmt::Debug + Send + Sync {}

/// One page of a list in the order of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, K> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// What to pass as `after` for the next page; `None` where this one is the last.
    pub next: Option<K>,
}

impl<T, K> Page<T, K> {
    /// Makes a page of `limit` items from a read of one more.
    fn cut(mut items: Vec<T>, limit: u32, key: impl Fn(&T) -> K) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = if more { items.last().map(key) } else { None };
        Self { items, next }
    }
}

/// Opens the database that a URL names, and brings its schema up to date.
///
/// # Errors
/// [`OpenError`], a sentence that an operator can act on.
pub async fn open(url: &DatabaseUrl, role: Role) -> Result<Arc<dyn Store>, OpenError> {
    match url {
        DatabaseUrl::Sqlite(url) => Ok(Arc::new(SqliteStore::open(url, role, Arc::new(HostClock::new())).await?)),
        #[cfg(feature = "postgres")]
        DatabaseUrl::Postgres(options) => {
            let store = PostgresStore::open((**options).clone(), SchemaName::default(), role).await?;
            Ok(Arc::new(store))
        }
        // With SQLite alone compiled in there is no other.
        #[allow(unreachable_patterns)]
        _ => Err(OpenError::UnknownEngine),
    }
}

/// Looks at the database that a URL names without changing it: whether it is a server's, and at this program's schema.
///
/// # Errors
/// [`OpenError`]; `Older` where a server has yet to bring it up to date.
pub async fn examine(url: &DatabaseUrl) -> Result<(), OpenError> {
    match url {
        DatabaseUrl::Sqlite(url) => SqliteStore::examine(url).await,
        #[cfg(feature = "postgres")]
        DatabaseUrl::Postgres(options) => PostgresStore::examine(options, &SchemaName::default()).await,
        // With SQLite alone compiled in there is no other.
        #[allow(unreachable_patterns)]
        _ => Err(OpenError::UnknownEngine),
    }
}

/// As what a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The server: it brings the schema up to date and, on SQLite, has the file for itself.
    Server,
    /// An operator's command, which may work beside a running server.
    Operator,
}
