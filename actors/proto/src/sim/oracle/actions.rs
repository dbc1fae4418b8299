//! Which action is right when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shadow::{Holding, Link, Shadow};
use super::{Check, Judged, holds};
use crate::backoff::Backoff;
use crate::consumer::{Action, EndReason, Epoch, FinishReport, Notice, RunId, RunSignal};
use crate::event::ResultEvent;
use crate::limits;
use crate::proof::EventProof;
use crate::scalar::Generation;

/// Waits of the whole interval in a row that are no accident: a draw hits its upper bound once in 10^7.
const WHOLE_WAITS_MAX: u32 = 2;

impl Shadow {
    /// Judges an action of the machine, and follows it.
    pub(in crate::sim) fn on_action(&mut self, action: &Action, now: Instant) -> Judged {
        match action {
            Action::Dial { epoch, .. } => self.on_dial(*epoch, now),
            Action::Close { epoch } => self.on_close(*epoch, now),
            Action::StartHeartbeat { epoch, interval } => {
                let due = self.beat_due.take();
                self.beating = Some(*epoch);
                holds(Check::HeartbeatRuns, due == Some((*epoch, *interval)), || format!("{interval:?}, not {due:?}"))
            }
            Action::StopHeartbeat { .. } => {
                self.beating = None;
                Ok(())
            }
            Action::Ack { epoch, proof } => self.on_ack(*epoch, proof, now),
            Action::Start { run, event, generation, lease_ends } => {
                self.on_start(*run, event, *generation, *lease_ends, now)
            }
            Action::Signal { run, signal } => self.on_signal(*run, *signal, now),
            Action::Respawn(role) => {
                let due = self.due_respawns.remove(role);
                holds(Check::CrashesAreBorne, due, || format!("{role} replaced beyond the budget"))
            }
            Action::Notify(notice) => self.on_notice(notice),
            Action::Finish(report) => self.on_finish(report, now),
        }
    }

    fn on_dial(&mut self, epoch: Epoch, now: Instant) -> Judged {
        holds(Check::OldReaderEnded, self.link == Link::None, || format!("{epoch} beside {:?}", self.link))?;
        holds(Check::NoDialAfterPermanent, !self.error, || format!("{epoch}"))?;
        let needed = self.stop.is_none() || !self.queue.is_empty();
        holds(Check::DialsForProofsOnly, needed, || format!("{epoch}"))?;
        self.judge_wait(now)?;
        (self.link, self.last_epoch) = (Link::Dialled(epoch), epoch);
        Ok(())
    }

    fn judge_wait(&mut self, now: Instant) -> Judged {
        let Some((ended, asked)) = self.ended else { return Ok(()) };
        let backoff = Backoff::new(self.config.reconnect_min_delay(), self.config.reconnect_max_delay());
        let drawn = backoff.range(self.attempts);
        let asked = asked.unwrap_or(Duration::ZERO).min(limits::RETRY_AFTER_HONOURED_MAX);
        let range = *drawn.start().max(&asked)..=*drawn.end().max(&asked) + self.lateness;
        let waited = now - ended;
        // A stop dials when it has a proof to report, not before.
        let fits = range.contains(&waited) || (self.stop.is_some() && waited >= *range.start());
        holds(Check::WaitWithinBounds, fits, || format!("{waited:?}, not {range:?}, attempt {}", self.attempts))?;
        self.whole_waits = if waited == *drawn.end() { self.whole_waits + 1 } else { 0 };
        holds(Check::WaitsAreSpread, self.whole_waits < WHOLE_WAITS_MAX, || format!("{waited:?} again"))
    }

    fn on_close(&mut self, epoch: Epoch, now: Instant) -> Judged {
        let open = self.link == Link::Up(epoch) || self.link == Link::Dialled(epoch);
        self.link = Link::Closing(epoch);
        self.closing_since = Some(now);
        holds(Check::OldReaderEnded, open, || format!("{epoch} is not open"))
    }

    fn on_ack(&mut self, epoch: Epoch, proof: &EventProof, now: Instant) -> Judged {
        let key = (proof.delivery_id, proof.generation);
        holds(Check::SettledIsNotReported, !self.settled.contains(&key), || format!("{proof:?}"))?;
        let held = self.held.get(&proof.event_id).filter(|held| held.run.is_none());
        let Some(held) = held else { return holds(Check::AckFollowsCommit, false, || format!("{proof:?}")) };
        holds(Check::ProofsAreOwn, held.offer.proof == *proof, || format!("{proof:?}, not {:?}", held.offer.proof))?;
        let (count, since) = match self.handed {
            Some((on, count, since)) if on == epoch => (count, since),
            _ => (0, now),
        };
        let oldest = self.queue.get(count).copied();
        holds(Check::OldestProofFirst, oldest == Some(proof.event_id), || format!("{proof:?}, not {oldest:?}"))?;
        holds(Check::AcksOnOpenSession, self.link == Link::Up(epoch), || format!("{epoch}, not {:?}", self.link))?;
        self.handed = Some((epoch, count + 1, since));
        Ok(())
    }

