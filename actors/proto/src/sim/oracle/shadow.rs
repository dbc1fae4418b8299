//! What one consumer should be like, told from outside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::{Check, Judged, holds};
use crate::consumer::{Consumer, ConsumerConfig, Delivered, Epoch, Input, Notice, Role, RunId};
use crate::limits;
use crate::proof::EventProof;
use crate::scalar::{DeliveryId, EventId, Generation};

/// Deliveries kept to be replayed.
const RECENT: usize = 16;

/// A delivery and when its lease lapses.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) proof: EventProof,
    pub(super) ends: Instant,
}

impl Offer {
    pub(super) fn supersedes(&self, other: &EventProof) -> bool {
        self.proof.delivery_id != other.delivery_id || self.proof.generation > other.generation
    }
}

/// A running or committed event.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) offer: Offer,
    pub(super) run: Option<RunId>,
    pub(super) told: bool,
    pub(super) successor: Option<Offer>,
}

/// Where its connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    None,
    Dialled(Epoch),
    Up(Epoch),
    Closing(Epoch),
}

/// The end of the run, once it is to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    pub(super) deadline: Instant,
    pub(super) by_error: bool,
}

/// What one consumer should be like.
#[derive(Debug)]
pub(in crate::sim) struct Shadow {
    pub(super) config: ConsumerConfig,
    /// How late its timer may fire.
    pub(super) lateness: Duration,
    pub(super) link: Link,
    pub(super) last_epoch: Epoch,
    pub(super) attempts: u32,
    /// When the last connection ended, and what its server asked for.
    pub(super) ended: Option<(Instant, Option<Duration>)>,
    pub(super) closing_asked: Option<Duration>,
    pub(super) whole_waits: u32,
    pub(super) idle_since: Option<Instant>,
    pub(super) beat_due: Option<(Epoch, Duration)>,
    pub(super) beating: Option<Epoch>,
    pub(super) offers: BTreeMap<EventId, Offer>,
    pub(super) held: BTreeMap<EventId, Holding>,
    pub(super) runs: BTreeMap<RunId, EventId>,
    pub(super) queue: VecDeque<EventId>,
    pub(super) refused: Vec<EventId>,
    /// Where proofs are handed over, how many, and since when the answer to the oldest is due.
    pub(super) handed: Option<(Epoch, usize, Instant)>,
    pub(super) closing_since: Option<Instant>,
    pub(super) started: BTreeSet<(DeliveryId, Generation)>,
    pub(super) settled: BTreeSet<(DeliveryId, Generation)>,
    pub(super) losses: Vec<Instant>,
    pub(super) stop: Option<Stop>,
    pub(super) error: bool,
    pub(super) receipts: u64,
    pub(super) finished: bool,
    // What the actions of this very input must contain.
    pub(super) due_starts: BTreeMap<EventId, Offer>,
    pub(super) due_signals: BTreeSet<RunId>,
    pub(super) due_respawns: BTreeSet<Role>,
    pub(super) due_notices: Vec<Notice>,
    recent: VecDeque<Delivered>,
}

impl Shadow {
    pub(in crate::sim) fn new(config: ConsumerConfig, lateness: Duration) -> Self {
        Self {
            config,
            lateness,
            link: Link::None,
            last_epoch: Epoch(0),
            attempts: 0,
            ended: None,
            closing_asked: None,
            whole_waits: 0,
            idle_since: None,
            beat_due: None,
            beating: None,
            offers: BTreeMap::new(),
            held: BTreeMap::new(),
            runs: BTreeMap::new(),
            queue: VecDeque::new(),
            refused: Vec::new(),
            handed: None,
            closing_since: None,
            started: BTreeSet::new(),
            settled: BTreeSet::new(),
            losses: Vec::new(),
            stop: None,
            error: false,
            receipts: 0,
            finished: false,
            due_starts: BTreeMap::new(),
            due_signals: BTreeSet::new(),
            due_respawns: BTreeSet::new(),
            due_notices: Vec::new(),
            recent: VecDeque::new(),
        }
    }

    /// The connection that is not over yet, if there is one.
    pub(in crate::sim) const fn epoch(&self) -> Option<Epoch> {
        match self.link {
            Link::None => None,
            Link::Dialled(epoch) | Link::Up(epoch) | Link::Closing(epoch) => Some(epoch),
        }
    }

