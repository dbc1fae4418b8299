//! One transaction per event, in a task of its own.
//!
//! sqlx can't have a `BEGIN` or a `COMMIT` cancelled: a dropped `begin` leaves the pooled connection inside a
//! transaction that the pool hands to somebody else, a dropped `commit` leaves its outcome unknown. So the whole
//! transaction lives in a task that nobody aborts. The caller's future holds a guard; when it is dropped, the task
//! hears it, drops the business statements between two awaits, rolls back and returns a clean connection.

use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use perilune_proto::event::ResultEvent;
use sqlx::{Database, Pool, Transaction};
use tokio::time::{Instant, sleep, timeout};

use super::error::{ApplyError, ApplyErrorKind, BoxError};
use super::fingerprint::Key;
use super::scope::{ATTEMPTS_MAX, Scope, Stop, wait_before};
use super::store::{Inserted, Store};
use super::transaction::{OpenTransaction, lend};
use super::{Applied, Inbox, Inner};
use crate::sql::SqlErrorKind;
use crate::sql::writer::roll_back;

/// How long a rollback may take before its connection is given up.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(5);

impl<DB: Store> Inbox<DB> {
    /// Runs `work` for this event unless the inbox has it already, in one transaction with the event's row.
    ///
    /// `work` gets the open transaction and returns ok or an error. It may be called more than once, each time in a
    /// fresh transaction, when a deadlock, a lock timeout or a serialisation failure undid the one before; so it has
    /// no effects outside that transaction (for those, write to the [outbox](crate::outbox)).
    ///
    /// Dropping the returned future rolls back, unless the commit has begun.
    ///
    /// # Errors
    /// [`ApplyError`]; nothing is committed then, except perhaps for [`ApplyErrorKind::UnknownCommit`].
    ///
    /// # Panics
    /// When `work` panics; the transaction is rolled back first.
    pub async fn apply_once<T, E, F, Fut>(&self, event: &ResultEvent, work: F) -> Result<Applied<T>, ApplyError>
    where
        F: FnMut(OpenTransaction<DB>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        self.apply_once_within(Scope::default(), event, work).await
    }

    /// [`Inbox::apply_once`] within what is left of a lease, and until somebody says stop.
    ///
    /// # Errors
    /// As [`Inbox::apply_once`].
    ///
    /// # Panics
    /// As [`Inbox::apply_once`].
    pub async fn apply_once_within<T, E, F, Fut>(
        &self,
        scope: Scope,
        event: &ResultEvent,
        work: F,
    ) -> Result<Applied<T>, ApplyError>
    where
        F: FnMut(OpenTransaction<DB>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let deadline = scope.deadline;
        let (stop, guard) = scope.into_stop();
        let attempts = Attempts { inner: Arc::clone(&self.0), key: Key::of(event), deadline, stop };
        let ended = self.0.writer.runtime().spawn(attempts.run(work)).await;
        drop(guard);
        let result = match ended {
            Ok(result) => result,
            Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
            // The runtime is going down and took the task with it, at whatever point it was.
            Err(_) => Err(ApplyError::new(ApplyErrorKind::UnknownCommit)),
        };
        self.0.count(&result);
        result.map_err(|error| error.of(Some(event.event_id)))
    }
}

/// The attempts at one event.
struct Attempts<DB: Store> {
    inner: Arc<Inner<DB>>,
    key: Key,
    deadline: Instant,
    stop: Stop,
}

impl<DB: Store> Attempts<DB> {
    async fn run<T, E, F, Fut>(mut self, mut work: F) -> Result<Applied<T>, ApplyError>
    where
        F: FnMut(OpenTransaction<DB>) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: Into<BoxError> + Send,
    {
        let mut attempt = 1;
        loop {
            let error = match self.attempt(&mut work).await {
                Ok(applied) => return Ok(applied),
                Err(Failed::Began(error)) if error.is_contention() => error,
                Err(Failed::NeverBegan(error)) if may_begin_later(&error) => error,
                Err(Failed::Began(error) | Failed::NeverBegan(error)) => return Err(error),
            };
            attempt += 1;
            let wait = wait_before(attempt);
            if attempt > ATTEMPTS_MAX || Instant::now() + wait >= self.deadline {
                return Err(error);
            }
            self.inner.count_retry(&error);
            tokio::select! {
                () = sleep(wait) => {}
                () = self.stop.heard() => return Err(ApplyError::new(ApplyErrorKind::Cancelled)),
            }
        }
    }