    fn on_start(
        &mut self,
        run: RunId,
        event: &Arc<ResultEvent>,
        generation: Generation,
        lease_ends: Instant,
        now: Instant,
    ) -> Judged {
        let event_id = event.event_id;
        let seen = || format!("{event_id} generation {generation}");
        holds(Check::StopStartsNothing, self.stop.is_none(), seen)?;
        holds(Check::NoSecondHandler, !self.held.contains_key(&event_id), seen)?;
        let offer = match self.due_starts.remove(&event_id) {
            Some(successor) => {
                holds(Check::SuccessorsTurn, successor.proof.generation == generation, seen)?;
                successor
            }
            None => {
                let offer = self.offers.remove(&event_id).filter(|offer| offer.proof.generation == generation);
                let Some(offer) = offer else { return holds(Check::StartsWhatWasDelivered, false, seen) };
                offer
            }
        };
        let first = self.started.insert((offer.proof.delivery_id, generation));
        holds(Check::GenerationHandledOnce, first, seen)?;
        holds(Check::LapsedNeverStarts, offer.ends > now && offer.ends == lease_ends, seen)?;
        self.runs.insert(run, event_id);
        self.held.insert(event_id, Holding { offer, run: Some(run), told: false, successor: None });
        let taken = self.held.len() + self.due_starts.len();
        holds(Check::HeldWithinCapacity, taken <= self.capacity(), seen)?;
        let most = self.config.max_events().map_or(u64::MAX, std::num::NonZeroU64::get);
        holds(Check::MaxEventsKept, self.receipts + taken as u64 <= most, seen)
    }

    fn on_signal(&mut self, run: RunId, signal: RunSignal, now: Instant) -> Judged {
        let held = self.runs.get(&run).and_then(|event_id| self.held.get_mut(event_id));
        match (signal, held) {
            (RunSignal::LeaseLapsed, Some(held)) => {
                let first = !held.told && held.offer.ends <= now;
                held.told = true;
                holds(Check::LapseIsTold, first, || format!("{run}"))
            }
            (RunSignal::LeaseLapsed, None) => holds(Check::LapseIsTold, false, || format!("{run} does not run")),
            (RunSignal::Stopping, _) => {
                let due = self.due_signals.remove(&run);
                holds(Check::StopIsTold, due, || format!("{run}"))
            }
        }
    }

    fn on_notice(&mut self, notice: &Notice) -> Judged {
        if matches!(notice, Notice::LeaseLapsed { .. } | Notice::Disconnected { .. } | Notice::Stopped) {
            return Ok(());
        }
        let due = self.due_notices.iter().position(|due| due == notice);
        if let Some(at) = due {
            self.due_notices.remove(at);
        }
        holds(Check::NoticesAreTrue, due.is_some(), || format!("{notice:?} of nothing"))
    }

    fn on_finish(&mut self, report: &FinishReport, now: Instant) -> Judged {
        self.finished = true;
        let committed: Vec<_> = self.queue.iter().chain(&self.refused).copied().collect();
        let running: Vec<_> = self.runs.values().copied().collect();
        let true_lists = report.committed == committed && report.running == running;
        holds(Check::ReportIsTrue, true_lists, || format!("{report:?}, not {committed:?} and {running:?}"))?;
        let Some(stop) = self.stop else {
            return holds(Check::EndsOnlyWhenDone, false, || "nobody asked for it".to_owned());
        };
        let by_error = self.error && (stop.by_error || !report.is_clean());
        let stopped = matches!(report.end, EndReason::Stopped | EndReason::MaxEvents);
        holds(Check::ReportIsTrue, stopped != by_error, || format!("{:?}", report.end))?;
        if now < stop.deadline {
            let done = running.is_empty() && (self.queue.is_empty() || self.error) && self.link == Link::None;
            holds(Check::EndsOnlyWhenDone, done, || format!("{:?}, {committed:?}, {running:?}", self.link))?;
        }
        Ok(())
    }
}
