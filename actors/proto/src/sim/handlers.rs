//! Handler runs: when they commit, how they end, what a token changes.

use std::time::Duration;

use super::bug::Bug;
use super::oracle::Check;
use super::process::Run;
use super::receiver::{Behaviour, Commit, Keeping, Pace};
use super::step::{Life, Step};
use super::world::World;
use crate::consumer::{HandlerOutcome, Input, RunId, RunSignal};
use crate::scalar::EventId;

impl World {
    pub(super) fn run_handler(&mut self, life: Life, run: RunId, event_id: EventId) {
        let behaviour = Behaviour::draw(&self.plan.chances, &mut self.rng);
        self.tally.runs += 1;
        let lease = Duration::from_millis(self.plan.terms.lease_ms.into());
        let takes = match behaviour.pace {
            Pace::Usual => Some(self.rng.duration_within(&self.plan.handler_time)),
            Pace::Slow => Some(self.rng.duration_within(&(lease / 2..=lease * 2))),
            Pace::Hangs => None,
        };
        let Some(alive) = self.alive(life) else { return };
        alive.runs.insert(run, Run { event_id, behaviour, orphaned: false });
        if let Some(takes) = takes {
            self.end_run_in(life, run, takes);
        }
    }

    /// Plans the commit and, a little later, the result.
    pub(super) fn end_run_in(&mut self, life: Life, run: RunId, takes: Duration) {
        let commits = self.now + takes;
        let ends = commits + self.rng.duration_within(&(Duration::ZERO..=Duration::from_millis(20)));
        let Some(outcome) = self.alive(life).and_then(|alive| alive.runs.get(&run)).map(|run| run.behaviour.outcome)
        else {
            return;
        };
        self.agenda.plan(commits, Step::RunCommits { life, run });
        self.agenda.plan(ends, Step::RunEnds { life, run, outcome });
    }

    pub(super) fn signal(&mut self, life: Life, run: RunId, signal: RunSignal) {
        let soon = self.now + self.rng.duration_within(&(Duration::ZERO..=Duration::from_millis(20)));
        let Some(alive) = self.alive(life) else { return };
        let Some(handler) = alive.runs.get_mut(&run) else { return };
        if signal == RunSignal::Stopping && handler.behaviour.listens {
            handler.behaviour.commit = Commit::RollsBack;
            handler.behaviour.outcome = HandlerOutcome::Error;
            self.agenda.plan(soon, Step::RunEnds { life, run, outcome: HandlerOutcome::Error });
        }
    }

    pub(super) fn on_run_commits(&mut self, life: Life, run: RunId) {
        let Some(alive) = self.alive(life) else { return };
        let Some(handler) = alive.runs.get_mut(&run) else { return };
        if handler.behaviour.commit == Commit::Commits {
            // What has committed can't be taken back by a token.
            handler.behaviour.listens = false;
            let event_id = handler.event_id;
            let keeping = if self.bug == Some(Bug::NoInbox) { Keeping::Nothing } else { Keeping::Rows };
            self.inbox.apply(event_id, keeping);
            let effects = self.inbox.effects(event_id);
            self.check(Check::OneEffect, effects == 1, || format!("{event_id} has {effects} effects"));
        }
    }

    pub(super) fn on_run_ends(&mut self, life: Life, run: RunId, outcome: HandlerOutcome) {
        let Some(handler) = self.alive(life).and_then(|alive| alive.runs.remove(&run)) else { return };
        // A token that was heard before the commit has turned the outcome.
        let outcome = if handler.behaviour.outcome == HandlerOutcome::Ok { outcome } else { handler.behaviour.outcome };
        if !handler.orphaned {
            self.hear(life, Input::HandlerEnded { run, outcome });
        }
    }
}
