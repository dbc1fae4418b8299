//! Crashed children: what each loss means, and how many are borne.
//!
//! A child that crashed is replaced, or the run ends with an error: never silence. One that lives but has lost
//! a message would be silence, too: so an `ack` without an answer ends its connection, and a closed
//! connection that does not end is taken for a crashed child.

use std::collections::VecDeque;
use std::time::Instant;

use super::action::{Action, HandlerOutcome, Role, RunId};
use super::cause::{CauseCode, DisconnectCause};
use super::link::{Closing, Link};
use super::mutation::Mutation;
use super::report::EndReason;
use super::{Consumer, limits};

/// When children were lost of late.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses(VecDeque<Instant>);

/// What a loss leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Replace,
    GiveUp,
}

impl Losses {
    fn count(&mut self, now: Instant) -> Verdict {
        self.0.retain(|lost| now.saturating_duration_since(*lost) < limits::CHILD_LOSSES_WINDOW);
        if self.0.len() >= limits::CHILD_LOSSES_MAX {
            return Verdict::GiveUp;
        }
        self.0.push_back(now);
        Verdict::Replace
    }
}

impl Consumer {
    fn count_loss(&mut self, now: Instant) -> Verdict {
        self.stats.children_lost += 1;
        match self.losses.count(now) {
            Verdict::GiveUp if self.planted.is(Mutation::NoCrashBudget) => Verdict::Replace,
            verdict => verdict,
        }
    }

    pub(super) fn on_child_lost(&mut self, role: Role, now: Instant) {
        let verdict = self.count_loss(now);
        if verdict == Verdict::Replace {
            self.push(Action::Respawn(role));
        }
        match role {
            Role::Connection => self.connection_lost(role, now),
            // A connection without a heartbeat would be taken for dead, but not at once: start afresh.
            Role::Heartbeat if self.planted.is(Mutation::LostHeartbeatForgotten) => {}
            Role::Heartbeat => self.close(Closing::Because(CauseCode::ChildLost(role).into()), now),
            // Nobody knows what of that which was handed over was sent. The same proof beside itself would be one
            // too many on this connection, so all of it is reported again on the next.
            Role::Acknowledger if self.proofs.any_handed() || verdict == Verdict::GiveUp => {
                self.close(Closing::Because(CauseCode::ChildLost(role).into()), now);
            }
            Role::Acknowledger => {}
            Role::HandlerPool if self.planted.is(Mutation::LostPoolForgotten) => {}
            Role::HandlerPool => self.runs_lost(),
        }
        if verdict == Verdict::GiveUp {
            self.fail(EndReason::ChildLost(role), now);
        }
    }

    /// A new shell stands around this machine: whatever the old one did or had is gone.
    pub(super) fn on_shell_lost(&mut self, now: Instant) {
        self.actions.retain(|action| matches!(action, Action::Notify(_)));
        if let Some(report) = self.shutdown.report() {
            let report = report.clone();
            return self.push(Action::Finish(report));
        }
        let verdict = self.count_loss(now);
        if verdict == Verdict::Replace {
            Role::ALL.into_iter().for_each(|role| self.push(Action::Respawn(role)));
        }
        self.connection_lost(Role::Connection, now);
        self.runs_lost();
        if verdict == Verdict::GiveUp {
            self.fail(EndReason::ShellLost, now);
        }
    }

    /// Ends what a child has been silent about for too long.
    pub(super) fn judge_silence(&mut self, now: Instant) {
        if self.silent_at().is_none_or(|at| at > now) {
            return;
        }
        if matches!(self.link, Link::Closing { .. }) {
            self.on_child_lost(Role::Connection, now);
        } else {
            self.close(Closing::Because(CauseCode::Timeout.into()), now);
        }
    }

    /// When a child will have been silent for too long: about a closed connection's end, or an `ack`.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        if self.planted.is(Mutation::SilenceBorne) {
            return None;
        }
        let since = match self.link {
            Link::Closing { since, .. } => since,
            Link::Up { .. } => self.proofs.due_since()?,
            _ => return None,
        };
        since.checked_add(limits::CHILD_SILENCE_MAX)
    }

    fn connection_lost(&mut self, role: Role, now: Instant) {
        if let Link::Dialling { epoch } | Link::Up { epoch, .. } | Link::Closing { epoch, .. } = self.link {
            self.on_ended(epoch, DisconnectCause::new(CauseCode::ChildLost(role)), now);
        }
    }

    fn runs_lost(&mut self) {
        let runs: Vec<RunId> = self.held.runs().map(|(run, _)| run).collect();
        for run in runs {
            self.on_handler_ended(run, HandlerOutcome::Gone);
        }
    }
}
