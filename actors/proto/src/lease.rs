//! The server's rules of a delivery.
//!
//! Source: events-v1.md section 5 and settled.md. The memory store and the simulator run these rules;
//! the SQL stores are tested against them.
//!
//! ```text
//! taken ─▶ Ready ──lease──▶ Leased ──lapse, budget left──▶ Ready (after backoff)
//!            ▲                │ └────lapse, budget spent──▶ Expired ──add budget──▶ Ready
//!            └── no newer generation: the last proof still confirms ──┘
//! Ready (leased before), Leased, Expired ──confirm──▶ Confirmed ──the same proof──▶ replayed
//! ```
//!
//! Ready, leased and EXPIRED deliveries are *open* and fill the subscription's window. Secrets are not
//! kept here: the caller compares, this module draws the conclusion.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::limits::{REDELIVERY_BACKOFF_MAX, REDELIVERY_BACKOFF_MIN};
use crate::rng::Rng;
use crate::scalar::Generation;

/// A moment of the one clock that judges leases: microseconds since that clock's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment `wait` later, the end of time at the latest.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this moment; nothing where `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// How long lapsed deliveries wait where a subscription says nothing else.
pub const BACKOFF_DEFAULT: Backoff = Backoff::new(REDELIVERY_BACKOFF_MIN, REDELIVERY_BACKOFF_MAX);

/// When a delivery whose lease of `generation` lapsed may be leased again: the lapse plus a draw of its
/// backoff, in which the first generation's lapse is the first attempt.
pub fn redelivery(lapse: Moment, generation: Generation, backoff: &Backoff, rng: &mut Rng) -> Moment {
    lapse.plus(backoff.draw(u32::try_from(generation.0).unwrap_or(u32::MAX), rng))
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It may be leased from `from` on.
    Ready {
        /// The end of its backoff.
        from: Moment,
    },
    /// A session has it.
    Leased {
        /// When the lease lapses: from this very moment on it is over.
        until: Moment,
    },
    /// It lapsed with its budget spent. It stays in the window until it is confirmed or gets budget.
    Expired,
    /// Its last proof was confirmed.
    Confirmed {
        /// When; the proof is kept for replays from then on.
        at: Moment,
    },
}

/// Whether the secret of a proof is the one of the delivery's current generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretMatch {
    /// It is.
    Same,
    /// It is not, or there is none yet.
    Different,
}

/// What a proof means to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It confirms.
    Confirms,
    /// The very same proof confirmed before.
    Replays,
    /// It was superseded by a newer generation.
    Lost,
    /// Its secret is wrong, or its generation was never leased: a security event.
    Invalid,
}

/// What a lapse led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapsed {
    /// It will be leased again, from then on.
    Again {
        /// The lapse plus the backoff.
        from: Moment,
    },
    /// Its budget is spent.
    Expired,
}

/// Budget was added to a delivery that is not EXPIRED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the delivery is not expired")]
pub struct NotExpired;

/// One event's journey to one subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delivery {
    generation: Generation,
    budget: u64,
    phase: Phase,
}

impl Delivery {
    /// A delivery just taken off the log: never leased, ready at once, with `budget` generations to go.
    #[must_use]
    pub fn taken(budget: u32, now: Moment) -> Self {
        Self { generation: Generation(0), budget: u64::from(budget), phase: Phase::Ready { from: now } }
    }

    /// A delivery as a database kept it.
    #[must_use]
    pub const fn kept(generation: Generation, budget: u64, phase: Phase) -> Self {
        Self { generation, budget, phase }
    }

    /// The latest lease; 0 where there was none.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// How many generations the delivery may have in all. Changing it is an operator's business.
    #[must_use]
    pub const fn budget(&self) -> u64 {
        self.budget
    }

    /// Where it stands. A lease that has lapsed is [`Phase::Leased`] until [`Self::lapse`] is called.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether it counts in the window.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Confirmed { .. })
    }

    /// Leases it for `lease` from `now`: the generation grows by one and one of the budget is used, since a
    /// grant counts whatever comes of it. `None` where it may not be leased now.
    pub fn lease(&mut self, now: Moment, lease: Duration) -> Option<Generation> {
        let Phase::Ready { from } = self.phase else { return None };
        if from > now || self.generation.0 >= self.budget {
            return None;
        }
        self.generation = Generation(self.generation.0 + 1);
        self.phase = Phase::Leased { until: now.plus(lease) };
        Some(self.generation)
    }

    /// Ends a lease that has lapsed by `now`. The backoff runs from the lapse, not from `now`, so that a late
    /// sweep delays nothing. `None` where no lease has lapsed.
    pub fn lapse(&mut self, now: Moment, backoff: &Backoff, rng: &mut Rng) -> Option<Lapsed> {
        let Phase::Leased { until } = self.phase else { return None };
        if until > now {
            return None;
        }
        if self.generation.0 >= self.budget {
            self.phase = Phase::Expired;
            return Some(Lapsed::Expired);
        }
        let from = redelivery(until, self.generation, backoff, rng);
        self.phase = Phase::Ready { from };
        Some(Lapsed::Again { from })
    }

    /// What a proof of `generation` means, changing nothing.
    ///
    /// `secret` compares it with the current generation's secret (after confirmation: the confirmed one's).
    /// A lapse changes nothing here: only a newer generation supersedes.
    #[must_use]
    pub fn judge(&self, generation: Generation, secret: SecretMatch) -> Judgement {
        if generation.0 == 0 || generation > self.generation {
            return Judgement::Invalid;
        }
        if generation < self.generation {
            return Judgement::Lost;
        }
        match (secret, self.phase) {
            (SecretMatch::Different, _) => Judgement::Invalid,
            (SecretMatch::Same, Phase::Confirmed { .. }) => Judgement::Replays,
            (SecretMatch::Same, _) => Judgement::Confirms,
        }
    }

    /// Judges a proof and, where it confirms, confirms.
    pub fn confirm(&mut self, generation: Generation, secret: SecretMatch, now: Moment) -> Judgement {
        let judgement = self.judge(generation, secret);
        if judgement == Judgement::Confirms {
            self.phase = Phase::Confirmed { at: now };
        }
        judgement
    }

    /// Lets an EXPIRED delivery be leased `add` more times, from `now` on.
    ///
    /// # Errors
    /// [`NotExpired`] for any other.
    pub fn add_budget(&mut self, add: u32, now: Moment) -> Result<(), NotExpired> {
        if self.phase != Phase::Expired {
            return Err(NotExpired);
        }
        self.budget = self.generation.0.saturating_add(u64::from(add));
        self.phase = Phase::Ready { from: now };
        Ok(())
    }
}

/// How many more events a subscription may take off the log: its window less its open deliveries.
#[must_use]
pub const fn window_room(window: u32, open: u32) -> u32 {
    window.saturating_sub(open)
}

/// Whether a subscription's window is full of EXPIRED deliveries, so that nothing moves until an operator
/// acts.
#[must_use]
pub const fn is_blocked(window: u32, expired: u32) -> bool {
    expired >= window
}

#[cfg(test)]
mod tests;
