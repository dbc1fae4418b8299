//! A rehearsal: handler, consumer, wire and platform in memory, in one task, under the runtime's clock.
//!
//! It runs the consumer's own machine, both ends of the session and the contract's lease rules; sockets, threads and
//! actors are what is left out. Under a paused clock an hour of leases and heartbeats takes milliseconds.
//!
//! - `stage`: carries out what the machine wants done.
//! - `wire`: one connection, with the script's faults on its messages.

mod stage;
mod wire;

use std::fmt;
use std::time::Duration;

use perilune_actors::EventHandler;
use perilune_proto::ResultEvent;
use perilune_proto::consumer::{ConfigError, ConsumerConfig, FinishReport, Options};
use perilune_proto::instant::later;
use perilune_proto::scalar::EventId;
use perilune_proto::session::server::Terms;

use self::stage::Stage;
use super::journal::Journal;
use super::platform::{StartError, check_terms};
use super::rules::{Rules, SUBSCRIPTION};
use super::script::Script;

/// How long a rehearsal may take where nothing else is said.
const LIMIT: Duration = Duration::from_secs(3_600);

/// A run of a handler in memory, without a socket, a thread or a wait.
///
/// Await it on a runtime with a paused clock (`#[tokio::test(start_paused = true)]`), for handlers that do nothing but
/// compute and sleep. A database answers by the real clock, which a paused one overtakes: for handlers with one there
/// are [`Platform`](super::Platform) and [`CrashPoints`](super::CrashPoints). Under a running clock a rehearsal takes as
/// long as its leases and waits do.
///
/// ```
/// use perilune::consumer::handler_fn;
/// use perilune::testkit::{DeliveryFault, Rehearsal, Script, sample_event};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
/// let mut rehearsal = Rehearsal::new(Script::new().delivery(1, DeliveryFault::Lose))?;
/// let event = rehearsal.publish(sample_event());
/// let rehearsed = rehearsal.run(handler_fn(|_event, _context| async { Ok(()) })).await?;
/// // Its lease of 30 s had to run out.
/// assert!(rehearsed.elapsed().as_secs() >= 30);
/// rehearsed.journal().handled_once(event)?;
/// rehearsed.journal().nothing_unconfirmed()?;
/// # Ok(())
/// # })
/// # }
/// ```
#[must_use]
pub struct Rehearsal {
    rules: Rules,
    journal: Journal,
    options: Options,
    limit: Duration,
}

/// How a rehearsal went.
#[derive(Debug, Clone)]
#[must_use]
pub struct Rehearsed {
    journal: Journal,
    report: FinishReport,
    elapsed: Duration,
}

impl Rehearsal {
    /// With this script, and the contract's own terms.
    ///
    /// # Errors
    /// [`StartError::Script`].
    pub fn new(script: Script) -> Result<Self, StartError> {
        Self::with_terms(script, Terms::default())
    }

    /// With other terms than 15 s between heartbeats and leases of 30 s.
    ///
    /// # Errors
    /// [`StartError::Script`], [`StartError::Terms`].
    pub fn with_terms(script: Script, terms: Terms) -> Result<Self, StartError> {
        script.check()?;
        check_terms(terms)?;
        let journal = Journal::new();
        let rules = Rules::new(script, terms, journal.clone(), stage::now());
        Ok(Self { rules, journal, options: Options::new(SUBSCRIPTION), limit: LIMIT })
    }

    /// Publishes an event. It is there from the beginning.
    pub fn publish(&mut self, event: ResultEvent) -> EventId {
        let event_id = event.event_id;
        self.rules.publish(event, stage::now());
        event_id
    }

    /// Events held, and handlers at once: 1 to 32, 4 by default.
    pub const fn capacity(mut self, capacity: u8) -> Self {
        self.options.capacity = capacity;
        self
    }

    /// How long it may take by the runtime's clock; an hour by default. The consumer is stopped then.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Plays it: until everything is confirmed, a permanent cause ends the consumer, or its limit has come.
    ///
    /// # Errors
    /// [`ConfigError`]: the capacity.
    pub async fn run(self, handler: impl EventHandler) -> Result<Rehearsed, ConfigError> {
        let Self { rules, journal, options, limit } = self;
        let config = ConsumerConfig::check(&options)?;
        let begun = stage::now();
        let stage = Stage::new(rules, journal.clone(), config, journal.watch(handler), begun);
        let report = stage.play(later(begun, limit)).await;
        Ok(Rehearsed { journal, report, elapsed: stage::now().saturating_duration_since(begun) })
    }
}

impl Rehearsed {
    /// What happened.
    #[must_use]
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What ended the consumer, and what it had to leave.
    #[must_use]
    pub const fn report(&self) -> &FinishReport {
        &self.report
    }

    /// How long it took by the runtime's clock.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

impl fmt::Debug for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsal").field("options", &self.options).field("limit", &self.limit).finish_non_exhaustive()
    }
}
