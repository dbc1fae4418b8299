//! What a run and its handles have in common: figures, notices, the end.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use perilune_proto::consumer::{LinkState, Stats};
use perilune_proto::scalar::SubscriptionId;
use tokio::sync::watch;

use crate::clock::now;
use crate::error::{RunError, RunErrorKind};
use crate::health::Health;
use crate::notice::NoticeQueue;

/// How a run ended.
pub(crate) type RunResult = Result<(), RunError>;

/// One run as everybody may see it. Readable from any thread while it lasts; written by its subscription alone.
pub(crate) struct RunState {
    pub(crate) subscription_id: SubscriptionId,
    pub(crate) capacity: u8,
    pub(crate) notices: NoticeQueue,
    seen: Mutex<Seen>,
    end: watch::Sender<Option<RunResult>>,
}

/// The figures and facts of one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) stats: Stats,
    pub(crate) link: LinkState,
    /// When an event last started, ended or was acknowledged, or when the session was opened.
    pub(crate) moved: Option<Instant>,
    pub(crate) stopping: bool,
}

impl Seen {
    /// Takes the machine's figures, and notes whether anything has moved.
    pub(crate) fn update(&mut self, stats: Stats, link: LinkState) {
        let moved = |stats: &Stats| (stats.started, stats.running, stats.committed, stats.acknowledged);
        if moved(&self.stats) != moved(&stats) || self.link != link {
            self.moved = Some(now());
        }
        (self.stats, self.link) = (stats, link);
    }
}

impl RunState {
    pub(crate) fn new(subscription_id: SubscriptionId, capacity: u8) -> Self {
        let seen = Seen { stats: Stats::default(), link: LinkState::Down, moved: None, stopping: false };
        Self {
            subscription_id,
            capacity,
            notices: NoticeQueue::default(),
            seen: Mutex::new(seen),
            end: watch::Sender::new(None),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures of this moment.
    pub(crate) fn seen(&self) -> Seen {
        *self.locked()
    }

    /// Writes new figures.
    pub(crate) fn show(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.locked());
    }

    /// What the figures say about the run.
    pub(crate) fn health(&self) -> Health {
        Health::of(&self.seen(), self.capacity, self.end.borrow().is_some())
    }

    /// Ends the run for everybody who waits. Only the first end counts.
    pub(crate) fn finish(&self, result: RunResult) {
        self.show(|seen| seen.link = LinkState::Down);
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            if first {
                *end = Some(result);
            }
            first
        });
        self.notices.close();
    }

    /// The end, if it has come.
    pub(crate) fn ended(&self) -> Option<RunResult> {
        self.end.borrow().clone()
    }

    /// Resolves with the run's end.
    pub(crate) async fn end(&self) -> RunResult {
        let mut end = self.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Err(RunError::new(RunErrorKind::Aborted))),
            // The sender is a field of this value, which is borrowed.
            Err(_) => Err(RunError::new(RunErrorKind::Aborted)),
        }
    }
}
