//! The store in PostgreSQL, which several servers may share.
//!
//! - **Locks.** Whoever appends to the log locks the log's row; whoever changes a subscription or its open deliveries
//!   locks the subscription's row. A transaction takes the log's lock before any other, and subscriptions in the
//!   order of their ids, so that no two ever wait for each other. Isolation is READ COMMITTED: a statement behind a
//!   lock sees what its last holder committed.
//! - **Shared commits.** One lane appends, a few serve subscriptions, each with a connection of its own ([`lanes`]).
//! - **Time** is the database's (`clock_us()`); a server's own clock measures nothing that others see.
//! - **News** travel by NOTIFY ([`news`]), and by the sweeper's look at the queues where a notice is lost.
//!
//! All of it runs on a thread of its own: a connection is driven by the runtime that opened it, and an arbiter may
//! block or end.

mod confirm;
mod credential;
mod delivery;
mod lanes;
mod lapse;
mod lease;
mod log;
mod news;
mod open;
mod record;
mod retain;
mod row;
mod subscription;
mod take;
mod task;
mod upkeep;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perilune_proto::scalar::SubscriptionId;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use super::lapses::Untold;
use super::{Answer, OpenError, Role, StoreError};
use lanes::{Lanes, Unit};
use news::News;
pub use open::SchemaName;

/// After so long without an answer the database is taken for gone, and its connection with it.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A [`Store`](super::Store) in PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    pool: PgPool,
    lanes: Lanes,
    news: Arc<News>,
    untold: Untold,
    runtime: tokio::runtime::Handle,
}

impl PostgresStore {
    /// Connects, makes the schema where there is none and brings it up to date.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(options: PgConnectOptions, schema: SchemaName, role: Role) -> Result<Self, OpenError> {
        open::start(options, schema, role).await
    }

    /// Looks at a database without changing it: whether it has a server's schema, and at this program's version.
    ///
    /// # Errors
    /// [`OpenError`]; `Older` where a server has yet to bring it up to date.
    pub async fn examine(options: &PgConnectOptions, schema: &SchemaName) -> Result<(), OpenError> {
        open::examine(options, schema).await
    }

    /// Asks the lane that appends to the log.
    fn append<T, F>(&self, question: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(self.lanes.append(question))
    }

    /// Asks the lane of a subscription.
    fn write<T, F>(&self, subscription_id: SubscriptionId, question: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(self.lanes.of(subscription_id, question))
    }

    /// Asks what writes nothing, on the store's own thread.
    fn read<T, F>(&self, question: impl FnOnce(PgPool) -> F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        if self.lanes.is_closed() {
            return Box::pin(std::future::ready(Err(StoreError::Closed)));
        }
        let question = question(self.pool.clone());
        let asked = self.runtime.spawn(async move { tokio::time::timeout(ANSWER_MAX, question).await });
        Box::pin(async move {
            match asked.await {
                Ok(answered) => answered.unwrap_or_else(|_| Err(StoreError::silent())),
                Err(_) => Err(StoreError::Closed),
            }
        })
    }
}
