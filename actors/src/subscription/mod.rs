//! `Subscription`: the machine's shell. Every message is an input; `drive` carries the actions out.
//!
//! ```text
//!                      Supervisor
//!                          │ Drain            ▲ Exited
//!                          ▼                  │
//!        ┌──────────── Subscription ──────────┴─────┐        the hub of a star: children know
//!        ▼             ▼          ▼                 ▼        nobody but it, and it alone turns
//!    Connection    Heartbeat   Acknowledger    HandlerPool   an action into a message
//! ```
//!
//! Proofs and their answers alone go from child to child: the hub attaches the acknowledger to the connection.
//!
//! No rule lives here: which event may start, which proof goes next, how long to wait and when to stop are the
//! machine's. `children` makes the four, `act` performs actions, `gathered` joins them, this file hears.

mod act;
mod children;
mod gathered;

use std::sync::Arc;

use actix::prelude::*;
use perilune_client::TurnAnswered;
use perilune_proto::consumer::{Input, LinkState};

use crate::acknowledger::AcksAnswered;
use crate::clock::now;
use crate::connection::{Connected, ConnectionEnded, DeliveriesArrived, Phase};
use crate::custody::{ChildExited, Custody};
use crate::error::Source;
use crate::handler_pool::{Collect, HandlersEnded, Pace, Receipt, Settle};
use crate::heartbeat::PingAnswered;
use crate::spec::Spec;
use crate::telemetry::Telemetry;
use crate::timer::Timer;
use children::Children;
use gathered::Gathered;

/// Runs one subscription: owns the machine and the four actors that act for it.
pub(crate) struct Subscription {
    spec: Arc<Spec>,
    custody: Custody,
    /// They end with this actor. Made when it starts.
    children: Option<Children>,
    timer: Timer,
    gathered: Gathered,
    telemetry: Telemetry,
    /// The client's error behind the last end of a connection, for the run's.
    source: Option<Source>,
    /// What the pool was told last.
    pace: Pace,
    /// Set by the machine's last action: only the `settled` callback is still waited for.
    finishing: bool,
}

impl Subscription {
    pub(crate) fn new(spec: Arc<Spec>, custody: Custody) -> Self {
        let telemetry = Telemetry::new(spec.config.subscription_id());
        Self {
            spec,
            custody,
            children: None,
            timer: Timer::default(),
            gathered: Gathered::default(),
            telemetry,
            source: None,
            pace: Pace::Hurried,
            finishing: false,
        }
    }

    fn children(&mut self, ctx: &mut Context<Self>) -> &mut Children {
        let spec = &self.spec;
        self.children.get_or_insert_with(|| Children::spawn(spec, ctx))
    }

    /// Hears one input and does what follows from it.
    fn hear(&mut self, input: Input, ctx: &mut Context<Self>) {
        self.custody.hear(input);
        self.drive(ctx);
    }

    /// Carries every action out, shows the figures, arms the timer. The only place with effects.
    fn drive(&mut self, ctx: &mut Context<Self>) {
        while let Some(action) = self.custody.with(|machine| machine.poll_action()) {
            self.perform(action, ctx);
        }
        self.send_gathered(ctx);
        if let Some(dropped) = self.gathered.take_dropped() {
            // Only counted: nothing follows from it but what time alone brings.
            return self.hear(Input::NoticesDropped(dropped.get()), ctx);
        }
        let before = self.pace;
        self.show();
        if (before == Pace::Hurried) != (self.pace == Pace::Hurried) {
            self.collect(ctx);
        }
        let deadline = self.custody.with(|machine| machine.poll_timeout()).map(|(deadline, _)| deadline);
        self.timer.arm(deadline, ctx, |actor, ctx| {
            actor.timer.fired();
            actor.hear(Input::TimedOut, ctx);
        });
    }

    /// Takes along what has ended, and tells the pool how much the wire has to do.
    fn collect(&mut self, ctx: &mut Context<Self>) {
        let pace = self.pace;
        self.children(ctx).pool.do_send(Collect { pace });
    }

    fn show(&mut self) {
        let Some((stats, link)) = self.custody.with(|machine| Some((*machine.stats(), machine.link_state()))) else {
            return;
        };
        self.telemetry.show(&stats);
        self.pace = match link {
            LinkState::Up(_) if stats.committed > 0 => {
                Pace::Busy(usize::try_from(stats.committed).unwrap_or(usize::MAX))
            }
            _ => Pace::Hurried,
        };
        self.spec.run.show(|seen| seen.update(stats, link));
    }
}

