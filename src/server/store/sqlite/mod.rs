//! The store in an SQLite file: one writer, many readers.
//!
//! Everything that writes goes through one queue to one thread (`writer.rs`), which takes whatever is queued into
//! one transaction and answers after its commit: acknowledgements, reports and leases of many sessions share the
//! disk's flush. Questions that only read go to a pool of their own and see every commit.

mod confirm;
mod credential;
mod delivery;
mod file;
mod lapse;
mod lease;
mod log;
#[cfg(test)]
mod plans;
mod record;
mod retain;
mod row;
mod subscription;
mod take;
mod task;
mod upkeep;
mod writer;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::SqlitePool;

use super::lapses::Untold;
use super::upkeep::Waker;
use super::{Answer, Clock, OpenError, Role, StoreError};
use crate::sql::url::SqliteUrl;
use row::Times;
use writer::{Unit, Writer};

/// A [`Store`](super::Store) in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    clock: Arc<dyn Clock>,
    waker: Waker,
    untold: Untold,
    readers: SqlitePool,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the database, makes it where there is none and brings its schema up to date.
    ///
    /// As a server it takes the file for itself: a second server is refused until this one has ended, however it
    /// ends. As an operator it works beside a running server.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(url: &SqliteUrl, role: Role, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let opened = file::open(url, role, &*clock).await?;
        let (waker, untold) = (Waker::new(), Untold::default());
        let tells = (waker.clone(), untold.clone());
        let writer = Writer::start((opened.writer, opened.options), opened.claim, Arc::clone(&clock), tells)?;
        Ok(Self { clock, waker, untold, readers: opened.readers, writer })
    }

    /// Transactions that were committed since it was opened: the disk flushes that all answers shared.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Looks at a database without changing it: whether it is a server's, and at this program's schema.
    ///
    /// # Errors
    /// [`OpenError`]; `Older` where a server has yet to bring it up to date.
    pub async fn examine(url: &SqliteUrl) -> Result<(), OpenError> {
        file::examine(url).await
    }

    /// Asks the writer. `question` runs in a transaction that it may share with others.
    fn write<T, F>(&self, question: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(self.writer.ask(question))
    }

    /// The pool of readers, with the time of the question; an error once the store is closed.
    fn reader(&self) -> Result<(&SqlitePool, Times), StoreError> {
        if self.writer.is_closed() { Err(StoreError::Closed) } else { Ok((&self.readers, Times::of(&*self.clock))) }
    }
}
