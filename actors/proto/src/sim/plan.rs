//! What a seed decides before anything happens: sizes, pace, and how much goes wrong.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::step::Fault;
use crate::backoff::Backoff;
use crate::consumer::{ConsumerConfig, Options, Role};
use crate::rng::Rng;
use crate::scalar::SubscriptionId;
use crate::session::server::Terms;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The subscription that all processes share.
pub(super) const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(0x5b5c);

/// How likely, in percent, a single thing goes wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chances {
    pub(super) dial_fails: u64,
    pub(super) dial_refused: u64,
    pub(super) register_refused: u64,
    pub(super) ack_refused: u64,
    pub(super) proof_invalid: u64,
    pub(super) answer_lost: u64,
    pub(super) handler_fails: u64,
    pub(super) handler_slow: u64,
    pub(super) handler_hangs: u64,
    pub(super) commit_unknown: u64,
}

/// A world's plan.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) processes: Vec<ConsumerConfig>,
    pub(super) events: usize,
    pub(super) terms: Terms,
    pub(super) window: u32,
    pub(super) budget: u32,
    pub(super) backoff: Backoff,
    pub(super) latency: RangeInclusive<Duration>,
    pub(super) store_latency: RangeInclusive<Duration>,
    pub(super) handler_time: RangeInclusive<Duration>,
    /// How late a consumer's timer may fire: its thread has other things to do.
    pub(super) lateness: Duration,
    pub(super) chances: Chances,
    /// How long things go wrong.
    pub(super) faulty_for: Duration,
    pub(super) faults: Vec<(Duration, Fault)>,
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let processes = (0..rng.within(&(1..=3))).map(|_| process(rng)).collect();
        let lease_ms = [1_000, 2_000, 5_000, 30_000][pick(rng, 4)];
        let faulty_for = rng.duration_within(&(5 * SECOND..=25 * SECOND));
        // Some worlds are fast and some slow, most are mixed.
        let slowest = [2, 20, 200, 1_500][pick(rng, 4)] * MS;
        Self {
            processes,
            events: usize::try_from(rng.within(&(2..=10))).unwrap_or(3),
            terms: Terms { heartbeat_interval_ms: [2_000, 15_000, 15_000, 15_000][pick(rng, 4)], lease_ms },
            window: [1, 2, 4, 256][pick(rng, 4)],
            budget: u32::try_from(rng.within(&(1..=10))).unwrap_or(10),
            backoff: Backoff::new(SECOND, [2, 10][pick(rng, 2)] * SECOND),
            latency: Duration::ZERO..=slowest,
            store_latency: Duration::ZERO..=[1, 50, 2_000][pick(rng, 3)] * MS,
            handler_time: MS..=[20, 500, 3_000][pick(rng, 3)] * MS,
            lateness: [0, 0, 1, 100][pick(rng, 4)] * MS,
            chances: chances(rng),
            faulty_for,
            faults: faults(rng, faulty_for),
        }
    }
}

/// An index below `length`.
pub(super) fn pick(rng: &mut Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).unwrap_or(0)
}

fn process(rng: &mut Rng) -> ConsumerConfig {
    let min = rng.duration_within(&(50 * MS..=500 * MS));
    let options = Options {
        capacity: [1, 1, 2, 3, 4, 8][pick(rng, 6)],
        shutdown_timeout: [100 * MS, 2 * SECOND, 30 * SECOND][pick(rng, 3)],
        reconnect_min_delay: min,
        reconnect_max_delay: (min * [1, 4, 25][pick(rng, 3)]).min(30 * SECOND),
        max_events: rng.chance(10).then(|| NonZeroU64::new(rng.within(&(1..=6)))).flatten(),
        ..Options::new(SUBSCRIPTION)
    };
    ConsumerConfig::check(&options).expect("every draw lies in its range")
}

fn chances(rng: &mut Rng) -> Chances {
    // A kind of trouble that is always there hides others: each world has some of them.
    let mut some = |most: u64| if rng.chance(40) { rng.within(&(1..=most)) } else { 0 };
    Chances {
        dial_fails: some(40),
        dial_refused: some(30),
        register_refused: some(30),
        ack_refused: some(30),
        proof_invalid: some(3),
        answer_lost: some(40),
        handler_fails: some(50),
        handler_slow: some(40),
        handler_hangs: some(8),
        commit_unknown: some(25),
    }
}

fn faults(rng: &mut Rng, within: Duration) -> Vec<(Duration, Fault)> {
    let kinds = [
        Fault::Cut,
        Fault::HalfOpen,
        Fault::ServerCrash,
        Fault::ServerRestart,
        Fault::ProcessCrash,
        Fault::ChildCrash(Role::Connection),
        Fault::ChildCrash(Role::Heartbeat),
        Fault::ChildCrash(Role::Acknowledger),
        Fault::ChildCrash(Role::HandlerPool),
        Fault::CrashLoop(Role::ALL[pick(rng, 4)]),
        Fault::ProofMislaid,
        Fault::EndMislaid,
        Fault::ShellCrash,
        Fault::Stop,
        Fault::Pause,
        Fault::Revoke,
        Fault::Seek,
        Fault::Replay,
        Fault::LateNews,
    ];
    let mut planned = Vec::new();
    for fault in kinds {
        let most = match fault {
            Fault::Cut | Fault::Replay | Fault::LateNews => 6,
            Fault::Revoke | Fault::CrashLoop(_) => u64::from(rng.chance(20)),
            Fault::Seek if rng.chance(50) => 4,
            _ => 2,
        };
        let times = if rng.chance(50) { rng.within(&(0..=most)) } else { 0 };
        planned.extend((0..times).map(|_| (rng.duration_within(&(Duration::ZERO..=within)), fault)));
    }
    planned
}
