//! The consumer: one pure state machine. Inputs and `now` in, actions out.
//!
//! ```text
//!                 ┌──────────┐
//!  Input, now ──▶ │ Consumer │ ──▶ Action        what to carry out, in order
//!                 └──────────┘ ──▶ poll_timeout  when to come back at the latest
//! ```
//!
//! Its shell is the actor `Subscription`, which passes every message on as an input, carries each action
//! out by one of its children, and arms one timer. The simulator is another shell around the same machine.
//!
//! | file | rules |
//! | --- | --- |
//! | `held`, `held_event` | one event's life, slots, successors, lapsed leases |
//! | `lapses` | when the next lease lapses |
//! | `proofs` | which proof goes next |
//! | `ack_queue` | one in flight on a connection |
//! | `link` | what the connection says |
//! | `heard` | a session's answers and its end as inputs |
//! | `reconnect` | attempts, waits, what counts as healthy |
//! | `children` | crashed children and their budget |
//! | `shutdown` | stop, deadline, what is left over |
//!
//! Source: consumer.md sections 2 to 6 and settled.md.

mod ack_queue;
mod action;
mod cause;
mod children;
mod config;
mod heard;
mod held;
mod held_event;
mod lapses;
mod link;
mod mutation;
mod notice;
#[cfg(feature = "sim")]
mod outline;
mod proofs;
mod reconnect;
mod report;
mod shutdown;
mod stats;

use std::collections::VecDeque;
use std::time::Instant;

use crate::limits;
use crate::proof::EventProof;

pub use ack_queue::AckQueue;
pub use action::{
    AckAnswer, Action, Delivered, Enabled, Epoch, HandlerOutcome, Input, PingAnswer, Reason, Replay, Role, RunId,
    RunSignal,
};
pub use cause::{CauseCode, CauseKind, DisconnectCause};
pub use config::{ConfigError, ConsumerConfig, Options};
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use mutation::Mutation;
pub use notice::{HANDLER_FAILED, Notice};
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use outline::{HeldOutline, Outline};
pub use report::{EndReason, FinishReport};
pub use stats::Stats;

use children::Losses;
use held::{HeldEvents, Lapsed};
use link::Link;
#[cfg(not(feature = "sim"))]
use mutation::Mutation;
use mutation::Planted;
use proofs::Proofs;
use reconnect::{Idleness, Reconnect};
use shutdown::Shutdown;

/// Where the connection stands, for health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// There is none.
    Down,
    /// Its handshake is under way.
    Dialling,
    /// A session is open; the subscription was enabled or paused when it last said so.
    Up(Enabled),
    /// It was told to close.
    Closing,
}

/// The consumer's decisions: which event may start, which proof goes next, how long to wait, when to stop.
///
/// Plain data: it can be sent to another thread, and printing it shows no secret and no payload.
#[derive(Debug)]
#[cfg_attr(feature = "sim", derive(Clone))]
pub struct Consumer {
    config: ConsumerConfig,
    // The last connection dialled; 0 before the first.
    epoch: Epoch,
    link: Link,
    reconnect: Reconnect,
    held: HeldEvents,
    proofs: Proofs,
    losses: Losses,
    shutdown: Shutdown,
    stats: Stats,
    connected_before: bool,
    actions: VecDeque<Action>,
    planted: Planted,
}

impl Consumer {
    /// A consumer that starts: its first action is to dial, at once.
    ///
    /// `seed` spreads the waits of a fleet; it should differ from process to process.
    #[must_use]
    pub fn new(config: ConsumerConfig, seed: u64, now: Instant) -> Self {
        Self::start(config, seed, now, Planted::default())
    }

