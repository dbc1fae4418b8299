//! Attempts, waits, and what counts as healthy.
//!
//! Every dial but the very first waits: `d = min(max, min·2^(n-1))`, then a uniform draw from `[d/2, d]`.
//! *n* counts the losses and failed dials since the connection was last known to do its work: since a
//! receipt, or since a minute with nothing to confirm. A mere connect or `PROOF_LOST` proves nothing.

use std::time::{Duration, Instant};

use super::cause::DisconnectCause;
use super::config::ConsumerConfig;
use super::mutation::{Mutation, Planted};
use crate::backoff::Backoff;
use crate::limits::{IDLE_HEALTHY_AFTER, RETRY_AFTER_HONOURED_MAX};
use crate::rng::Rng;

/// Whether a connection stands and has nothing to confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idleness {
    Idle,
    Busy,
}

/// Counts attempts and draws their waits.
#[derive(Debug, Clone)]
pub(super) struct Reconnect {
    backoff: Backoff,
    rng: Rng,
    attempts: u32,
    idle_since: Option<Instant>,
    planted: Planted,
}

impl Reconnect {
    pub(super) const fn new(config: &ConsumerConfig, seed: u64, planted: Planted) -> Self {
        let backoff = Backoff::new(config.reconnect_min_delay(), config.reconnect_max_delay());
        Self { backoff, rng: Rng::new(seed), attempts: 0, idle_since: None, planted }
    }

    /// Counts an attempt and draws how long it has to wait.
    pub(super) fn next_wait(&mut self, cause: Option<&DisconnectCause>) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        if self.planted.is(Mutation::FirstAttemptAtOnce) && self.attempts == 1 {
            return Duration::ZERO;
        }
        let attempt = if self.planted.is(Mutation::NoDoubling) { 1 } else { self.attempts };
        let mut drawn = self.backoff.draw(attempt, &mut self.rng);
        if self.planted.is(Mutation::NoJitter) {
            drawn = self.backoff.interval(attempt);
        }
        match cause.and_then(|cause| cause.retry_after) {
            Some(asked) if !self.planted.is(Mutation::RetryAfterIgnored) => {
                drawn.max(asked.min(RETRY_AFTER_HONOURED_MAX))
            }
            _ => drawn,
        }
    }

    /// The connection does its work: the next loss is a first one.
    pub(super) const fn healthy(&mut self) {
        self.attempts = 0;
    }

    /// A minute with nothing to confirm is healthy. To be called before anything else that happens now.
    pub(super) fn pass(&mut self, now: Instant) {
        if self.healthy_at().is_some_and(|at| at <= now) {
            self.healthy();
        }
    }

    /// Follows whether there is nothing to confirm.
    pub(super) fn observe(&mut self, idleness: Idleness, now: Instant) {
        self.idle_since = match idleness {
            Idleness::Idle => self.idle_since.or(Some(now)),
            Idleness::Busy => None,
        };
    }

    /// When the connection will count as healthy, if nothing changes.
    pub(super) fn healthy_at(&self) -> Option<Instant> {
        let since = self.idle_since.filter(|_| self.attempts > 0)?;
        since.checked_add(IDLE_HEALTHY_AFTER)
    }
}
