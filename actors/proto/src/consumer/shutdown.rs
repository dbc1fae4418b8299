//! The end of a run: stop, deadline, what is left over.
//!
//! ```text
//! Open ──stop, max_events, permanent cause, crash budget──▶ Stopping ──drained or deadline──▶ Ended
//! ```
//!
//! In this order: no handler starts any more and what waits is left to the platform; running handlers are
//! told; their results are collected; committed proofs are reported, on a new connection where one is
//! needed; the connection is closed and its reader's end awaited; then comes the report. After a permanent
//! cause or too many crashes no new connection is made: what can't be reported on the one that stands stays
//! unconfirmed.

use std::time::Instant;

use super::Consumer;
use super::action::{Action, RunSignal};
use super::cause::{CauseCode, DisconnectCause};
use super::link::{Closing, Link};
use super::mutation::Mutation;
use super::notice::Notice;
use super::report::{EndReason, FinishReport};

/// How far the run is from its end.
#[derive(Debug, Clone)]
pub(super) enum Shutdown {
    /// Work goes on.
    Open,
    /// It comes to its end, at the deadline at the latest.
    Stopping {
        deadline: Instant,
        end: EndReason,
        // An error forbids new connections; beside a stop it is named only if something was left.
        error: Option<EndReason>,
    },
    /// It is over.
    Ended(FinishReport),
}

impl Shutdown {
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        if let Self::Stopping { deadline, .. } = self { Some(*deadline) } else { None }
    }

    pub(super) const fn report(&self) -> Option<&FinishReport> {
        if let Self::Ended(report) = self { Some(report) } else { None }
    }

    const fn may_dial(&self) -> bool {
        matches!(self, Self::Open | Self::Stopping { error: None, .. })
    }
}

impl Consumer {
    /// Whether a connection is worth making: a stop needs one for its committed proofs alone.
    pub(super) fn wants_connection(&self) -> bool {
        self.shutdown.may_dial() && (self.shutdown.is_open() || !self.proofs.is_drained())
    }

    /// Begins an orderly end, unless one has begun.
    pub(super) fn begin_stop(&mut self, end: EndReason, now: Instant) {
        if !self.shutdown.is_open() {
            return;
        }
        let deadline = now.checked_add(self.config.shutdown_timeout()).unwrap_or(now);
        self.shutdown = Shutdown::Stopping { deadline, end, error: None };
        if !self.planted.is(Mutation::StartsAfterStop) {
            self.held.drop_unstarted();
        }
        if self.planted.is(Mutation::HeartbeatEndsAtStop)
            && let Some(epoch) = self.link.up()
        {
            self.push(Action::StopHeartbeat { epoch });
        }
        if !self.planted.is(Mutation::StopUntold) {
            let signal = RunSignal::Stopping;
            let told: Vec<Action> = self.held.runs().map(|(run, _)| Action::Signal { run, signal }).collect();
            told.into_iter().for_each(|action| self.push(action));
        }
    }

    /// Ends the run because of an error: no new connection from here on.
    pub(super) fn fail(&mut self, reason: EndReason, now: Instant) {
        self.begin_stop(reason.clone(), now);
        if let Shutdown::Stopping { error, .. } = &mut self.shutdown {
            error.get_or_insert(reason);
        }
        match self.link {
            Link::Dialling { .. } => self.close(Closing::Because(DisconnectCause::new(CauseCode::Closed)), now),
            Link::Backoff { .. } => self.link = Link::Down,
            _ => {}
        }
    }

    /// Closes and ends once nothing is left to wait for, or the time is up.
    pub(super) fn finish_if_done(&mut self, now: Instant) {
        let Shutdown::Stopping { deadline, .. } = &self.shutdown else { return };
        if *deadline <= now && !self.planted.is(Mutation::DeadlineIgnored) {
            self.close(Closing::Finished, now);
            return self.finish();
        }
        if !self.is_drained() {
            return;
        }
        match self.link {
            Link::Up { .. } | Link::Dialling { .. } => self.close(Closing::Finished, now),
            Link::Closing { .. } => {}
            Link::Down | Link::Backoff { .. } => self.finish(),
        }
    }

    fn is_drained(&self) -> bool {
        let reportable = self.shutdown.may_dial() || self.link.up().is_some();
        let proofs = self.proofs.is_drained() || self.planted.is(Mutation::StopForgetsProofs);
        self.held.runs().next().is_none() && (proofs || !reportable)
    }

    fn finish(&mut self) {
        let Shutdown::Stopping { end, error, .. } = std::mem::replace(&mut self.shutdown, Shutdown::Open) else {
            return;
        };
        let committed = self.proofs.events().collect();
        let mut running: Vec<_> = self.held.runs().map(|(_, event_id)| event_id).collect();
        if self.planted.is(Mutation::ReportOmitsRunning) {
            running.clear();
        }
        let mut report = FinishReport { end, committed, running };
        if let (Some(error), false) = (error, report.is_clean()) {
            report.end = error;
        }
        self.held.clear();
        self.proofs.clear();
        self.link = Link::Down;
        self.shutdown = Shutdown::Ended(report.clone());
        self.notify(Notice::Stopped);
        self.push(Action::Finish(report));
    }
}