    /// As [`Self::new`], with a bug in it.
    #[cfg(feature = "sim")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_bug(config: ConsumerConfig, seed: u64, now: Instant, bug: Option<Mutation>) -> Self {
        Self::start(config, seed, now, Planted::new(bug))
    }

    fn start(config: ConsumerConfig, seed: u64, now: Instant, planted: Planted) -> Self {
        let mut consumer = Self::idle(config, seed, now, planted);
        consumer.advance(now);
        consumer
    }

    /// A consumer that goes on with the proofs of one whose machine could not be saved
    /// ([`Self::into_proofs`]). Its first dial waits as after a loss. Proofs beyond the capacity or of
    /// another subscription are not taken.
    #[must_use]
    pub fn resume(config: ConsumerConfig, seed: u64, now: Instant, proofs: Vec<EventProof>) -> Self {
        let mut consumer = Self::idle(config, seed, now, Planted::default());
        let (subscription_id, capacity) = (consumer.config.subscription_id(), consumer.config.capacity());
        let own = proofs.into_iter().filter(|proof| proof.subscription_id == subscription_id);
        for proof in own.take(usize::from(capacity)) {
            consumer.held.adopt(proof.clone());
            consumer.proofs.commit(proof);
        }
        let wait = consumer.reconnect.next_wait(None);
        consumer.link = Link::Backoff { until: now.checked_add(wait).unwrap_or(now) };
        consumer.advance(now);
        consumer
    }

    fn idle(config: ConsumerConfig, seed: u64, now: Instant, planted: Planted) -> Self {
        Self {
            epoch: Epoch(0),
            link: Link::Backoff { until: now },
            reconnect: Reconnect::new(&config, seed, planted),
            held: HeldEvents::new(config.capacity(), planted),
            proofs: Proofs::new(planted),
            losses: Losses::default(),
            shutdown: Shutdown::Open,
            stats: Stats::default(),
            connected_before: false,
            actions: VecDeque::new(),
            config,
            planted,
        }
    }

    /// Hears an input. Total: any input in any state; one that makes no sense there is counted.
    pub fn handle(&mut self, input: Input, now: Instant) {
        self.reconnect.pass(now);
        if let Input::NoticesDropped(count) = input {
            self.stats.dropped_notices = self.stats.dropped_notices.saturating_add(count);
        } else if let Input::ShellLost = input {
            self.on_shell_lost(now);
        } else if self.shutdown.report().is_none() {
            self.hear(input, now);
        }
        self.advance(now);
    }

    fn hear(&mut self, input: Input, now: Instant) {
        match input {
            Input::Connected { epoch, heartbeat_interval, enabled } => {
                self.on_connected(epoch, heartbeat_interval, enabled);
            }
            Input::DialFailed { epoch, cause } | Input::Disconnected { epoch, cause } => {
                self.on_ended(epoch, cause, now);
            }
            Input::Delivered { epoch, delivery } => self.on_delivered(epoch, delivery, now),
            Input::AckAnswered { epoch, event_id, generation, answer } => {
                self.on_ack_answered(epoch, (event_id, generation), answer, now);
            }
            Input::PingAnswered { epoch, answer } => self.on_ping_answered(epoch, answer, now),
            Input::HandlerEnded { run, outcome } => self.on_handler_ended(run, outcome),
            Input::ChildLost(role) => self.on_child_lost(role, now),
            Input::Stop => self.begin_stop(EndReason::Stopped, now),
            Input::TimedOut => {}
            // Heard by `handle`, whatever the state.
            Input::ShellLost | Input::NoticesDropped(_) => {}
        }
    }

    /// Does whatever has become possible or due.
    fn advance(&mut self, now: Instant) {
        self.judge_silence(now);
        self.lapse(now);
        self.start_handlers();
        if let Link::Backoff { until } = self.link
            && until <= now
            && self.wants_connection()
        {
            self.dial();
        }
        if let Some(epoch) = self.link.up() {
            while let Some(proof) = self.proofs.hand_over(epoch, now) {
                self.push(Action::Ack { epoch, proof });
            }
        }
        let idle = self.link.up().is_some() && self.proofs.len() == 0;
        self.reconnect.observe(if idle { Idleness::Idle } else { Idleness::Busy }, now);
        self.finish_if_done(now);
        self.count_gauges();
    }

    fn lapse(&mut self, now: Instant) {
        for lapsed in self.held.lapse(now) {
            self.tell_lapse(lapsed);
        }
    }

    fn tell_lapse(&mut self, lapsed: Lapsed) {
        self.stats.leases_lapsed += 1;
        let (event_id, generation) = (lapsed.event_id, lapsed.generation);
        self.notify(Notice::LeaseLapsed { event_id, generation });
        if let Some(run) = lapsed.run
            && !self.planted.is(Mutation::LapseUntold)
        {
            self.push(Action::Signal { run, signal: RunSignal::LeaseLapsed });
        }
    }

    fn start_handlers(&mut self) {
        while self.may_start()
            && let Some(start) = self.held.start_next()
        {
            self.stats.started += 1;
            if let (true, Action::Start { run, .. }) = (self.planted.is(Mutation::AckBeforeCommit), &start) {
                self.on_handler_ended(*run, HandlerOutcome::Ok);
            }
            self.push(start);
        }
    }

    /// Whether handlers start at all: not in a stop, and not where those under way may already reach
    /// `max_events`.
    fn may_start(&self) -> bool {
        if self.planted.is(Mutation::StartsAfterStop) {
            return true;
        }
        let room = match self.config.max_events() {
            Some(max) if !self.planted.is(Mutation::MaxEventsIgnored) => {
                // A successor is about to run in a slot that counts already.
                let taken = self.held.slots_taken() as u64 - u64::from(self.held.has_inherited());
                self.stats.acknowledged.saturating_add(taken) < max.get()
            }
            _ => true,
        };
        self.shutdown.is_open() && room
    }

    fn on_handler_ended(&mut self, run: RunId, outcome: HandlerOutcome) {
        let ok = outcome == HandlerOutcome::Ok || self.planted.is(Mutation::FailureAcknowledged);
        if ok {
            match self.held.commit(run) {
                Some(proof) => self.proofs.commit(proof),
                None => self.ignore(),
            }
            return;
        }
        let Some((event_id, generation)) = self.held.fail(run) else { return self.ignore() };
        self.stats.handler_failures += 1;
        self.notify(Notice::HandlerFailed { event_id, generation, code: HANDLER_FAILED });
    }

    /// The next thing to do. Poll until there is none after [`Self::new`] and after each [`Self::handle`].
    #[must_use = "an action that is not carried out is lost"]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to come back with [`Input::TimedOut`] at the latest, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        if self.shutdown.report().is_some() {
            return None;
        }
        let reconnect = match self.link {
            Link::Backoff { until } if self.wants_connection() => Some(until),
            _ => None,
        };
        let due = [
            (reconnect, Reason::Reconnect),
            (self.held.next_lapse(), Reason::LeaseLapses),
            (self.silent_at(), Reason::ChildSilent),
            (self.reconnect.healthy_at(), Reason::Healthy),
            (self.shutdown.deadline(), Reason::ShutdownDeadline),
        ];
        due.into_iter().filter_map(|(at, reason)| Some((at?, reason))).min()
    }

    /// The run's counters and gauges.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Where the connection stands.
    #[must_use]
    pub const fn link_state(&self) -> LinkState {
        self.link.state()
    }

    /// The options this consumer was made with.
    #[must_use]
    pub const fn config(&self) -> &ConsumerConfig {
        &self.config
    }

    /// How the run ended, once it has: what [`Action::Finish`] tells.
    #[must_use]
    pub const fn report(&self) -> Option<&FinishReport> {
        self.shutdown.report()
    }

    /// What to keep of a machine that was interrupted in the middle of [`Self::handle`]: the committed
    /// proofs, oldest first.
    #[must_use]
    pub fn into_proofs(mut self) -> Vec<EventProof> {
        self.proofs.take()
    }

    fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    fn notify(&mut self, notice: Notice) {
        self.push(Action::Notify(notice));
    }

    fn ignore(&mut self) {
        self.stats.ignored_inputs += 1;
    }

    fn count_gauges(&mut self) {
        if self.planted.is(Mutation::GaugesStay) && self.shutdown.report().is_some() {
            return;
        }
        self.stats.waiting = self.held.waiting_len() as u64;
        self.stats.running = self.held.runs_len() as u64;
        self.stats.committed = self.proofs.len() as u64;
        self.stats.successors = self.held.successors_len() as u64;
    }
}
