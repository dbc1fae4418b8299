//! What each input should change.

use std::time::Instant;

use super::shadow::{Link, Offer, Shadow, Stop};
use super::{Check, Judged, holds};
use crate::consumer::{
    AckAnswer, CauseCode, Delivered, DisconnectCause, Epoch, HANDLER_FAILED, HandlerOutcome, Input, Notice, PingAnswer,
    Replay, Role, RunId,
};
use crate::limits;
use crate::scalar::{EventId, Generation};
use crate::wire::ErrorCode;

impl Shadow {
    /// Hears what the machine is about to hear.
    pub(in crate::sim) fn before(&mut self, input: &Input, now: Instant) -> Judged {
        if self.finished {
            return Ok(());
        }
        self.pass(now);
        match input {
            Input::Connected { epoch, heartbeat_interval, .. } if self.link == Link::Dialled(*epoch) => {
                self.link = Link::Up(*epoch);
                self.beat_due = Some((*epoch, *heartbeat_interval));
                self.due_notices.push(Notice::Connected);
            }
            Input::DialFailed { epoch, cause } | Input::Disconnected { epoch, cause } => {
                self.ended(*epoch, cause, now);
            }
            Input::Delivered { epoch, delivery } => self.delivered(*epoch, delivery, now),
            Input::AckAnswered { epoch, event_id, generation, answer } => {
                self.ack_answered(*epoch, *event_id, *generation, answer, now);
            }
            Input::PingAnswered { epoch, answer: PingAnswer::Refused(cause) } if self.epoch() == Some(*epoch) => {
                self.refused(cause, now);
            }
            Input::HandlerEnded { run, outcome } => self.run_ended(*run, *outcome),
            Input::ChildLost(role) => self.child_lost(*role, now),
            Input::ShellLost => self.shell_lost(now),
            Input::Stop => self.stop(now, false),
            _ => {}
        }
        if matches!(self.link, Link::Closing(_)) && self.silent_at().is_some_and(|at| at <= now) {
            self.child_lost(Role::Connection, now);
        }
        let within = self.config.max_events().is_none_or(|max| self.receipts <= max.get());
        holds(Check::MaxEventsKept, within, || format!("{} receipts", self.receipts))
    }

    /// What time alone changes.
    fn pass(&mut self, now: Instant) {
        if self.idle_since.is_some_and(|since| now - since >= limits::IDLE_HEALTHY_AFTER) {
            self.attempts = 0;
        }
        for held in self.held.values_mut() {
            held.successor.take_if(|successor| successor.ends <= now);
        }
    }

    fn ended(&mut self, epoch: Epoch, reported: &DisconnectCause, now: Instant) {
        if self.epoch() != Some(epoch) {
            return;
        }
        let closing = matches!(self.link, Link::Closing(_)) && !reported.is_permanent();
        let asked = if closing { self.closing_asked } else { reported.retry_after };
        self.closing_asked = None;
        self.link = Link::None;
        self.handed = None;
        self.beat_due = None;
        self.attempts += 1;
        self.ended = Some((now, asked));
        if reported.is_permanent() {
            self.stop(now, true);
        }
    }

    fn delivered(&mut self, epoch: Epoch, delivery: &Delivered, now: Instant) {
        if self.link != Link::Up(epoch) || self.stop.is_some() {
            return;
        }
        self.remember(delivery);
        let offer = Offer { proof: delivery.proof.clone(), ends: now + delivery.lease };
        let event_id = delivery.proof.event_id;
        if let Some(held) = self.held.get_mut(&event_id) {
            let newest = held.successor.as_ref().map_or(&held.offer.proof, |successor| &successor.proof);
            if offer.supersedes(&held.offer.proof) && offer.supersedes(newest) {
                held.successor = Some(offer);
            }
        } else if self.offers.get(&event_id).is_none_or(|known| offer.supersedes(&known.proof)) {
            self.offers.insert(event_id, offer);
        }
    }

    fn ack_answered(
        &mut self,
        epoch: Epoch,
        event_id: EventId,
        generation: Generation,
        answer: &AckAnswer,
        now: Instant,
    ) {
        let asked = |shadow: &Self| {
            let front = shadow.queue.front().and_then(|id| shadow.held.get(id));
            front.is_some_and(|held| held.offer.proof.event_id == event_id && held.offer.proof.generation == generation)
        };
        if self.handed.is_none_or(|(on, ..)| on != epoch) || !asked(self) {
            return;
        }
        match answer {
            AckAnswer::Confirmed { replay } => self.confirmed(event_id, generation, *replay, now),
            AckAnswer::Lost => {
                self.settle(event_id, now);
                self.due_notices.push(Notice::ProofLost { event_id, generation });
                self.pass_on(event_id);
            }
            AckAnswer::Refused(cause) if cause.code == CauseCode::Error(ErrorCode::ProofInvalid) => {
                let refused = self.answered(now);
                self.refused.extend(refused);
                self.stop(now, true);
            }
            AckAnswer::Refused(cause) => self.refused(cause, now),
        }
    }

