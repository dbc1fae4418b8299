//! What is still to happen, in order of time, ties in order of planning.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::step::Step;

struct Planned {
    at: Instant,
    // Two things planned for one instant happen in the order they were planned in.
    sequence: u64,
    // Boxed: the heap moves what it holds.
    step: Box<Step>,
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap's greatest is the earliest.
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Planned {}

/// The steps to come.
#[derive(Default)]
pub(super) struct Agenda {
    planned: BinaryHeap<Planned>,
    sequence: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at: Instant, step: Step) {
        self.sequence += 1;
        self.planned.push(Planned { at, sequence: self.sequence, step: Box::new(step) });
    }

    pub(super) fn next(&mut self) -> Option<(Instant, Step)> {
        self.planned.pop().map(|planned| (planned.at, *planned.step))
    }
}