    /// When a child will have been silent for too long.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let since = match self.link {
            Link::Closing(_) => self.closing_since,
            Link::Up(_) => self.handed.map(|(.., since)| since),
            _ => None,
        };
        since.map(|since| since + limits::CHILD_SILENCE_MAX)
    }

    pub(super) fn capacity(&self) -> usize {
        usize::from(self.config.capacity())
    }

    pub(super) fn remember(&mut self, delivery: &Delivered) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(delivery.clone());
    }

    /// A delivery that is still held, as a server would replay it on the session that is open now.
    pub(in crate::sim) fn replay(&self, some: u64, now: Instant) -> Option<Input> {
        let Link::Up(epoch) = self.link else { return None };
        let of_held = |delivery: &&Delivered| {
            self.held
                .get(&delivery.proof.event_id)
                .is_some_and(|held| held.offer.proof.delivery_id == delivery.proof.delivery_id && held.offer.ends > now)
        };
        let known: Vec<&Delivered> = self.recent.iter().filter(of_held).collect();
        let index = usize::try_from(some).unwrap_or(0).checked_rem(known.len())?;
        Some(Input::Delivered { epoch, delivery: known[index].clone() })
    }

    /// Judges the machine's state once all of an input's actions are known.
    pub(in crate::sim) fn after(&mut self, machine: &Consumer, now: Instant) -> Judged {
        let stats = machine.stats();
        if self.finished {
            let gauges = [stats.waiting, stats.running, stats.committed, stats.successors];
            holds(Check::QuietAfterTheEnd, gauges == [0; 4], || format!("{stats:?}"))?;
            return holds(Check::QuietAfterTheEnd, machine.poll_timeout().is_none(), || "a timer is armed".to_owned());
        }
        self.judge_debts(now)?;
        self.judge_gauges(machine)?;
        self.judge_link()?;
        if let Some(stop) = &self.stop {
            holds(Check::DeadlineKept, now < stop.deadline, || "the run goes on".to_owned())?;
        }
        let silent = self.silent_at().is_some_and(|at| at <= now);
        holds(Check::SilenceIsEnded, !silent, || format!("{:?}", self.link))?;
        let timeout = machine.poll_timeout();
        let ahead = timeout.is_none_or(|(at, _)| at > now);
        holds(Check::TimerIsAhead, ahead, || format!("{timeout:?}"))?;
        let idle = matches!(self.link, Link::Up(_)) && self.queue.is_empty() && self.refused.is_empty();
        self.idle_since = if idle { self.idle_since.or(Some(now)) } else { None };
        Ok(())
    }

    /// Whatever this input should have led to must have been done.
    fn judge_debts(&mut self, now: Instant) -> Judged {
        let starts: Vec<EventId> =
            std::mem::take(&mut self.due_starts).into_iter().filter(|(_, o)| o.ends > now).map(|(id, _)| id).collect();
        holds(Check::SuccessorsTurn, starts.is_empty(), || format!("{starts:?} did not run"))?;
        holds(Check::StopIsTold, self.due_signals.is_empty(), || format!("{:?}", self.due_signals))?;
        holds(Check::CrashesAreBorne, self.due_respawns.is_empty(), || format!("{:?}", self.due_respawns))?;
        holds(Check::NoticesAreTrue, self.due_notices.is_empty(), || format!("missing {:?}", self.due_notices))?;
        let untold = self.held.values().find(|held| held.run.is_some() && !held.told && held.offer.ends <= now);
        holds(Check::LapseIsTold, untold.is_none(), || format!("{untold:?}"))
    }

    fn judge_gauges(&self, machine: &Consumer) -> Judged {
        let stats = machine.stats();
        let (running, committed) = (self.runs.len() as u64, (self.queue.len() + self.refused.len()) as u64);
        holds(Check::GaugesAreTrue, (stats.running, stats.committed) == (running, committed), || {
            format!("{stats:?}, but {running} running and {committed} committed")
        })?;
        holds(Check::GaugesAreTrue, stats.acknowledged == self.receipts, || format!("{stats:?}"))?;
        let capacity = self.capacity();
        holds(Check::HeldWithinCapacity, self.held.len() <= capacity, || format!("{} held", self.held.len()))?;
        let unread = stats.waiting <= capacity as u64 && stats.successors <= capacity as u64;
        holds(Check::UnreadWithinCapacity, unread, || format!("{stats:?}"))?;
        let idle_slot = self.held.len() < capacity && self.config.max_events().is_none();
        holds(Check::SlotsAreUsed, self.stop.is_some() || !idle_slot || stats.waiting == 0, || format!("{stats:?}"))
    }

    fn judge_link(&self) -> Judged {
        let Link::Up(epoch) = self.link else { return Ok(()) };
        let reported = self.handed.map_or(0, |(_, count, _)| count) == self.queue.len();
        holds(Check::ReportsWhenItCan, reported, || format!("{:?} wait", self.queue))?;
        holds(Check::HeartbeatRuns, self.beating == Some(epoch), || format!("{:?} beats", self.beating))
    }
}
