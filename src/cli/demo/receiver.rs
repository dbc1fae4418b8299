//! The demo's receiver: a supervised consumer that applies each event once to a database of its own, with the typed
//! outcome of its operation in the same transaction.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use perilune_actors::{Consumer, ConsumerHandle, EventContext, HandlerError, HandlerResult, Notice, ResultEvent};
use perilune_client::Client;
use perilune_proto::consumer::Replay;
use perilune_proto::scalar::SubscriptionId;

use super::super::demo_operation::GenerateReport;
use super::super::exit::{Failure, Outcome};
use crate::inbox::{Applied, BoxError, Inbox, OpenTransaction, Scope};
use crate::outcome::lifecycle::OperationState;
use crate::outcome::protect::{Key, KeyId, KeyRing};
use crate::outcome::{AppliedEvent, Operations};

/// Of a hundred handlers so many fail right after their commit, as a crash there would have it.
const CRASHES_PERCENT: u32 = 2;

/// A running consumer and the database that it applies events to.
pub(super) struct Receiver {
    inbox: Inbox<sqlx::Sqlite>,
    handle: ConsumerHandle,
    counts: Arc<Counts>,
    notices: actix_rt::task::JoinHandle<u64>,
}

#[derive(Debug, Default)]
struct Counts {
    applied: AtomicU64,
    outcomes: AtomicU64,
    duplicates: AtomicU64,
}

/// What a receiver did, from its start to its end.
pub(super) struct Received {
    pub(super) applied: u64,
    pub(super) applied_once: u64,
    pub(super) outcomes: u64,
    pub(super) duplicates: u64,
    pub(super) replayed: u64,
    pub(super) failures: u64,
    pub(super) reconnects: u64,
}

impl Receiver {
    /// Starts to consume into a database in `folder`.
    pub(super) async fn start(
        folder: &Path,
        client: Client,
        subscription: SubscriptionId,
        faults: bool,
    ) -> Outcome<Self> {
        let url = format!("sqlite:{}", folder.join("receiver.db").display());
        let inbox = Inbox::<sqlx::Sqlite>::connect(&url, "demo").await.context("the receiver's database")?;
        // No unique key of its own: a second effect would show.
        let table = "CREATE TABLE effect (event_id TEXT NOT NULL)";
        sqlx::query(table).execute(inbox.pool()).await.context("the receiver's table")?;
        let counts = Arc::new(Counts::default());
        let operations = operations(&inbox).await?;
        let apply = Apply { inbox: inbox.clone(), operations, counts: Arc::clone(&counts), faults };
        let mut builder = Consumer::builder(client, subscription)
            .capacity(16)
            .handler(move |event, context| apply.clone().handle(event, context))
            .on_settled(inbox.on_settled());
        if faults {
            builder =
                builder.reconnect_min_delay(Duration::from_millis(20)).reconnect_max_delay(Duration::from_millis(200));
        }
        let consumer = builder.build().context("the consumer")?;
        let handle = consumer.start().context("the consumer")?;
        let notices = actix_rt::spawn(count_replayed(handle.clone()));
        Ok(Self { inbox, handle, counts, notices })
    }

    /// How many events were applied so far.
    pub(super) fn applied(&self) -> u64 {
        self.counts.applied.load(Ordering::Relaxed)
    }

    /// How it stands, for the progress line.
    pub(super) fn line(&self, published: u64) -> String {
        let reconnects = self.handle.stats().reconnects;
        let duplicates = self.counts.duplicates.load(Ordering::Relaxed);
        format!("published {published}, applied {}, duplicates {duplicates}, reconnects {reconnects}", self.applied())
    }

    /// Stops in order and reads the figures back from the database.
    pub(super) async fn stop(self) -> Outcome<Received> {
        self.handle.stop();
        self.handle.ended().await.map_err(|error| Failure::Failed(error.into()))?;
        let stats = self.handle.stats();
        let replayed = self.notices.await.map_err(|_| Failure::failed("the notices' reader broke down"))?;
        let count = "SELECT count(*), (SELECT count(*) FROM (SELECT 1 FROM effect GROUP BY event_id HAVING count(*) = 1)) FROM effect";
        let (applied, applied_once): (i64, i64) =
            sqlx::query_as(count).fetch_one(self.inbox.pool()).await.context("the receiver's table")?;
        self.inbox.pool().close().await;
        Ok(Received {
            applied: applied.unsigned_abs(),
            applied_once: applied_once.unsigned_abs(),
            outcomes: self.counts.outcomes.load(Ordering::Relaxed),
            duplicates: self.counts.duplicates.load(Ordering::Relaxed),
            replayed,
            failures: stats.handler_failures,
            reconnects: stats.reconnects,
        })
    }
}

/// The operations next to the inbox, their outcomes under a key that ends with the demo.
async fn operations(inbox: &Inbox<sqlx::Sqlite>) -> Outcome<Operations<sqlx::Sqlite>> {
    let key = Key::new(KeyId(1), rand::random());
    let operations = Operations::builder(inbox.pool().clone(), KeyRing::new(key)).operation::<GenerateReport>().build();
    operations.migrate().await.context("the receiver's operations")?;
    Ok(operations)
}

/// Counts proofs that were reported again. Ends with the run.
async fn count_replayed(handle: ConsumerHandle) -> u64 {
    let mut notices = handle.notices();
    // The run must not live by its watcher.
    drop(handle);
    let mut replayed = 0;
    while let Some(notice) = notices.next().await {
        replayed += u64::from(matches!(notice, Notice::Acknowledged { replayed: Replay::Replayed, .. }));
    }
    replayed
}

/// The demo's handler.
#[derive(Clone)]
struct Apply {
    inbox: Inbox<sqlx::Sqlite>,
    operations: Operations<sqlx::Sqlite>,
    counts: Arc<Counts>,
    faults: bool,
}

impl Apply {
    async fn handle(self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let cancellation = context.cancellation().clone();
        let scope = Scope::lease(context.lease_left()).cancelled_by(async move { cancellation.stopping().await });
        let (operations, given) = (self.operations.clone(), Arc::clone(&event));
        let work = move |tx| effect(operations.clone(), Arc::clone(&given), tx);
        match self.inbox.apply_once_within(scope, &event, work).await? {
            Applied::Duplicate => {
                self.counts.duplicates.fetch_add(1, Ordering::Relaxed);
            }
            Applied::Fresh(applied) => {
                self.counts.applied.fetch_add(1, Ordering::Relaxed);
                let completed = applied == AppliedEvent::Changed(OperationState::Completed);
                self.counts.outcomes.fetch_add(completed.into(), Ordering::Relaxed);
                if self.faults && rand::random_ratio(CRASHES_PERCENT, 100) {
                    return Err(HandlerError::msg("the demo lets it fail behind its commit"));
                }
            }
        }
        Ok(())
    }
}

/// The business effect and the operation's outcome, in the inbox transaction of the event.
async fn effect(
    operations: Operations<sqlx::Sqlite>,
    event: Arc<ResultEvent>,
    mut tx: OpenTransaction<sqlx::Sqlite>,
) -> Result<AppliedEvent, BoxError> {
    let insert = sqlx::query("INSERT INTO effect (event_id) VALUES (?)").bind(event.event_id.to_string());
    insert.execute(&mut **tx).await?;
    Ok(operations.apply(&mut tx, &event).await?)
}
