//! The events a consumer holds, from delivery to gone.
//!
//! ```text
//! delivery ──▶ waiting ──▶ running ──ok──▶ committed ──confirmed──▶ gone
//!                 │           │                └──lost──▶ gone, or its successor runs
//!                 │           └──error, panic, gone──▶ gone, or its successor runs
//!                 └──lease lapsed before a slot was free──▶ gone
//! ```
//!
//! | a delivery of an event that | newer generation | same or older |
//! | --- | --- | --- |
//! | is unknown | waits | – |
//! | waits | takes its place | dropped |
//! | runs or is committed | becomes its successor, in place of an older one | dropped |
//!
//! *Waiting* is the session's unread buffer and has the consumer's capacity as its bound; running and
//! committed events together have it too, each in a slot of its own. A successor takes no slot: it inherits
//! that of its event. What waits survives its session, since its lease does; but it makes room for what a
//! later session brings.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::action::{Action, Epoch, RunId};
use super::held_event::{Held, Lapse, Lease, State};
use super::lapses::Lapses;
use super::mutation::{Mutation, Planted};
use crate::limits;
use crate::proof::EventProof;
use crate::scalar::{EventId, Generation};

/// What became of a delivery.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arrival {
    /// It waits, for a slot or as a successor.
    Kept,
    /// It waits in the place of one whose lease has lapsed for the platform, if not quite here.
    KeptFor(Lapsed),
    /// The generation is held already, or a newer one is.
    Stale,
    /// The session has sent more than it may have unread.
    Full,
}

/// A lease that lapsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lapsed {
    pub(super) event_id: EventId,
    pub(super) generation: Generation,
    /// The handler that still runs; none where the delivery waited and is gone.
    pub(super) run: Option<RunId>,
}

/// Every event that waits, runs or is committed.
#[derive(Debug, Clone)]
pub(super) struct HeldEvents {
    capacity: usize,
    waiting: VecDeque<(Epoch, Lease)>,
    // Boxed: a map moves what it holds about.
    held: BTreeMap<EventId, Box<Held>>,
    // Ordered as the runs began, which is by their ids, and nearly as they end.
    runs: VecDeque<(RunId, EventId)>,
    // Events whose predecessor has gone: they keep its slot and run before anything that waits.
    inherited: VecDeque<Lease>,
    // Kept beside the above, which is never searched for them: how many successors there are, and when the leases of
    // all that waits, of successors and of runs not told yet end.
    successors: usize,
    lapses: Lapses,
    last_run: RunId,
    planted: Planted,
}

impl HeldEvents {
    pub(super) fn new(capacity: u8, planted: Planted) -> Self {
        Self {
            capacity: usize::from(capacity),
            waiting: VecDeque::new(),
            held: BTreeMap::new(),
            runs: VecDeque::new(),
            inherited: VecDeque::new(),
            successors: 0,
            lapses: Lapses::default(),
            last_run: RunId(0),
            planted,
        }
    }

    /// Takes a delivery of this session in, or tells why not.
    pub(super) fn arrive(&mut self, epoch: Epoch, lease: Lease, now: Instant) -> Arrival {
        if let Some(held) = self.held.get(&lease.event_id()) {
            let beside = self.planted.is(Mutation::StartsBesideCommitted) && !held.is_running();
            if !beside {
                return self.succeed(lease);
            }
        }
        if let Some((session, waiting)) = self.waiting.iter_mut().find(|(_, w)| w.event_id() == lease.event_id()) {
            if !lease.supersedes(&waiting.proof) {
                return Arrival::Stale;
            }
            self.lapses.remove(waiting.ends);
            self.lapses.add(lease.ends);
            (*session, *waiting) = (epoch, lease);
            return Arrival::Kept;
        }
        let mut arrival = Arrival::Kept;
        if self.waiting.len() >= self.capacity && !self.planted.is(Mutation::BufferUnbounded) {
            // The new session knows nothing of what an earlier one left unread.
            let left = self.waiting.iter().position(|(session, _)| *session < epoch);
            let Some((_, gone)) = left.or_else(|| self.about_to_lapse(now)).and_then(|at| self.waiting.remove(at))
            else {
                return Arrival::Full;
            };
            self.lapses.remove(gone.ends);
            if left.is_none() {
                arrival = Arrival::KeptFor(Lapsed {
                    event_id: gone.event_id(),
                    generation: gone.proof.generation,
                    run: None,
                });
            }
        }
        self.lapses.add(lease.ends);
        self.waiting.push_back((epoch, lease));
        arrival
    }

    /// The waiting delivery whose lease ends next, where that is so soon that the platform, whose clock began a transit
    /// earlier, may have given it up: a platform that keeps the contract then sends another one.
    fn about_to_lapse(&self, now: Instant) -> Option<usize> {
        let (at, (_, lease)) = self.waiting.iter().enumerate().min_by_key(|(_, (_, lease))| lease.ends)?;
        (lease.ends.saturating_duration_since(now) <= limits::LEASE_TRANSIT_MAX).then_some(at)
    }