    async fn attempt<T, E, F, Fut>(&mut self, work: &mut F) -> Result<Applied<T>, Failed>
    where
        F: FnMut(OpenTransaction<DB>) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: Into<BoxError> + Send,
    {
        let inner = Arc::clone(&self.inner);
        let _turn = tokio::select! {
            biased;
            () = self.stop.heard() => return Err(Failed::cancelled()),
            turn = inner.writer.turn() => turn,
        };
        // Never cancelled: see the module's text. The pool's limits bound it.
        let begun = inner.writer.pool().begin_with(DB::BEGIN).await;
        let mut tx = begun.map_err(|error| Failed::NeverBegan(ApplyError::database(error)))?;
        let admitted = tokio::select! {
            biased;
            // First: a signal that came while `BEGIN` waited for SQLite's one writer is heard before any statement.
            () = self.stop.heard() => None,
            admitted = admit(&inner, &mut tx, &self.key) => Some(admitted),
        };
        match admitted {
            Some(Ok(Admission::Fresh)) => {}
            Some(Ok(Admission::Duplicate)) => {
                roll_back(tx).await;
                return Ok(Applied::Duplicate);
            }
            Some(Err(error)) => {
                roll_back(tx).await;
                return Err(Failed::Began(error));
            }
            None => {
                give_up(inner.writer.pool(), tx).await;
                return Err(Failed::cancelled());
            }
        }
        let (lent, loan) = lend(tx);
        // Both the call and the future are the caller's code.
        let work = AssertUnwindSafe(async { work(lent).await }).catch_unwind();
        let done = tokio::select! {
            biased;
            done = work => Some(done),
            () = self.stop.heard() => None,
        };
        let Some(tx) = loan.take() else { return Err(Failed::Began(ApplyError::new(ApplyErrorKind::TransactionKept))) };
        let error = match done {
            Some(Ok(Ok(value))) => {
                return match DB::finish(tx).await {
                    Ok(()) => Ok(Applied::Fresh(value)),
                    Err(error) => Err(Failed::Began(ApplyError::commit(error))),
                };
            }
            Some(Ok(Err(error))) => ApplyError::handler(error.into()),
            Some(Err(panic)) => {
                roll_back(tx).await;
                resume_unwind(panic);
            }
            None => {
                give_up(inner.writer.pool(), tx).await;
                return Err(Failed::cancelled());
            }
        };
        roll_back(tx).await;
        Err(Failed::Began(error))
    }
}

/// How an attempt failed: before there was a transaction, or in it.
enum Failed {
    NeverBegan(ApplyError),
    Began(ApplyError),
}

impl Failed {
    const fn cancelled() -> Self {
        Self::NeverBegan(ApplyError::new(ApplyErrorKind::Cancelled))
    }
}

/// No statement of ours or the caller's was sent, so a server that is starting or a stale connection may be tried again.
fn may_begin_later(error: &ApplyError) -> bool {
    error.is_contention() || error.kind() == ApplyErrorKind::Database(SqlErrorKind::Unavailable)
}

/// Whether the event is new to this consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Its row has just been inserted: run the business statements.
    Fresh,
    /// It was applied before: run nothing.
    Duplicate,
}

/// Inserts the event's row, or compares the one that is there.
pub(super) async fn admit<DB: Store>(
    inner: &Inner<DB>,
    on: &mut <DB as Database>::Connection,
    key: &Key,
) -> Result<Admission, ApplyError> {
    let consumer = inner.consumer.as_str();
    let refusal = match DB::insert(on, &inner.sql, consumer, key).await.map_err(ApplyError::database)? {
        Inserted::Fresh => return Ok(Admission::Fresh),
        Inserted::Present => None,
        Inserted::Refused(error) => Some(error),
    };
    let found = DB::find(on, &inner.sql, consumer, &key.event_id).await.map_err(ApplyError::database)?;
    match (found, refusal) {
        (Some(found), _) if found == key.print => Ok(Admission::Duplicate),
        (Some(_), _) => Err(ApplyError::new(ApplyErrorKind::Conflict)),
        // Another unique key refused it: no row of ours is there.
        (None, Some(error)) => Err(ApplyError::database(error)),
        // The row was pruned between the two statements.
        (None, None) => Err(ApplyError::new(ApplyErrorKind::Database(SqlErrorKind::Serialization))),
    }
}

/// Rolls back a transaction whose statements were dropped wherever they were.
async fn give_up<DB: Store>(pool: &Pool<DB>, tx: Transaction<'static, DB>) {
    if !matches!(timeout(ROLLBACK_LIMIT, DB::roll_back_interrupted(pool, tx)).await, Ok(Ok(()))) {
        tracing::debug!("a rollback was left to the pool");
    }
}
