//! What waits for a handler thread, and which thread to wake for it.
//!
//! One event at a time on each thread, so that a handler that blocks its thread holds up no other.
//!
//! Waking a thread costs more than a small handler does, so both ways spare it where nobody waits for it:
//! - at most one handler thread is on its way at a time; it wakes the next one before it starts to work, if there is
//!   more to do than it can take;
//! - while proofs wait for their turn on the wire ([`Pace`]), an `Ok` can only queue behind them, so it is left to be
//!   collected with the next receipt instead of waking the pool. So is the start of a handler while many wait. One
//!   thread does the work of several then, and while handlers are quick. The pool's tick bounds all to [`LINGER`].

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::Receipt;
use perilune_proto::consumer::HandlerOutcome;

use super::run::{Run, RunEnded};
use super::seat::{Hire, Seat, Wake};

/// How long a result, a receipt or a start is left for the next occasion, at most.
pub(crate) const LINGER: Duration = Duration::from_millis(5);
/// Committed proofs from which on starting a handler can wait for the next occasion: their turns take longer.
const PROOFS_MANY: usize = 8;
/// Runs that wait for that occasion at most, where no thread is at work.
const RUNS_LINGERING_MAX: usize = 4;

/// A handler that takes less costs less than to wake a thread for the next one.
const QUICK: Duration = Duration::from_micros(100);

/// Receipts kept for the `settled` callback; further ones are dropped and counted.
pub(super) const RECEIPTS_MAX: usize = 1_024;

/// What a handler thread does next.
pub(super) enum Job {
    /// Run the handler on an event.
    Handle(Run),
    /// Tell the `settled` callback what was confirmed.
    Settle(Vec<Receipt>),
}

/// How much the wire has to do without anything new from the handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// No proof is in flight: every `Ok` counts at once.
    Hurried,
    /// So many proofs are committed, one of them in flight: an answer is on its way.
    Busy(usize),
}

/// Whether anything waits for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    Some,
    None,
}

/// The pool's queue. Bounded by the machine: it starts no more runs than there are slots.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Told when there are results that somebody waits for.
    ready: Notify,
    /// Told when the `settled` callback has been told everything.
    settled: Notify,
}

struct State {
    runs: VecDeque<Run>,
    /// Results that nobody has collected. Bounded by the slots.
    ended: Vec<RunEnded>,
    pace: Pace,
    /// Whether the last handler took so little that whoever is at work will have done the rest before another wakes.
    quick: bool,
    receipts: Vec<Receipt>,
    /// A thread is in the `settled` callback: one call at a time, in order.
    settling: bool,
    /// Threads without work, the one that rested last on top: its caches are warm.
    parked: Vec<Arc<Seat>>,
    /// Threads that were woken, or are being made, and have not looked here yet.
    waking: usize,
    threads: usize,
    threads_max: usize,
    /// A thread could not be made: none is tried before the next nudge.
    short: bool,
    /// How many threads have taken a job since the last tick and not come back: who is longer away may stay away.
    fresh: usize,
    round: u64,
    /// The tick has found something queued: nothing lingers until the queue is empty.
    overdue: bool,
    /// How many jobs were ever taken: tells whether anything moves.
    taken: u64,
    closed: bool,
}