    fn succeed(&mut self, lease: Lease) -> Arrival {
        let planted = self.planted;
        let Some(held) = self.held.get_mut(&lease.event_id()) else { return Arrival::Stale };
        let newest = held.successor.as_ref().map_or(&held.proof, |successor| &successor.proof);
        let newer = lease.supersedes(&held.proof) && lease.supersedes(newest);
        if !newer && !planted.is(Mutation::NoGenerationCheck) {
            return Arrival::Stale;
        }
        if planted.is(Mutation::OldestSuccessorKept) && held.successor.is_some() {
            return Arrival::Kept;
        }
        self.lapses.add(lease.ends);
        match held.successor.replace(lease) {
            Some(older) => self.lapses.remove(older.ends),
            None => self.successors += 1,
        }
        Arrival::Kept
    }

    /// Starts the next handler where a slot is free: successors first, then the longest waiting.
    pub(super) fn start_next(&mut self) -> Option<Action> {
        let lease = match self.inherited.pop_front() {
            Some(successor) => {
                self.successors -= 1;
                successor
            }
            None if self.has_free_slot() => self.waiting.pop_front()?.1,
            None => return None,
        };
        self.last_run.0 += 1;
        let run = self.last_run;
        let Lease { proof, event, ends: lease_ends } = lease;
        let (event_id, generation) = (proof.event_id, proof.generation);
        let state = State::Running { run, ends: lease_ends, lapse: Lapse::Untold };
        // Nothing is replaced: an event that is held gets no second run.
        if let Some(beside) = self.held.insert(event_id, Box::new(Held { proof, state, successor: None })) {
            self.forget(&beside);
        }
        self.runs.push_back((run, event_id));
        Some(Action::Start { run, event, generation, lease_ends })
    }

    fn has_free_slot(&self) -> bool {
        let beyond = usize::from(self.planted.is(Mutation::OneSlotTooMany));
        self.slots_taken() < self.capacity + beyond
    }

    /// Running and committed events, and those about to run in an inherited slot.
    pub(super) fn slots_taken(&self) -> usize {
        self.held.len() + self.inherited.len()
    }

    /// Whether a successor is about to run in the slot of its predecessor.
    pub(super) fn has_inherited(&self) -> bool {
        !self.inherited.is_empty()
    }

    /// Takes a run out.
    fn end_run(&mut self, run: RunId) -> Option<EventId> {
        let at = self.runs.binary_search_by_key(&run, |(run, _)| *run).ok()?;
        self.runs.remove(at).map(|(_, event_id)| event_id)
    }

    /// Ends a run whose handler said ok. None if no such run is known.
    pub(super) fn commit(&mut self, run: RunId) -> Option<EventProof> {
        let event_id = self.end_run(run)?;
        let held = self.held.get_mut(&event_id)?;
        if self.planted.is(Mutation::LateOkForgotten) && matches!(held.state, State::Running { lapse: Lapse::Told, .. })
        {
            self.drop_held(event_id);
            return None;
        }
        if let Some(ends) = held.untold() {
            self.lapses.remove(ends);
        }
        let mut proof = held.proof.clone();
        if let (true, Some(successor)) = (self.planted.is(Mutation::AnotherProof), &held.successor) {
            proof = successor.proof.clone();
            held.proof = proof.clone();
        }
        held.state = State::Committed;
        Some(proof)
    }

    /// Ends a run whose handler did not say ok. None if no such run is known.
    pub(super) fn fail(&mut self, run: RunId) -> Option<(EventId, Generation)> {
        let event_id = self.end_run(run)?;
        let generation = self.held.get(&event_id)?.proof.generation;
        if !self.planted.is(Mutation::SlotLeak) {
            self.pass_on(event_id);
        }
        Some((event_id, generation))
    }

    /// Settles a committed event as confirmed: its successor is dropped with it.
    pub(super) fn confirmed(&mut self, event_id: EventId) {
        if self.planted.is(Mutation::SuccessorOfConfirmedRuns) {
            return self.pass_on(event_id);
        }
        self.drop_held(event_id);
    }

    /// Settles a committed event as lost: its successor's turn has come.
    pub(super) fn lost(&mut self, event_id: EventId) {
        if self.planted.is(Mutation::SuccessorDropped) {
            self.drop_held(event_id);
        }
        self.pass_on(event_id);
    }

    /// An event is gone; its successor, if there is one, has its slot.
    fn pass_on(&mut self, event_id: EventId) {
        let Some(mut gone) = self.held.remove(&event_id) else { return };
        // Still counted, and its lease still runs.
        self.inherited.extend(gone.successor.take());
        self.forget(&gone);
    }

