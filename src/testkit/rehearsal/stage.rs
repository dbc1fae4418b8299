//! Carries out what the consumer's machine wants done, in memory.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use perilune_actors::{CancelReason, Cancellation, EventContext, EventHandler};
use perilune_proto::ResultEvent;
use perilune_proto::consumer::{
    Action, CauseCode, Consumer, ConsumerConfig, Delivered, DisconnectCause, Epoch, FinishReport, HandlerOutcome,
    Input, RunId, RunSignal,
};
use perilune_proto::limits::{CONTROL_REQUEST_TIMEOUT, HANDSHAKE_TIMEOUT};
use perilune_proto::scalar::{Generation, MessageId};
use perilune_proto::session::ClientSession;
use perilune_proto::session::client::{Breach, Effect};
use perilune_proto::wire::{Register, decode_server, encode_client};

use super::wire::{Arrival, LATENCY, Wire};
use crate::testkit::assertion::unconfirmed;
use crate::testkit::journal::Journal;
use crate::testkit::rules::{Rules, SUBSCRIPTION};
use crate::testkit::script::DialFault;
use crate::testkit::socket::until;
use crate::testkit::watched::Watched;

/// The present moment by the runtime's clock.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Everything there is.
pub(super) struct Stage<H> {
    rules: Rules,
    journal: Journal,
    machine: Consumer,
    handler: Rc<Watched<H>>,
    wire: Option<Wire>,
    /// A dial that will fail: which, when and why.
    failing: Option<(Epoch, Instant, DisconnectCause)>,
    runs: FuturesUnordered<LocalBoxFuture<'static, (RunId, HandlerOutcome)>>,
    tokens: BTreeMap<RunId, Cancellation>,
    report: Option<FinishReport>,
    stopping: bool,
    last_id: u128,
}

impl<H: EventHandler> Stage<H> {
    pub(super) fn new(
        rules: Rules,
        journal: Journal,
        config: ConsumerConfig,
        handler: Watched<H>,
        now: Instant,
    ) -> Self {
        Self {
            rules,
            journal,
            machine: Consumer::new(config, 0, now),
            handler: Rc::new(handler),
            wire: None,
            failing: None,
            runs: FuturesUnordered::new(),
            tokens: BTreeMap::new(),
            report: None,
            stopping: false,
            last_id: 0,
        }
    }

    /// Plays until the consumer has finished.
    pub(super) async fn play(mut self, limit: Instant) -> FinishReport {
        loop {
            let now = now();
            self.settle(now);
            if let Some(report) = self.report.take() {
                return report;
            }
            if !self.stopping && (now >= limit || unconfirmed(&self.journal.records()).is_empty()) {
                self.stopping = true;
                self.machine.handle(Input::Stop, now);
                continue;
            }
            let due = self.next_due().into_iter().chain((!self.stopping).then_some(limit)).min();
            tokio::select! {
                Some((run, outcome)) = self.runs.next(), if !self.runs.is_empty() => {
                    self.tokens.remove(&run);
                    self.machine.handle(Input::HandlerEnded { run, outcome }, self::now());
                }
                () = until(due) => self.time_out(self::now()),
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let machine = self.machine.poll_timeout().map(|(due, _)| due);
        let failing = self.failing.as_ref().map(|(_, due, _)| *due);
        let wire = self.wire.as_ref().and_then(Wire::next_due);
        machine.into_iter().chain(failing).chain(wire).chain(self.rules.poll_timeout()).min()
    }

    fn time_out(&mut self, now: Instant) {
        self.machine.handle(Input::TimedOut, now);
        self.rules.timed_out(now);
        if let Some((epoch, _, cause)) = self.failing.take_if(|(_, due, _)| *due <= now) {
            self.machine.handle(Input::DialFailed { epoch, cause }, now);
        }
        let message_id = self.next_message();
        if let Some(wire) = &mut self.wire {
            wire.client.timed_out(now);
            if let Some((interval, due)) = wire.beat
                && due <= now
            {
                wire.beat = Some((interval, due + interval));
                // One ping at a time: an unanswered one ends the session before the next is due.
                let _ = wire.client.ping(message_id, now);
            }
        }
    }

    /// Lets follow what follows at once.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(action) = self.machine.poll_action() {
                self.perform(action, now);
            } else if let Some(effect) = self.wire.as_mut().and_then(|wire| wire.client.poll_effect()) {
                self.carry_out(effect, now);
            } else if let Some((id, output)) = self.rules.poll_output() {
                if let Some(wire) = self.wire.as_mut().filter(|wire| wire.id == id) {
                    wire.take(output, now);
                }
            } else if let Some((id, text)) = self.wire.as_mut().and_then(|wire| Some((wire.id, wire.heard(now)?))) {
                self.rules.text(id, &text, now);
            } else if let Some(arrival) = self.wire.as_mut().and_then(|wire| wire.arrived(now)) {
                self.arrive(arrival);
            } else {
                return;
            }
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let Some(wire) = &mut self.wire else { return };
        match arrival {
            Arrival::Text(text) => match decode_server(&text) {
                Ok(frame) => wire.client.receive(frame),
                Err(error) => wire.client.breached(Breach::from(error)),
            },
            Arrival::Closed(code) => wire.client.peer_closed(code),
        }
    }

