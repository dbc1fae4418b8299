//! The whole system in one thread, from one seed.
//!
//! Consumer processes with the real [`crate::consumer`] machine and the real [`crate::session::client`] talk
//! by the contract's own frames to a server made of the real [`crate::session::server`], [`crate::lease`] and
//! [`crate::dispatch`]; between them a network, in front of them handlers and an inbox, around them a clock:
//! all of it driven by one generator. First things go wrong (connections break or fall silent, answers are
//! lost, processes and their actors crash, the server restarts, leases lapse, somebody pauses, seeks,
//! revokes), and an oracle judges every input and action. Then the world heals, and everything open must end.
//!
//! A seed replays a run exactly.

mod agenda;
mod bug;
mod faults;
mod handlers;
mod link;
mod oracle;
mod peer;
mod plan;
mod process;
mod receiver;
mod server;
mod step;
mod world;

use std::time::{Duration, Instant};

use crate::event::{ResultEvent, Snapshot, Status};
use crate::json::RawJson;
use crate::scalar::{EventId, Sequence, TaskId, TaskVersion, Timestamp};

pub use bug::Bug;
pub use oracle::{Check, Violation};

/// What happened in a run, in figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Steps of the world.
    pub steps: u64,
    /// How long the world lived, by its own clock.
    pub virtual_time: Duration,
    /// Faults that were carried out.
    pub faults: u64,
    /// Dials.
    pub dials: u64,
    /// Pings sent.
    pub pings: u64,
    /// Leases given.
    pub leases: u64,
    /// Handler runs.
    pub runs: u64,
    /// Proofs sent.
    pub acks: u64,
    /// Confirmations whose answer was lost on purpose.
    pub answers_lost: u64,
    /// Proofs confirmed a second time.
    pub replays: u64,
    /// Business effects.
    pub effects: u64,
    /// Redeliveries that the inbox suppressed.
    pub inbox_hits: u64,
    /// Consumer runs that came to their end.
    pub ends: u64,
    /// Those that had to leave something.
    pub unclean_ends: u64,
}

/// Whether a run is told line by line.
enum Trace {
    Off,
    Kept(Vec<String>),
}

/// Runs the world of a seed.
///
/// `origin` is where its clock begins; it decides nothing.
///
/// # Errors
/// The first [`Violation`] of an invariant.
pub fn run(seed: u64, origin: Instant) -> Result<Summary, Violation> {
    world::World::new(seed, origin, None, Trace::Off).run().0
}

/// As [`run`], with a bug planted.
///
/// # Errors
/// The first [`Violation`] of an invariant: the bug was noticed.
pub fn run_with_bug(seed: u64, origin: Instant, bug: Bug) -> Result<Summary, Violation> {
    world::World::new(seed, origin, Some(bug), Trace::Off).run().0
}

/// Runs the world of a seed and tells what the consumers heard and did, a line each. Shows no secret.
#[must_use]
pub fn trace(seed: u64, origin: Instant) -> Vec<String> {
    told(world::World::new(seed, origin, None, Trace::Kept(Vec::new())))
}

/// As [`trace`], with a bug.
#[must_use]
pub fn trace_with_bug(seed: u64, origin: Instant, bug: Bug) -> Vec<String> {
    told(world::World::new(seed, origin, Some(bug), Trace::Kept(Vec::new())))
}

fn told(world: world::World) -> Vec<String> {
    match world.run().1 {
        Trace::Kept(lines) => lines,
        Trace::Off => Vec::new(),
    }
}

/// The event with a number: the one at that place of the log.
fn event(n: u64) -> ResultEvent {
    let at = Timestamp::from_unix_micros(0).expect("1970 is a year");
    let snapshot = Snapshot {
        task_id: TaskId::from_u128(u128::from(n)),
        queue: "reports".parse().expect("a name"),
        operation: "GenerateReport".parse().expect("a name"),
        status: Status::Succeeded,
        version: TaskVersion(1),
        created_at: at,
        updated_at: at,
        payload: RawJson::null(),
        result: RawJson::null(),
        error: None,
    };
    ResultEvent { event_id: EventId::from_u128(u128::from(n)), sequence: Sequence(n), occurred_at: at, snapshot }
}
