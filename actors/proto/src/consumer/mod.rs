//! The consumer: one pure state machine. Inputs and `now` in, actions out.
//!
//! ```text
//!            Input ──▶ ┌──────────┐ ──▶ Action       Dial, Close, Ack, Start, Signal, ...
//!  what the actors hear│ Consumer │    what they carry out, in order
//!            now   ──▶ └──────────┘ ──▶ poll_timeout  when to come back at the latest
//! ```
//!
//! Its shell is the actor `Subscription`, which passes every message on as an input, carries each action
//! out by one of its children, and arms one timer. The simulator is another shell around the same machine.
//! Source: consumer.md sections 2 to 6 and settled.md.

mod action;
mod cause;
mod config;
mod notice;
mod report;
mod stats;

use std::collections::VecDeque;
use std::time::Instant;

pub use action::{
    AckAnswer, Action, Delivered, Enabled, Epoch, HandlerOutcome, Input, PingAnswer, Reason, Replay, Role, RunId,
    RunSignal,
};
pub use cause::{CauseCode, CauseKind, DisconnectCause};
pub use config::{ConfigError, ConsumerConfig, Options};
pub use notice::{HANDLER_FAILED, Notice};
pub use report::{EndReason, FinishReport};
pub use stats::Stats;

/// The consumer's decisions: which event may start, which proof goes next, how long to wait, when to stop.
#[derive(Debug)]
pub struct Consumer {
    config: ConsumerConfig,
    rng: crate::rng::Rng,
    epoch: Epoch,
    stats: Stats,
    actions: VecDeque<Action>,
}

impl Consumer {
    /// A consumer that has not dialled yet: its first action is the dial.
    #[must_use]
    pub fn new(config: ConsumerConfig, seed: u64, _now: Instant) -> Self {
        let epoch = Epoch(1);
        let actions = VecDeque::from([Action::Dial { epoch, capacity: config.capacity() }]);
        Self { config, rng: crate::rng::Rng::new(seed), epoch, stats: Stats::default(), actions }
    }

    /// Hears an input. Total: any input in any state; one that makes no sense there is counted.
    pub fn handle(&mut self, input: Input, _now: Instant) {
        match input {
            Input::Stop => {
                self.actions.push_back(Action::Notify(Notice::Stopped));
                let end = EndReason::Stopped;
                self.actions.push_back(Action::Finish(FinishReport {
                    end,
                    committed: Vec::new(),
                    running: Vec::new(),
                }));
            }
            Input::NoticeDropped => self.stats.dropped_notices += 1,
            _ => self.stats.ignored_inputs += 1,
        }
    }

    /// The next thing to do. Poll until there is none after each [`Self::handle`] and after [`Self::new`].
    #[must_use = "an action that is not carried out is lost"]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to come back with [`Input::TimedOut`] at the latest, and why.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        None
    }

    /// The run's counters and gauges.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }
}
