//! What keeps a store going: lapsed leases, retention, wake-ups, figures.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use perilune_proto::scalar::{Name, Sequence, SubscriptionId};
use tokio::sync::broadcast;

use super::Answer;

/// Questions of the server's own housekeeping.
///
/// A sweeper calls [`Self::sweep`] when [`Self::next_wakeup`] is over, a second later at the latest, and
/// [`Self::retain`] now and then. Several servers may do so at once.
pub trait Upkeep {
    /// Ends lapsed leases (back to ready after their backoff, or EXPIRED), takes events off the log for
    /// subscriptions with room in their window, forgets old proofs and idempotency keys. Each in bounded parts.
    fn sweep(&self) -> Answer<'_, Swept>;

    /// How long until the next lease lapses; `None` where nothing is leased.
    fn next_wakeup(&self) -> Answer<'_, Option<Duration>>;

    /// Forgets old events, a bounded number a call. What open deliveries, tasks and idempotency keys still
    /// need of them stays.
    fn retain(&self, retention: Retention) -> Answer<'_, Retained>;

    /// Whether the store answers: a transaction that changes nothing, on the way that every write goes.
    fn probe(&self) -> Answer<'_, ()>;

    /// What the metrics show, from counters: cheap whatever the log's length.
    fn figures(&self) -> Answer<'_, StoreFigures>;

    /// News of what changed, from now on.
    fn wakes(&self) -> Wakes;

    /// Answers what was begun, then lets go of the database. Later questions fail with
    /// [`StoreError::Closed`](super::StoreError::Closed).
    fn close(&self) -> Answer<'_, ()>;
}

/// What a sweep did, and what other questions of this store found to have lapsed since the sweep before it: each lapse
/// is told once, by whichever server ended it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Leases that lapsed and will be tried again.
    pub lapsed: u64,
    /// Leases that lapsed with their budget spent, in the order of their subscriptions: worth a log line each.
    pub expired: Vec<ExpiredDeliveries>,
    /// Events taken off the log.
    pub taken: u64,
    /// Confirmed proofs and idempotency keys forgotten.
    pub forgotten: u64,
    /// Whether there is more than one call does: sweep again at once.
    pub more: bool,
}

/// Deliveries of one subscription that became EXPIRED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredDeliveries {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// How many.
    pub count: u64,
    /// Whether they filled its window: it has become blocked.
    pub blocked: bool,
}

/// How much of the log to keep. An event goes when either rule lets it go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Events older than this go.
    pub max_age: Option<Duration>,
    /// Events beyond the newest so many go.
    pub max_events: Option<u64>,
    /// Whether events go that a subscription hasn't taken yet.
    pub past_cursors: PastCursors,
}

/// What retention does about subscriptions that lag behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PastCursors {
    /// Keeps what any of them, paused ones too, has yet to take. One whose credential was revoked keeps nothing.
    #[default]
    Keep,
    /// Forgets it: they get a HISTORY_GAP.
    Forget,
}

/// What retention did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// Events forgotten.
    pub forgotten: u64,
    /// Whether there is more than one call does.
    pub more: bool,
}

/// The store in figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFigures {
    /// The log's newest sequence: events ever written.
    pub head: Sequence,
    /// Events that the log holds.
    pub events: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Open deliveries that aren't EXPIRED.
    pub in_progress: u64,
    /// EXPIRED deliveries.
    pub expired: u64,
    /// Deliveries confirmed by the subscriptions that there are.
    pub acknowledged: u64,
    /// Subscriptions whose window is full of EXPIRED deliveries, in the order of their ids; the first 1,000.
    pub blocked: Vec<SubscriptionId>,
}

/// Something changed for whoever has sessions: call [`Deliveries::lease`](super::Deliveries::lease) again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Wake {
    /// The queue has a new event: for every subscription that reads it.
    Queue(Name),
    /// The subscription was resumed or sought, or deliveries of it were confirmed, lapsed or given budget.
    Subscription(SubscriptionId),
    /// The subscription was paused or deleted. Its next lease or standing says which.
    Stopped(SubscriptionId),
    /// News were lost, or the store was away: for every subscription.
    Everything,
}

/// A stream of [`Wake`]s.
///
/// It is a hint and comes after the commit that it tells of. A reader that falls behind gets one
/// [`Wake::Everything`] for all it missed, so reading slowly costs precision, never a wake-up.
#[derive(Debug)]
pub struct Wakes(broadcast::Receiver<Wake>);

/// Wakes kept for a reader before it has fallen behind.
const KEPT: usize = 1_024;

impl Wakes {
    /// The next wake; `None` once the store is closed. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Wake> {
        match self.0.recv().await {
            Ok(wake) => Some(wake),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Wake::Everything),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The sending end of a store's [`Wakes`]; its clones share it.
#[derive(Debug, Clone)]
pub(super) struct Waker(Arc<Mutex<Option<broadcast::Sender<Wake>>>>);

impl Waker {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(broadcast::Sender::new(KEPT)))))
    }

    /// A stream of what comes from now on; one that has ended where the store is closed.
    pub(super) fn wakes(&self) -> Wakes {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Wakes(sender.as_ref().map_or_else(|| broadcast::Sender::new(1).subscribe(), broadcast::Sender::subscribe))
    }

    /// Tells whoever listens; nobody may.
    pub(super) fn wake(&self, wake: Wake) {
        if let Some(sender) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _listeners = sender.send(wake);
        }
    }

    /// Ends every stream after what was sent.
    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_web::test]
    async fn a_reader_that_falls_behind_is_told_to_look_at_everything() {
        let waker = Waker::new();
        let mut wakes = waker.wakes();
        for n in 0..=KEPT as u128 {
            waker.wake(Wake::Subscription(SubscriptionId::from_u128(n)));
        }
        assert_eq!(wakes.next().await, Some(Wake::Everything));
        assert_eq!(wakes.next().await, Some(Wake::Subscription(SubscriptionId::from_u128(1))));
    }

    #[actix_web::test]
    async fn a_closed_store_ends_its_wakes_after_the_last_one() {
        let waker = Waker::new();
        let mut wakes = waker.wakes();
        waker.wake(Wake::Everything);
        waker.close();
        waker.wake(Wake::Everything);
        assert_eq!(wakes.next().await, Some(Wake::Everything));
        assert_eq!(wakes.next().await, None);
        assert_eq!(waker.wakes().next().await, None);
    }
}
