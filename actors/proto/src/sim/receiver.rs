//! The receivers: one database with an inbox, and handlers that mostly work.
//!
//! A handler's transaction inserts `(consumer, event)` and does its business; a twin's insert finds the row.
//! What a crash leaves is what had committed.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Chances;
use crate::consumer::HandlerOutcome;
use crate::rng::Rng;
use crate::scalar::EventId;

/// Whether the receivers look at their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeping {
    Rows,
    /// A planted bug.
    Nothing,
}

/// The database that all processes of the one consumer name share.
#[derive(Default)]
pub(super) struct Inbox {
    rows: BTreeSet<EventId>,
    effects: BTreeMap<EventId, u32>,
    /// Deliveries whose row was already there.
    pub(super) hits: u64,
}

impl Inbox {
    /// One transaction: the row and the business effect, or neither.
    pub(super) fn apply(&mut self, event_id: EventId, keeping: Keeping) {
        if self.rows.insert(event_id) || keeping == Keeping::Nothing {
            *self.effects.entry(event_id).or_default() += 1;
        } else {
            self.hits += 1;
        }
    }

    /// How often the event's business effect happened.
    pub(super) fn effects(&self, event_id: EventId) -> u32 {
        self.effects.get(&event_id).copied().unwrap_or(0)
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }
}

/// What a handler run will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) commit: Commit,
    pub(super) outcome: HandlerOutcome,
    pub(super) pace: Pace,
    /// Whether it ends early when it is told to.
    pub(super) listens: bool,
}

/// Whether a handler's transaction commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    Commits,
    RollsBack,
}

/// How long a handler takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Usual,
    /// Longer than its lease.
    Slow,
    /// It blocks until the world heals or its process dies.
    Hangs,
}

impl Behaviour {
    pub(super) fn draw(chances: &Chances, rng: &mut Rng) -> Self {
        let failures = [HandlerOutcome::Error, HandlerOutcome::Panicked, HandlerOutcome::Gone];
        let (commit, outcome) = if rng.chance(chances.handler_fails) {
            (Commit::RollsBack, failures[super::plan::pick(rng, 3)])
        } else if rng.chance(chances.commit_unknown) {
            // The commit arrived, its result did not: an error to the consumer.
            (Commit::Commits, HandlerOutcome::Error)
        } else {
            (Commit::Commits, HandlerOutcome::Ok)
        };
        let pace = if rng.chance(chances.handler_hangs) {
            Pace::Hangs
        } else if rng.chance(chances.handler_slow) {
            Pace::Slow
        } else {
            Pace::Usual
        };
        Self { commit, outcome, pace, listens: rng.chance(50) }
    }
}
