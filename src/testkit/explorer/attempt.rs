//! One run, and what is left of it.

use std::sync::Arc;
use std::time::Duration;

use perilune_actors::{ConsumerHandle, EventHandler};
use perilune_proto::ResultEvent;
use perilune_proto::scalar::EventId;
use sqlx::Pool;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::engine::{Explorable, Opened};
use super::report::Point;
use super::{CrashPoints, ExploreError};
use crate::inbox::Inbox;
use crate::sql::DatabaseUrl;
use crate::testkit::assertion::{Unmet, unconfirmed};
use crate::testkit::gate::{Gate, Harm};
use crate::testkit::journal::{Outcome, Record};
use crate::testkit::platform::Platform;
use crate::testkit::sample::sample_event;
use crate::testkit::script::Script;

/// How long a run has for its one event.
const PATIENCE: Duration = Duration::from_secs(20);
/// What puts an end to a lease, whatever is left of it, and to the wait behind it.
const LEASE_AND_WAIT: Duration = Duration::from_secs(31);
/// How long a dead run's consumer has to leave. Nothing of it gets out, so nothing is lost with it.
const DEAD_SHUTDOWN: Duration = Duration::from_millis(1);
/// How long a pool may take to close. What a cut has left behind closes by itself.
const CLOSING: Duration = Duration::from_secs(2);

/// What all runs share.
pub(super) struct Attempt<'a, DB: Explorable, P, E> {
    pub(super) options: &'a CrashPoints,
    pub(super) url: &'a DatabaseUrl,
    /// Beside every run.
    pub(super) pool: &'a Pool<DB>,
    pub(super) process: &'a P,
    pub(super) effects: &'a E,
}

/// A process: a consumer with its handler and its own connections.
struct Process<DB: Explorable> {
    run: ConsumerHandle,
    opened: Opened<DB>,
}

impl<DB, P, H, E> Attempt<'_, DB, P, E>
where
    DB: Explorable,
    P: Fn(Inbox<DB>) -> H,
    H: EventHandler + Send + Sync,
    E: AsyncFn(Pool<DB>, Arc<ResultEvent>) -> Result<i64, sqlx::Error>,
{
    /// A run without harm: the handler has to work at all.
    pub(super) async fn unharmed(&self) -> Result<(), ExploreError> {
        let (platform, event) = self.platform()?;
        let process = self.start(&platform, Gate::new(Harm::Cut), None).await?;
        let confirmed = confirmed(&platform, event.event_id, 0).await;
        process.stop().await;
        confirmed.map_err(ExploreError::Unconfirmed)?;
        match (self.effects)(self.pool.clone(), event).await? {
            1 => Ok(()),
            effects => Err(ExploreError::Effects { effects }),
        }
    }

    /// A run with harm at a point. `None` where it came to its end before that: the event confirmed, the consumer gone.
    pub(super) async fn harmed(&self, harm: Harm, number: u64) -> Result<Option<Point>, ExploreError> {
        let (platform, event) = self.platform()?;
        let process = self.start(&platform, Gate::new(harm), Some(number)).await?;
        let gate = Arc::clone(&process.opened.gate);
        let first = tokio::select! {
            biased;
            () = gate.died() => None,
            ended = confirmed(&platform, event.event_id, 0) => Some(ended),
        };
        // An orderly end is part of the run: it tells the inbox what was confirmed.
        let left = process.leave().await;
        let ended = match first {
            Some(ended) if !gate.is_dead() => ended,
            _ => {
                platform.cut_connections();
                platform.advance(LEASE_AND_WAIT);
                let seen = failures(&platform.journal().records());
                let process = self.start(&platform, Gate::new(harm), None).await?;
                let ended = confirmed(&platform, event.event_id, seen).await;
                process.stop().await;
                ended
            }
        };
        let Some(place) = gate.struck() else {
            // A run that hangs has not passed its points: nobody knows how many there are.
            let late =
                |_| Unmet::new(format!("the consumer to end, within {PATIENCE:?}"), &platform.journal().records());
            let whole = ended.and_then(|()| left.map_err(late));
            return whole.map(|()| None).map_err(|source| ExploreError::Undecided { harm, number, source });
        };
        let effects = (self.effects)(self.pool.clone(), event).await?;
        Ok(Some(Point { harm, number, place, effects, confirmed: ended.is_ok() }))
    }

    fn platform(&self) -> Result<(Platform, Arc<ResultEvent>), ExploreError> {
        let platform = Platform::start(Script::new()).map_err(ExploreError::run)?;
        let fresh = sample_event();
        let mut event = self.options.template.clone().unwrap_or_else(|| fresh.clone());
        event.event_id = fresh.event_id;
        event.snapshot.task_id = fresh.snapshot.task_id;
        platform.publish(event.clone());
        Ok((platform, Arc::new(event)))
    }

    /// Starts a process. Its points count from here, where its connections are there.
    async fn start(
        &self,
        platform: &Platform,
        gate: Gate,
        strikes_at: Option<u64>,
    ) -> Result<Process<DB>, ExploreError> {
        let opened = DB::open_gated(self.url, Arc::new(gate)).await?;
        let inbox = Inbox::with_prefix(opened.pool.clone(), &self.options.consumer, &self.options.prefix)?;
        if let Some(number) = strikes_at {
            opened.gate.arm(number);
        }
        platform.admit(Arc::clone(&opened.gate));
        let consumer = platform
            .consumer()
            .capacity(1)
            .event_handler(platform.watch((self.process)(inbox.clone())))
            .on_settled(inbox.on_settled())
            .build()
            .map_err(ExploreError::run)?;
        let run = consumer.start().map_err(ExploreError::run)?;
        Ok(Process { run, opened })
    }
}

