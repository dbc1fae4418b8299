//! The inbox as a consumer's handler, and as what hears of its receipts.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use perilune_actors::{EventContext, EventHandler, HandlerError, HandlerResult, Receipt};
use perilune_proto::ResultEvent;

use super::error::{ApplyError, BoxError};
use super::scope::Scope;
use super::store::Store;
use super::transaction::OpenTransaction;
use super::{Applied, Inbox};

/// A consumer's handler that applies each event once. Made by [`Inbox::handler`].
pub struct InboxHandler<DB: Store, F> {
    inbox: Inbox<DB>,
    work: Arc<F>,
}

impl<DB: Store> Inbox<DB> {
    /// Makes a handler for a `perilune_actors` consumer of a closure over event and open transaction.
    ///
    /// Fresh or known, the event is acknowledged. Attempts end with the event's lease. When the consumer stops before
    /// the commit has begun, the transaction is rolled back and the event is left to the platform.
    ///
    /// The closure runs on the runtime where the inbox was made, not on the consumer's handler thread: that thread
    /// comes and goes, and a database connection must not go with it. It must not block.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # fn build(inbox: &perilune::inbox::Inbox<sqlx::Sqlite>, builder: perilune_actors::ConsumerBuilder) -> perilune_actors::ConsumerBuilder {
    /// builder
    ///     .event_handler(inbox.handler(|event, mut tx| async move {
    ///         sqlx::query("INSERT INTO report (task_id) VALUES (?)")
    ///             .bind(event.task_id().to_string())
    ///             .execute(&mut **tx)
    ///             .await?;
    ///         Ok::<_, sqlx::Error>(())
    ///     }))
    ///     .on_settled(inbox.on_settled())
    /// # }
    /// ```
    #[must_use]
    pub fn handler<F, Fut, E>(&self, work: F) -> InboxHandler<DB, F>
    where
        F: Fn(Arc<ResultEvent>, OpenTransaction<DB>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        InboxHandler { inbox: self.clone(), work: Arc::new(work) }
    }

    /// Makes what a consumer's `on_settled` wants: it marks the rows of acknowledged events as settled, so that they
    /// may be pruned one day. A failure is logged and counted; `perilune inbox reconcile` mends what was missed.
    pub fn on_settled(&self) -> impl Fn(Vec<Receipt>) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync + 'static {
        let inbox = self.clone();
        move |receipts| {
            let inbox = inbox.clone();
            Box::pin(async move {
                let events: Vec<_> = receipts.iter().map(|receipt| receipt.event_id).collect();
                if let Err(error) = inbox.settle(&events).await {
                    let consumer = inbox.consumer().to_string();
                    metrics::counter!("perilune_inbox_settle_failures_total", "consumer" => consumer).increment(1);
                    tracing::warn!(consumer = %inbox.consumer(), %error, "acknowledged events were not marked as settled");
                }
            })
        }
    }
}

impl<DB, F, Fut, E> EventHandler for InboxHandler<DB, F>
where
    DB: Store,
    F: Fn(Arc<ResultEvent>, OpenTransaction<DB>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let cancellation = context.cancellation().clone();
        let scope = Scope::lease(context.lease_left()).cancelled_by(async move { cancellation.stopping().await });
        let (work, given) = (Arc::clone(&self.work), Arc::clone(&event));
        let applied: Result<Applied<()>, ApplyError> =
            self.inbox.apply_once_within(scope, &event, move |tx| work(Arc::clone(&given), tx)).await;
        match applied {
            Ok(Applied::Fresh(()) | Applied::Duplicate) => Ok(()),
            Err(error) => {
                // A handler's failure shows as HANDLER_FAILED alone, so the class is told here.
                tracing::warn!(
                    consumer = %self.inbox.consumer(),
                    event_id = %event.event_id,
                    generation = %context.generation(),
                    %error,
                    "an event was not applied"
                );
                Err(HandlerError::from(error))
            }
        }
    }
}

impl<DB: Store, F> fmt::Debug for InboxHandler<DB, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxHandler").field("consumer", self.inbox.consumer()).finish_non_exhaustive()
    }
}