    fn perform(&mut self, action: Action, now: Instant) {
        match action {
            Action::Dial { epoch, capacity } => self.dial(epoch, capacity, now),
            Action::Close { epoch } => self.end(epoch, CauseCode::Closed.into(), now),
            Action::StartHeartbeat { interval, .. } => {
                self.on_wire(|wire| wire.beat = Some((interval, now + interval)))
            }
            Action::StopHeartbeat { .. } => self.on_wire(|wire| wire.beat = None),
            Action::Ack { proof, .. } => {
                let message_id = self.next_message();
                self.on_wire(|wire| {
                    wire.proofs.push(proof);
                    wire.report_next(message_id, now);
                });
            }
            Action::Start { run, event, generation, lease_ends } => self.start(run, event, generation, lease_ends, now),
            Action::Signal { run, signal } => {
                if let Some(token) = self.tokens.get(&run) {
                    token.cancel(match signal {
                        RunSignal::Stopping => CancelReason::Stopping,
                        RunSignal::LeaseLapsed => CancelReason::LeaseLapsed,
                    });
                }
            }
            Action::Finish(report) => self.report = Some(report),
            // There are no children to replace, and nobody listens to notices.
            _ => {}
        }
    }

    fn on_wire(&mut self, act: impl FnOnce(&mut Wire)) {
        if let Some(wire) = &mut self.wire {
            act(wire);
        }
    }

    fn dial(&mut self, epoch: Epoch, capacity: u8, now: Instant) {
        let (id, fault) = self.rules.dialled();
        let budget = match fault {
            Some(DialFault::Refuse(status)) => {
                self.failing = Some((epoch, now + LATENCY, CauseCode::Http { status, code: None }.into()));
                return;
            }
            Some(DialFault::Hang) => {
                self.failing = Some((epoch, now + HANDSHAKE_TIMEOUT, CauseCode::Timeout.into()));
                return;
            }
            Some(DialFault::CutAfter(bytes)) => Some(bytes),
            None => None,
        };
        self.rules.upgraded(id, now);
        let register = Register { message_id: self.next_message(), subscription_id: SUBSCRIPTION, capacity };
        let client = ClientSession::open(register, now + HANDSHAKE_TIMEOUT, CONTROL_REQUEST_TIMEOUT);
        self.wire = Some(Wire::new(epoch, id, client, budget));
    }

    /// The connection, or the dial, is over.
    fn end(&mut self, epoch: Epoch, cause: DisconnectCause, now: Instant) {
        if self.failing.take_if(|(failing, ..)| *failing == epoch).is_some() {
            return self.machine.handle(Input::DialFailed { epoch, cause }, now);
        }
        let Some(wire) = self.wire.take_if(|wire| wire.epoch == epoch) else { return };
        self.rules.gone(wire.id);
        let input =
            if wire.welcomed { Input::Disconnected { epoch, cause } } else { Input::DialFailed { epoch, cause } };
        self.machine.handle(input, now);
    }

    fn carry_out(&mut self, effect: Effect, now: Instant) {
        let Some(wire) = &mut self.wire else { return };
        let epoch = wire.epoch;
        match effect {
            Effect::Send(frame) => wire.send(encode_client(&frame), now),
            Effect::Welcomed(welcome) => {
                wire.welcomed = true;
                let heartbeat_interval = std::time::Duration::from_millis(welcome.heartbeat_interval_ms.into());
                let enabled = welcome.enabled.into();
                self.machine.handle(Input::Connected { epoch, heartbeat_interval, enabled }, now);
            }
            Effect::Deliver(delivery) => {
                wire.client.delivery_read();
                let lease = std::time::Duration::from_millis(delivery.lease_ms.into());
                let delivery = Delivered { proof: delivery.proof, event: delivery.event, lease };
                self.machine.handle(Input::Delivered { epoch, delivery }, now);
            }
            Effect::Answered(message_id, answer) => {
                let is_ack = wire.ack.take_if(|ack| *ack == message_id).is_some();
                let acked = is_ack.then(|| wire.proofs.answered(&answer.clone().into())).flatten();
                let message_id = self.next_message();
                self.on_wire(|wire| wire.report_next(message_id, now));
                self.machine.handle(Input::answered(epoch, acked, answer), now);
            }
            Effect::End(cause) => self.end(epoch, cause.into(), now),
        }
    }

    fn start(
        &mut self,
        run: RunId,
        event: Arc<ResultEvent>,
        generation: Generation,
        lease_ends: Instant,
        now: Instant,
    ) {
        let context = EventContext::new(SUBSCRIPTION, generation, lease_ends.saturating_duration_since(now));
        self.tokens.insert(run, context.cancellation().clone());
        let handler = Rc::clone(&self.handler);
        // The call itself is the user's code, too.
        let called = async move { handler.handle(event, context).await };
        let ended = AssertUnwindSafe(called).catch_unwind().map(move |ended| {
            let outcome = match ended {
                Ok(Ok(())) => HandlerOutcome::Ok,
                Ok(Err(_)) => HandlerOutcome::Error,
                Err(_) => HandlerOutcome::Panicked,
            };
            (run, outcome)
        });
        self.runs.push(ended.boxed_local());
    }

    const fn next_message(&mut self) -> MessageId {
        self.last_id += 1;
        MessageId::from_u128(self.last_id)
    }
}
