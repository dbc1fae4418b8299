//! Operations as a consumer's handler: each event applied in its inbox transaction.

use std::future::Future;
use std::sync::Arc;

use perilune_actors::EventHandler;
use perilune_proto::ResultEvent;

use super::{Operations, OutcomeEngine, OutcomeStoreError};
use crate::inbox::{BoxError, Inbox, OpenTransaction, Store};

impl<DB: OutcomeEngine + Store> Operations<DB> {
    /// Makes a handler for a consumer that applies each event to its operation, once, in the inbox's transaction.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # fn build(
    /// #     operations: &perilune::outcome::Operations<sqlx::Sqlite>,
    /// #     inbox: &perilune::inbox::Inbox<sqlx::Sqlite>,
    /// #     builder: perilune_actors::ConsumerBuilder,
    /// # ) -> perilune_actors::ConsumerBuilder {
    /// builder.event_handler(operations.handler(inbox)).on_settled(inbox.on_settled())
    /// # }
    /// ```
    #[must_use]
    pub fn handler(&self, inbox: &Inbox<DB>) -> impl EventHandler + use<DB> {
        self.handler_around(inbox, |_, transaction| async move { Ok::<_, BoxError>(transaction) })
    }

    /// The same around the user's own statements, which run in the same transaction, before the operation changes.
    /// They hand the transaction back; with an error nothing of either is kept.
    #[must_use]
    pub fn handler_around<F, Fut, E>(&self, inbox: &Inbox<DB>, work: F) -> impl EventHandler + use<DB, F, Fut, E>
    where
        F: Fn(Arc<ResultEvent>, OpenTransaction<DB>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<OpenTransaction<DB>, E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let operations = self.clone();
        let work = Arc::new(work);
        inbox.handler(move |event, transaction| {
            let (operations, work) = (operations.clone(), Arc::clone(&work));
            async move {
                let mut transaction = work(Arc::clone(&event), transaction).await.map_err(Into::into)?;
                operations
                    .apply(&mut transaction, &event)
                    .await
                    .map_err(|error: OutcomeStoreError| BoxError::from(error))?;
                Ok::<_, BoxError>(())
            }
        })
    }
}