impl Queue {
    /// For so many handlers at once, and one thread more for the `settled` callback.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            state: Mutex::new(State {
                runs: VecDeque::with_capacity(slots),
                ended: Vec::with_capacity(slots),
                pace: Pace::Hurried,
                quick: false,
                receipts: Vec::new(),
                settling: false,
                parked: Vec::new(),
                waking: 0,
                threads: 0,
                threads_max: slots + 1,
                short: false,
                fresh: 0,
                round: 1,
                overdue: false,
                taken: 0,
                closed: false,
            }),
            ready: Notify::new(),
            settled: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No user code runs under the lock, so it is never poisoned half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues runs.
    pub(super) fn push(&self, runs: impl IntoIterator<Item = Run>) -> Hire {
        let wake = {
            let mut state = self.state();
            state.runs.extend(runs);
            if state.may_linger() { Wake::Nobody } else { state.wake() }
        };
        wake.send()
    }

    /// Takes a result in. Called wherever a run ends, so it must not fail.
    ///
    /// `now` is read under the lock: what the pool's last tick has not seen is late, and says so.
    pub(super) fn report(&self, ended: RunEnded, dispatched: Instant, now: fn() -> Instant) {
        let waited_for = {
            let mut state = self.state();
            let ok = ended.outcome == HandlerOutcome::Ok;
            state.quick = ended.took < QUICK && ok;
            state.ended.push(ended);
            let lingers = ok && state.pace != Pace::Hurried;
            !lingers || now().saturating_duration_since(dispatched) >= LINGER
        };
        if waited_for {
            self.ready.notify_one();
        }
    }

    /// Takes the results that are there, and learns how much the wire has to do.
    pub(super) fn collect(&self, pace: Pace) -> (Vec<RunEnded>, Hire) {
        let (ended, wake) = {
            let mut state = self.state();
            state.pace = pace;
            let wake = if state.has_job() && !state.may_linger() { state.wake() } else { Wake::Nobody };
            (std::mem::take(&mut state.ended), wake)
        };
        (ended, wake.send())
    }

    /// Takes the results that are there, and sends somebody to whatever lingers.
    pub(super) fn tick(&self) -> (Vec<RunEnded>, Queued, Hire) {
        let (ended, queued, wake) = {
            let mut state = self.state();
            state.round = state.round.wrapping_add(1).max(1);
            state.fresh = 0;
            state.overdue = state.has_job();
            let (queued, wake) =
                if state.has_job() { (Queued::Some, state.wake()) } else { (Queued::None, Wake::Nobody) };
            (std::mem::take(&mut state.ended), queued, wake)
        };
        (ended, queued, wake.send())
    }

    /// Waits until somebody has to look at the results, and takes them. Several waits are one.
    pub(super) async fn results(&self) -> Vec<RunEnded> {
        self.ready.notified().await;
        std::mem::take(&mut self.state().ended)
    }

    /// Queues a receipt for the `settled` callback; `false` if it was dropped.
    pub(super) fn push_receipt(&self, receipt: Receipt) -> (bool, Hire) {
        let wake = {
            let mut state = self.state();
            if state.receipts.len() >= RECEIPTS_MAX {
                return (false, Hire::Nobody);
            }
            state.receipts.push(receipt);
            // While the callback runs, its thread takes what has come in the meantime.
            if state.settling { Wake::Nobody } else { state.wake() }
        };
        (true, wake.send())
    }

    /// Wakes one more thread if nothing was taken since `taken`: the one that was woken may be held up by a task that
    /// user code left behind. Answers the new count while there is something to do.
    pub(super) fn nudge(&self, taken: u64) -> (Option<u64>, Hire) {
        let mut state = self.state();
        state.short = false;
        if !state.has_job() {
            return (None, Hire::Nobody);
        }
        if state.taken != taken {
            return (Some(state.taken), Hire::Nobody);
        }
        state.waking = 0;
        let wake = state.wake();
        drop(state);
        (Some(taken), wake.send())
    }

    /// The next job of the thread that sits here; none once the queue is closed.
    pub(super) async fn next(&self, seat: &Arc<Seat>, hire: impl Fn()) -> Option<Job> {
        loop {
            {
                let mut state = self.state();
                if seat.woken.swap(false, Ordering::Relaxed) {
                    state.waking = state.waking.saturating_sub(1);
                }
                state.back(seat);
                if let Some(job) = state.take(seat) {
                    // Before it works, since it may block: only what may linger is left to the tick.
                    let more = if state.has_job() && !state.may_linger() { state.wake() } else { Wake::Nobody };
                    drop(state);
                    if more.send() == Hire::Thread {
                        hire();
                    }
                    return Some(job);
                }
                if state.closed {
                    return None;
                }
                state.parked.push(Arc::clone(seat));
            }
            seat.wake.notified().await;
        }
    }

    /// The `settled` callback has come back.
    pub(super) fn settled(&self) {
        let mut state = self.state();
        state.settling = false;
        if state.receipts.is_empty() {
            self.settled.notify_waiters();
        }
    }

    /// Resolves once the `settled` callback has been told everything.
    pub(super) async fn all_settled(&self) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            {
                let state = self.state();
                if state.closed || (!state.settling && state.receipts.is_empty()) {
                    return;
                }
            }
            settled.await;
        }
    }

    /// No more jobs. Threads that rest end, the others after what they do; what is still queued is dropped, and
    /// reports itself by that.
    pub(super) fn close(&self) {
        let left = {
            let mut state = self.state();
            state.closed = true;
            state.receipts.clear();
            while let Some(seat) = state.parked.pop() {
                seat.wake.notify_one();
            }
            std::mem::take(&mut state.runs)
        };
        self.settled.notify_waiters();
        drop(left);
    }

    /// A thread that was counted could not be made. Nobody is sent in its place before the next nudge: whoever has no
    /// threads now has none in the next moment either.
    pub(super) fn not_made(&self) {
        let mut state = self.state();
        state.threads = state.threads.saturating_sub(1);
        state.waking = state.waking.saturating_sub(1);
        state.short = true;
    }

    /// A thread has ended.
    pub(super) fn leave(&self, seat: &Arc<Seat>) -> Hire {
        let mut state = self.state();
        state.threads = state.threads.saturating_sub(1);
        state.back(seat);
        state.parked.retain(|parked| !Arc::ptr_eq(parked, seat));
        if seat.woken.swap(false, Ordering::Relaxed) {
            // It was on its way to a job: somebody else has to go.
            state.waking = state.waking.saturating_sub(1);
            if state.has_job() {
                let wake = state.wake();
                drop(state);
                return wake.send();
            }
        }
        Hire::Nobody
    }

    /// Threads there are.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.state().threads
    }
}

