//! Write transactions that nobody can drop half-way.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Pool, Transaction};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::engine::{Engine, Writers};
use super::error::SqlError;

/// How long a rollback may take before its connection is left to the pool.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(5);

/// A pool, the runtime that drives its connections, and turns at them. Cloning shares it.
///
/// A connection is driven by the runtime that opened it, and sqlx can't have a `BEGIN` or a `COMMIT` cancelled. So
/// transactions run as tasks of one runtime, to their end, whatever becomes of who asked for them.
#[derive(Debug)]
pub struct Writer<DB: Engine>(Arc<Inner<DB>>);

#[derive(Debug)]
struct Inner<DB: Engine> {
    pool: Pool<DB>,
    runtime: Handle,
    // As many permits as there are connections, or one where the engine has one writer. Who waits here is served in
    // order and may leave the queue at any moment; who waits inside `begin` may not.
    turns: Semaphore,
}

impl<DB: Engine> Clone for Writer<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// There is no tokio runtime on this thread to run transactions on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no tokio runtime on this thread")]
pub struct NoRuntime;

impl<DB: Engine> Writer<DB> {
    /// Transactions on this pool, run by the runtime of this thread.
    ///
    /// # Errors
    /// [`NoRuntime`].
    pub fn new(pool: Pool<DB>) -> Result<Self, NoRuntime> {
        let runtime = Handle::try_current().map_err(|_| NoRuntime)?;
        let turns = match DB::WRITERS {
            Writers::One => 1,
            Writers::Many => pool.options().get_max_connections() as usize,
        };
        Ok(Self(Arc::new(Inner { pool, runtime, turns: Semaphore::new(turns) })))
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool<DB> {
        &self.0.pool
    }

    /// The runtime that drives the pool's connections.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    /// Waits for a turn at a connection.
    pub async fn turn(&self) -> SemaphorePermit<'_> {
        self.0.turns.acquire().await.expect("the semaphore is never closed")
    }

    /// Runs a future to its end on the runtime, whatever becomes of the caller.
    ///
    /// # Errors
    /// The task's, or [`SqlError`] where the runtime is going down.
    pub async fn in_task<T, Fut>(&self, task: Fut) -> Result<T, SqlError>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T, SqlError>> + Send + 'static,
    {
        joined(self.0.runtime.spawn(task)).await?
    }

    /// Runs statements of our own in a write transaction. Call it inside a task that nobody drops.
    ///
    /// # Errors
    /// The work's, or [`SqlError`]; rolled back.
    pub async fn transaction<T, E: From<SqlError>>(
        &self,
        work: impl AsyncFnOnce(&mut DB::Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let _turn = self.turn().await;
        transaction(&self.0.pool, work).await
    }
}

/// What a task brought that nobody aborts; its panic goes on here.
///
/// # Errors
/// [`SqlError`] where the runtime is going down and took the task with it.
pub(crate) async fn joined<T>(task: JoinHandle<T>) -> Result<T, SqlError> {
    match task.await {
        Ok(ended) => Ok(ended),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(sqlx::Error::PoolClosed.into()),
    }
}

/// [`Writer::transaction`] for who has a pool and no turn to wait for.
///
/// # Errors
/// The work's, or [`SqlError`]; rolled back.
pub async fn transaction<DB: Engine, T, E: From<SqlError>>(
    pool: &Pool<DB>,
    work: impl AsyncFnOnce(&mut DB::Connection) -> Result<T, E>,
) -> Result<T, E> {
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.map_err(SqlError::from)?;
    match work(&mut tx).await {
        Ok(done) => DB::commit(tx).await.map(|()| done).map_err(|error| SqlError::at_commit(error).into()),
        Err(error) => {
            roll_back(tx).await;
            Err(error)
        }
    }
}

/// Rolls back and waits for it, so that the connection is clean and its locks are gone when the caller hears of it.
pub async fn roll_back<DB: Engine>(tx: Transaction<'static, DB>) {
    // After an error or past the limit the transaction is dropped: the pool rolls back itself, or closes the connection.
    if !matches!(timeout(ROLLBACK_LIMIT, DB::roll_back(tx)).await, Ok(Ok(()))) {
        tracing::debug!("a rollback was left to the pool");
    }
}