    fn confirmed(&mut self, event_id: EventId, generation: Generation, replayed: Replay, now: Instant) {
        self.settle(event_id, now);
        self.held.remove(&event_id);
        self.receipts += 1;
        self.attempts = 0;
        self.due_notices.push(Notice::Acknowledged { event_id, generation, replayed });
        if self.config.max_events().is_some_and(|max| self.receipts >= max.get()) {
            self.stop(now, false);
        }
    }

    /// The oldest of the proofs handed over has its answer; the next one's is due from here on.
    fn answered(&mut self, now: Instant) -> Option<EventId> {
        self.handed = self.handed.filter(|(_, count, _)| *count > 1).map(|(on, count, _)| (on, count - 1, now));
        self.queue.pop_front()
    }

    fn settle(&mut self, event_id: EventId, now: Instant) {
        self.answered(now);
        if let Some(held) = self.held.get(&event_id) {
            self.settled.insert((held.offer.proof.delivery_id, held.offer.proof.generation));
        }
    }

    fn refused(&mut self, cause: &DisconnectCause, now: Instant) {
        if !matches!(self.link, Link::Closing(_)) {
            self.closing_asked = cause.retry_after;
        }
        if cause.is_permanent() {
            self.stop(now, true);
        }
    }

    /// The event is gone; its successor's turn has come.
    fn pass_on(&mut self, event_id: EventId) {
        let successor = self.held.remove(&event_id).and_then(|held| held.successor);
        if let (Some(successor), None) = (successor, &self.stop) {
            self.due_starts.insert(event_id, successor);
        }
    }

    fn run_ended(&mut self, run: RunId, outcome: HandlerOutcome) {
        let Some(event_id) = self.runs.remove(&run) else { return };
        let Some(held) = self.held.get_mut(&event_id) else { return };
        if outcome == HandlerOutcome::Ok {
            held.run = None;
            self.queue.push_back(event_id);
        } else {
            let generation = held.offer.proof.generation;
            self.due_notices.push(Notice::HandlerFailed { event_id, generation, code: HANDLER_FAILED });
            self.pass_on(event_id);
        }
    }

    fn runs_lost(&mut self) {
        for run in self.runs.keys().copied().collect::<Vec<_>>() {
            self.run_ended(run, HandlerOutcome::Gone);
        }
    }

    /// Whether the budget bears one more crash.
    fn bears_crash(&mut self, now: Instant) -> bool {
        self.losses.retain(|lost| now - *lost < limits::CHILD_LOSSES_WINDOW);
        let bears = self.losses.len() < limits::CHILD_LOSSES_MAX;
        if bears {
            self.losses.push(now);
        }
        bears
    }

    fn child_lost(&mut self, role: Role, now: Instant) {
        let bears = self.bears_crash(now);
        if bears {
            self.due_respawns.insert(role);
        }
        match role {
            Role::Connection => self.connection_lost(now),
            // Nothing beats any more: the connection must be closed by whoever hears of it.
            Role::Heartbeat => self.beating = None,
            Role::Acknowledger => {}
            Role::HandlerPool => self.runs_lost(),
        }
        if !bears {
            self.stop(now, true);
        }
    }

    fn shell_lost(&mut self, now: Instant) {
        let bears = self.bears_crash(now);
        if bears {
            self.due_respawns.extend(Role::ALL);
        }
        self.beating = None;
        self.connection_lost(now);
        self.runs_lost();
        if !bears {
            self.stop(now, true);
        }
    }

    fn connection_lost(&mut self, now: Instant) {
        if let Some(epoch) = self.epoch() {
            self.ended(epoch, &CauseCode::ChildLost(Role::Connection).into(), now);
        }
    }

    pub(super) fn stop(&mut self, now: Instant, by_error: bool) {
        self.error |= by_error;
        if self.stop.is_some() {
            return;
        }
        self.stop = Some(Stop { deadline: now + self.config.shutdown_timeout(), by_error });
        self.offers.clear();
        self.due_starts.clear();
        for held in self.held.values_mut() {
            held.successor = None;
        }
        self.due_signals.extend(self.runs.keys());
    }
}