    /// An event is gone, and its successor with it.
    fn drop_held(&mut self, event_id: EventId) {
        if let Some(gone) = self.held.remove(&event_id) {
            self.forget(&gone);
        }
    }

    /// Nobody has to hear any more of the leases of what is no longer held.
    fn forget(&mut self, gone: &Held) {
        if let Some(ends) = gone.untold() {
            self.lapses.remove(ends);
        }
        if let Some(successor) = &gone.successor {
            self.lapses.remove(successor.ends);
            self.successors -= 1;
        }
    }

    /// Lets go of what lapsed while it waited, and names each running handler whose lease has lapsed once.
    pub(super) fn lapse(&mut self, now: Instant) -> Vec<Lapsed> {
        let mut lapsed = Vec::new();
        if !self.lapses.any_due(now) {
            return lapsed;
        }
        let Self { waiting, inherited, held, lapses, successors, .. } = self;
        let mut gone = |proof: &EventProof, ends, run| {
            lapses.remove(ends);
            lapsed.push(Lapsed { event_id: proof.event_id, generation: proof.generation, run });
        };
        if !self.planted.is(Mutation::LapsedStarts) {
            waiting.retain(|(_, lease)| {
                let runs_on = lease.ends > now;
                if !runs_on {
                    gone(&lease.proof, lease.ends, None);
                }
                runs_on
            });
            inherited.retain(|lease| {
                let runs_on = lease.ends > now;
                if !runs_on {
                    gone(&lease.proof, lease.ends, None);
                    *successors -= 1;
                }
                runs_on
            });
        }
        for held in held.values_mut() {
            if let Some(successor) = held.successor.take_if(|successor| successor.ends <= now) {
                gone(&successor.proof, successor.ends, None);
                *successors -= 1;
            }
            if let State::Running { run, ends, lapse: lapse @ Lapse::Untold } = &mut held.state
                && *ends <= now
            {
                *lapse = Lapse::Told;
                gone(&held.proof, *ends, Some(*run));
            }
        }
        lapsed
    }

    /// When the next lease lapses of which anybody must hear.
    pub(super) fn next_lapse(&self) -> Option<Instant> {
        let next = self.lapses.next();
        debug_assert_eq!(next, self.searched_lapse(), "every lease is counted");
        next
    }

    /// What [`Self::next_lapse`] says, found by looking at everything.
    fn searched_lapse(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|(_, lease)| lease.ends);
        let held = self
            .held
            .values()
            .flat_map(|held| held.untold().into_iter().chain(held.successor.as_ref().map(|successor| successor.ends)));
        waiting.chain(self.inherited.iter().map(|lease| lease.ends)).chain(held).min()
    }

    /// Leaves to the platform whatever has not begun.
    pub(super) fn drop_unstarted(&mut self) {
        self.waiting.clear();
        self.inherited.clear();
        self.successors = 0;
        self.lapses = Lapses::default();
        for held in self.held.values_mut() {
            held.successor = None;
            if let Some(ends) = held.untold() {
                self.lapses.add(ends);
            }
        }
    }

    /// Holds a proof that an earlier machine of the same run had committed.
    pub(super) fn adopt(&mut self, proof: EventProof) {
        self.held.insert(proof.event_id, Box::new(Held { proof, state: State::Committed, successor: None }));
    }

    /// Runs under way, oldest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = (RunId, EventId)> + '_ {
        self.runs.iter().copied()
    }

    pub(super) fn runs_len(&self) -> usize {
        self.runs.len()
    }

    /// The deliveries that wait, oldest first.
    #[cfg(feature = "sim")]
    pub(super) fn outline_of_waiting(&self) -> Vec<(EventId, Generation)> {
        self.waiting.iter().map(|(_, lease)| (lease.event_id(), lease.proof.generation)).collect()
    }

    /// The events that run or are committed.
    #[cfg(feature = "sim")]
    pub(super) fn outline(&self) -> Vec<super::HeldOutline> {
        let outline = |event_id: &EventId, held: &Held| super::HeldOutline {
            event_id: *event_id,
            generation: held.proof.generation,
            running: held.is_running(),
            lapse_told: matches!(held.state, State::Running { lapse: Lapse::Told, .. }),
            successor: held.successor.as_ref().map(|successor| successor.proof.generation),
        };
        self.held.iter().map(|(event_id, held)| outline(event_id, held)).collect()
    }

    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn successors_len(&self) -> usize {
        debug_assert_eq!(
            self.successors,
            self.inherited.len() + self.held.values().filter(|held| held.successor.is_some()).count(),
            "every successor is counted"
        );
        self.successors
    }

    /// Forgets everything, at the end of a run.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.runs.clear();
        self.drop_unstarted();
    }
}
