//! Registered sessions, by subscription: one *lane* each.
//!
//! A lane is where the deliveries of one subscription are handed to its sessions on this server. It exists
//! while it has a session. Who dispatches is [`super::dispatcher`]; here is who sits where.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use perilune_proto::scalar::{Name, SessionId, SubscriptionId};
use perilune_proto::session::server::Refusal;
use tokio::sync::{Notify, mpsc, watch};

use super::backlog::Backlog;
use super::store::{Lease, SessionCredit, Wake};

/// Leases that wait in a session's channel at the most: two rounds of a full capacity.
const GRANTS_MAX: usize = 64;

/// A lease on its way to its session.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) lease: Lease,
    /// When it began, by this host's monotonic clock.
    pub(crate) began: Instant,
}

/// Every lane of one server.
pub(crate) struct Lanes {
    seats_max: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_subscription: HashMap<SubscriptionId, Arc<Lane>>,
    /// Which lanes an event of a queue wakes.
    by_queue: HashMap<Name, Vec<Arc<Lane>>>,
}

/// The sessions of one subscription.
pub(crate) struct Lane {
    pub(crate) subscription_id: SubscriptionId,
    queues: BTreeSet<Name>,
    /// Oldest first.
    seats: Mutex<Vec<Seat>>,
    news: Notify,
    /// The subscription may have been paused or deleted: ask even if no session can take anything.
    stopped: AtomicBool,
}

struct Seat {
    session_id: SessionId,
    capacity: u8,
    grants: mpsc::Sender<Grant>,
    backlog: Arc<Backlog>,
    end: watch::Sender<Option<Refusal>>,
}

/// A session's place in its lane. Dropping it leaves the lane.
pub(crate) struct Seated {
    pub(crate) grants: mpsc::Receiver<Grant>,
    pub(crate) end: watch::Receiver<Option<Refusal>>,
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) lane: Arc<Lane>,
    session_id: SessionId,
}

/// The subscription has as many sessions as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneFull;

/// What a dispatcher finds in its lane.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Sessions that can take deliveries, oldest first; the list may be empty.
    Sessions(Vec<SessionCredit>),
    /// Nobody can take anything and nothing is to be asked.
    Nothing,
    /// The last session has left.
    Closed,
}

impl Lanes {
    /// Makes lanes of at most so many sessions each.
    pub(crate) fn new(seats_max: usize) -> Self {
        Self { seats_max, table: Mutex::default() }
    }

    /// Seats a session, the youngest of its lane. `open` is told of a lane that is new.
    ///
    /// # Errors
    /// [`LaneFull`].
    pub(crate) fn join(
        &self,
        subscription_id: SubscriptionId,
        queues: &BTreeSet<Name>,
        credit: SessionCredit,
        open: impl FnOnce(Arc<Lane>),
    ) -> Result<Seated, LaneFull> {
        let mut table = lock(&self.table);
        if let Some(lane) = table.by_subscription.get(&subscription_id) {
            // Under the table's lock, so that no lane is given up while somebody sits down.
            return if lane.seated() < self.seats_max { Ok(lane.seat(credit)) } else { Err(LaneFull) };
        }
        let lane = Arc::new(Lane::new(subscription_id, queues.clone()));
        table.insert(&lane);
        let seated = lane.seat(credit);
        // After the first session sat down: a dispatcher gives up a lane that it finds empty.
        open(lane);
        Ok(seated)
    }

    /// Gives a session's place up, and its lane with the last one.
    pub(crate) fn leave(&self, seated: &Seated) {
        let mut table = lock(&self.table);
        let lane = &seated.lane;
        lock(&lane.seats).retain(|seat| seat.session_id != seated.session_id);
        if lane.seated() == 0 {
            table.remove(lane);
        }
        drop(table);
        lane.news.notify_one();
    }

    /// Sessions of a subscription on this server.
    pub(crate) fn sessions(&self, subscription_id: SubscriptionId) -> usize {
        lock(&self.table).by_subscription.get(&subscription_id).map_or(0, |lane| lane.seated())
    }

