//! The inbox inside a transaction that the caller began.

use perilune_proto::event::ResultEvent;
use sqlx::{Acquire as _, Database, Transaction};

use super::apply::{Admission, admit};
use super::error::{ApplyError, BoxError};
use super::fingerprint::Key;
use super::store::Store;
use super::{Applied, Inbox};

impl<DB: Store> Inbox<DB> {
    /// Inserts the event's row into a transaction of the caller's, or finds that it is there.
    ///
    /// `Fresh` becomes true with the caller's commit and not before. Waits for a concurrent twin. After an error roll
    /// back: on PostgreSQL the transaction is of no more use, on MySQL a deadlock has ended it.
    ///
    /// READ COMMITTED suffices. Above it, the engine may answer with a serialisation failure instead of `Duplicate`.
    ///
    /// # Errors
    /// [`ApplyError`]: `Conflict` or `Database`.
    pub async fn admit(
        &self,
        tx: &mut <DB as Database>::Connection,
        event: &ResultEvent,
    ) -> Result<Admission, ApplyError> {
        admit(&self.0, tx, &Key::of(event)).await.map_err(|error| error.of(Some(event.event_id)))
    }

    /// Runs `work` unless the inbox has the event, both inside a transaction of the caller's, who commits it.
    ///
    /// The row and `work` share a savepoint: when `work` fails, the row goes with it, and a caller who goes on and
    /// commits something else has not marked the event as applied. Nothing is retried here; a deadlock or a
    /// serialisation failure means that the whole outer transaction is to be run again, by the caller.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub async fn apply_once_in<T, E, F>(
        &self,
        tx: &mut Transaction<'_, DB>,
        event: &ResultEvent,
        work: F,
    ) -> Result<Applied<T>, ApplyError>
    where
        F: AsyncFnOnce(&mut Transaction<'_, DB>) -> Result<T, E>,
        E: Into<BoxError>,
    {
        let of_event = |error: ApplyError| error.of(Some(event.event_id));
        let mut savepoint = tx.begin().await.map_err(ApplyError::database).map_err(of_event)?;
        // An early return drops the savepoint, which is rolled back before the next statement of the outer one.
        let applied = match self.admit(&mut savepoint, event).await? {
            Admission::Duplicate => Applied::Duplicate,
            Admission::Fresh => {
                let worked = work(&mut savepoint).await;
                Applied::Fresh(worked.map_err(|error| of_event(ApplyError::handler(error.into())))?)
            }
        };
        savepoint.commit().await.map_err(ApplyError::database).map_err(of_event)?;
        Ok(applied)
    }
}