impl<DB: Explorable> Process<DB> {
    /// Ends in an orderly way, or dies in it; [`Elapsed`] where neither comes.
    async fn leave(self) -> Result<(), Elapsed> {
        let gate = &self.opened.gate;
        self.run.stop();
        let left = tokio::select! {
            biased;
            () = gate.died() => {
                // Whatever it still does, it does to itself.
                let _ = timeout(DEAD_SHUTDOWN, self.run.ended()).await;
                Ok(())
            }
            ended = timeout(PATIENCE, self.run.ended()) => ended.map(drop),
        };
        gate.open();
        let _ = timeout(CLOSING, self.opened.pool.close()).await;
        left
    }

    async fn stop(self) {
        // What it has confirmed counts, however long the rest of it takes.
        let _ = self.leave().await;
    }
}

/// Waits until the event is confirmed. Whenever a connection or a call of the handler has come to nothing, the lease
/// is put to its end, so that the event comes again at once. `seen` of those failures were another process's.
async fn confirmed(platform: &Platform, event_id: EventId, mut seen: usize) -> Result<(), Unmet> {
    let journal = platform.journal();
    let waits = async {
        loop {
            let mut now = 0;
            journal
                .until("the event to be confirmed", PATIENCE, |records| {
                    now = failures(records);
                    now > seen || !unconfirmed(records).contains(&event_id)
                })
                .await?;
            if now == seen {
                return Ok(());
            }
            seen = now;
            if !unconfirmed(&journal.records()).contains(&event_id) {
                return Ok(());
            }
            platform.advance(LEASE_AND_WAIT);
        }
    };
    match timeout(PATIENCE, waits).await {
        Ok(ended) => ended,
        Err(_) => Err(Unmet::new(format!("the event to be confirmed, within {PATIENCE:?}"), &journal.records())),
    }
}

fn failures(records: &[Record]) -> usize {
    let failed = |record: &&Record| match record {
        Record::ConnectionEnded => true,
        Record::HandlerEnded { outcome, .. } => *outcome != Outcome::Ok,
        _ => false,
    };
    records.iter().filter(failed).count()
}