    /// Passes the store's news on to the lanes that they are for.
    pub(crate) fn wake(&self, wake: &Wake) {
        let table = lock(&self.table);
        match wake {
            Wake::Queue(queue) => {
                table.by_queue.get(queue).into_iter().flatten().for_each(|lane| lane.news.notify_one())
            }
            Wake::Subscription(id) => table.by_subscription.get(id).into_iter().for_each(|lane| lane.news.notify_one()),
            Wake::Stopped(id) => table.by_subscription.get(id).into_iter().for_each(|lane| lane.stop()),
            Wake::Everything => table.by_subscription.values().for_each(|lane| lane.stop()),
        }
    }
}

impl Table {
    fn insert(&mut self, lane: &Arc<Lane>) {
        self.by_subscription.insert(lane.subscription_id, Arc::clone(lane));
        for queue in &lane.queues {
            self.by_queue.entry(queue.clone()).or_default().push(Arc::clone(lane));
        }
    }

    fn remove(&mut self, lane: &Arc<Lane>) {
        self.by_subscription.remove(&lane.subscription_id);
        for queue in &lane.queues {
            if let Some(lanes) = self.by_queue.get_mut(queue) {
                lanes.retain(|other| !Arc::ptr_eq(other, lane));
                if lanes.is_empty() {
                    self.by_queue.remove(queue);
                }
            }
        }
    }
}

impl Lane {
    fn new(subscription_id: SubscriptionId, queues: BTreeSet<Name>) -> Self {
        let (seats, news) = (Mutex::default(), Notify::new());
        Self { subscription_id, queues, seats, news, stopped: AtomicBool::new(false) }
    }

    fn seat(self: &Arc<Self>, credit: SessionCredit) -> Seated {
        let (grants_in, grants) = mpsc::channel(GRANTS_MAX);
        let (end_in, end) = watch::channel(None);
        let backlog = Arc::new(Backlog::default());
        lock(&self.seats).push(Seat {
            session_id: credit.session_id,
            capacity: credit.capacity,
            grants: grants_in,
            backlog: Arc::clone(&backlog),
            end: end_in,
        });
        self.news.notify_one();
        Seated { grants, end, backlog, lane: Arc::clone(self), session_id: credit.session_id }
    }

    fn seated(&self) -> usize {
        lock(&self.seats).len()
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.news.notify_one();
    }

    /// The store failed: whatever the last look wanted to know is asked about again, whoever can take anything then.
    pub(crate) fn was_not_answered(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Tells the dispatcher to look again.
    pub(crate) fn look_again(&self) {
        self.news.notify_one();
    }

    /// Waits for news since the last look.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// What there is to dispatch to.
    pub(crate) fn look(&self) -> Found {
        let seats = lock(&self.seats);
        if seats.is_empty() {
            return Found::Closed;
        }
        let can_take = seats.iter().filter(|seat| seat.end.borrow().is_none() && seat.backlog.has_room());
        let takers: Vec<_> =
            can_take.map(|seat| SessionCredit { session_id: seat.session_id, capacity: seat.capacity }).collect();
        let stopped = self.stopped.swap(false, Ordering::SeqCst);
        if takers.is_empty() && !stopped { Found::Nothing } else { Found::Sessions(takers) }
    }

    /// Hands a lease to its session. Gives it back where the session has left or takes nothing: the lease then
    /// runs out by itself.
    pub(crate) fn hand(&self, grant: Grant) -> Result<(), Grant> {
        let seats = lock(&self.seats);
        let Some(seat) = seats.iter().find(|seat| seat.session_id == grant.lease.session_id) else { return Err(grant) };
        seat.backlog.add(grant.lease.event_json.len());
        seat.grants.try_send(grant).map_err(|error| {
            let grant = error.into_inner();
            seat.backlog.remove(grant.lease.event_json.len());
            grant
        })
    }

    /// Ends every session of the lane.
    pub(crate) fn end(&self, refusal: &Refusal) {
        for seat in &*lock(&self.seats) {
            seat.end.send_replace(Some(refusal.clone()));
        }
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("lanes", &lock(&self.table).by_subscription.len()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under these locks can leave a half-made change behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