impl State {
    fn has_job(&self) -> bool {
        !self.runs.is_empty() || (!self.settling && !self.receipts.is_empty())
    }

    /// Whether what is queued may wait for the next occasion.
    fn may_linger(&self) -> bool {
        let plenty = matches!(self.pace, Pace::Busy(proofs) if proofs >= PROOFS_MANY);
        let few = self.runs.len() < RUNS_LINGERING_MAX;
        !self.overdue && (plenty && few || (plenty || self.quick) && self.somebody_works())
    }

    /// Whether a thread is on its way, or has been at work for so short a time that it is likely to look here soon.
    const fn somebody_works(&self) -> bool {
        self.waking > 0 || self.fresh > 0
    }

    /// A thread is done with its job.
    fn back(&mut self, seat: &Seat) {
        if seat.round.swap(0, Ordering::Relaxed) == self.round {
            self.fresh = self.fresh.saturating_sub(1);
        }
    }

    fn take(&mut self, seat: &Seat) -> Option<Job> {
        let job = if let Some(run) = self.runs.pop_front() {
            Job::Handle(run)
        } else if !self.settling && !self.receipts.is_empty() {
            self.settling = true;
            Job::Settle(std::mem::take(&mut self.receipts))
        } else {
            return None;
        };
        self.taken = self.taken.wrapping_add(1);
        self.fresh += 1;
        seat.round.store(self.round, Ordering::Relaxed);
        self.overdue &= !self.runs.is_empty();
        Some(job)
    }

    /// Sends somebody to the queue, unless somebody is on the way.
    fn wake(&mut self) -> Wake {
        if self.waking > 0 || self.closed {
            return Wake::Nobody;
        }
        if let Some(seat) = self.parked.pop() {
            self.waking += 1;
            seat.woken.store(true, Ordering::Relaxed);
            Wake::Seat(seat)
        } else if self.threads < self.threads_max && !self.short {
            self.waking += 1;
            self.threads += 1;
            Wake::NewThread
        } else {
            // Everybody works, and whoever is done first looks here; or there are no threads to be had.
            Wake::Nobody
        }
    }
}