impl Actor for Subscription {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.children(ctx);
        // A new machine has its first actions ready; an inherited one has heard of its loss.
        self.drive(ctx);
    }
}

/// To [`Subscription`], from its supervisor: stop in an orderly way. Answered by the run's end alone.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Drain;

impl Handler<Drain> for Subscription {
    type Result = ();

    fn handle(&mut self, _message: Drain, ctx: &mut Context<Self>) {
        self.spec.run.show(|seen| seen.stopping = true);
        self.hear(Input::Stop, ctx);
    }
}

impl Handler<Connected> for Subscription {
    type Result = ();

    fn handle(&mut self, message: Connected, ctx: &mut Context<Self>) {
        let Connected { epoch, heartbeat_interval_ms, enabled } = message;
        self.children(ctx).attach(epoch);
        let heartbeat_interval = std::time::Duration::from_millis(heartbeat_interval_ms.into());
        self.hear(Input::Connected { epoch, heartbeat_interval, enabled }, ctx);
    }
}

impl Handler<DeliveriesArrived> for Subscription {
    type Result = ();

    fn handle(&mut self, message: DeliveriesArrived, ctx: &mut Context<Self>) {
        let now = now();
        for delivery in message.deliveries {
            self.custody.hear_at(Input::Delivered { epoch: message.epoch, delivery }, now);
        }
        self.drive(ctx);
    }
}

impl Handler<ConnectionEnded> for Subscription {
    type Result = ();

    fn handle(&mut self, message: ConnectionEnded, ctx: &mut Context<Self>) {
        let ConnectionEnded { epoch, phase, cause, source } = message;
        self.source = source;
        self.children(ctx).detach(epoch);
        let input = match phase {
            Phase::Dialling => Input::DialFailed { epoch, cause },
            Phase::Open => Input::Disconnected { epoch, cause },
        };
        self.hear(input, ctx);
    }
}

impl Handler<PingAnswered> for Subscription {
    type Result = ();

    fn handle(&mut self, message: PingAnswered, ctx: &mut Context<Self>) {
        self.hear(Input::PingAnswered { epoch: message.epoch, answer: message.answer }, ctx);
    }
}

impl Handler<AcksAnswered> for Subscription {
    type Result = ();

    fn handle(&mut self, message: AcksAnswered, ctx: &mut Context<Self>) {
        let (epoch, now) = (message.epoch, now());
        for TurnAnswered { event_id, generation, answer, took } in message.answers {
            self.telemetry.answered(event_id, &answer, took, now);
            self.custody.hear_at(Input::AckAnswered { epoch, event_id, generation, answer }, now);
        }
        self.drive(ctx);
        self.collect(ctx);
    }
}

impl Handler<HandlersEnded> for Subscription {
    type Result = ();

    fn handle(&mut self, message: HandlersEnded, ctx: &mut Context<Self>) {
        let now = now();
        for ended in message.0 {
            self.telemetry.ended(&ended);
            self.custody.hear_at(Input::HandlerEnded { run: ended.run, outcome: ended.outcome }, now);
        }
        self.drive(ctx);
    }
}

impl Handler<ChildExited> for Subscription {
    type Result = ();

    fn handle(&mut self, message: ChildExited, ctx: &mut Context<Self>) {
        let ChildExited { role, life, exit } = message;
        if self.finishing || !self.children(ctx).lost(role, life) {
            return;
        }
        tracing::error!(
            subscription_id = %self.spec.config.subscription_id(),
            actor = role.as_str(),
            exit = ?exit,
            "perilune.actor_lost"
        );
        self.telemetry.crashed(role);
        self.hear(Input::ChildLost(role), ctx);
    }
}

impl Subscription {
    /// Tells the `settled` callback, if there is one.
    fn settle(&mut self, receipt: Receipt, ctx: &mut Context<Self>) {
        if self.spec.handlers.settled.is_some() {
            self.children(ctx).pool.do_send(Settle(receipt));
        }
    }
}

#[cfg(test)]
impl Subscription {
    pub(crate) fn crash_child(
        &mut self,
        role: perilune_proto::consumer::Role,
        crash: crate::crash::Crash,
        ctx: &mut Context<Self>,
    ) {
        self.children(ctx).crash(role, crash);
    }

    pub(crate) fn crash_machine(&mut self) {
        self.custody.interrupt();
    }
}
