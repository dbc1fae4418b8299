//! The whole system under faults, from seeds: consumers, sessions, frames, network, server rules, inbox.
//!
//! `RUNS=1000000 cargo test --test simulation` runs more seeds than usual, `FIRST=5000000` begins with that one,
//! `SEED=77` runs one alone and tells what happened in it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use perilune_proto::sim::{self, Bug, Summary, Violation};

/// Seeds that run where nothing else is asked for.
const RUNS: u64 = 10_000;
/// Seeds among which each planted bug must be noticed.
const RUNS_TO_NOTICE: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text}")))
}

/// The command that runs one seed again and tells what happens.
fn replay(seed: u64) -> String {
    format!("replay it: SEED={seed} cargo test --test simulation no_seed_breaks_an_invariant -- --nocapture")
}

/// Runs every seed of `seeds` on all cores, up to the first that fails.
fn run_all(
    seeds: Range<u64>,
    judge: impl Fn(u64) -> Result<Summary, Violation> + Sync,
) -> Result<Vec<Summary>, (u64, Violation)> {
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(None::<(u64, Violation)>);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        let mut summaries = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return summaries;
            }
            let judged = catch_unwind(AssertUnwindSafe(|| judge(seed)));
            match judged.unwrap_or_else(|_| panic!("seed {seed} panicked\n{}", replay(seed))) {
                Ok(summary) => summaries.push(summary),
                Err(violation) => {
                    next.store(seeds.end, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|(lower, _)| seed < *lower) {
                        *failed = Some((seed, violation));
                    }
                }
            }
        }
    };
    let summaries = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no run panics")).collect()
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(summaries),
    }
}

/// Faults first, then healing: no seed breaks an invariant, and everything open ends.
#[test]
fn no_seed_breaks_an_invariant_and_everything_open_ends() {
    let origin = Instant::now();
    if let Some(seed) = number("SEED") {
        sim::trace(seed, origin).iter().for_each(|line| println!("{line}"));
        let summary = sim::run(seed, origin).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        return println!("{summary:#?}");
    }
    let runs = number("RUNS").unwrap_or(RUNS);
    let first = number("FIRST").unwrap_or(0);
    let summaries = run_all(first..first + runs, |seed| sim::run(seed, origin))
        .unwrap_or_else(|(seed, violation)| panic!("seed {seed}: {violation}\n{}", replay(seed)));
    let total = |figure: fn(&Summary) -> u64| summaries.iter().map(figure).sum::<u64>();
    println!("{runs} seeds from {first} on, {} steps in {:?}", total(|s| s.steps), origin.elapsed());
    if runs >= RUNS {
        // A simulation in which nothing goes wrong proves nothing.
        let rare: BTreeMap<&str, u64> = [
            ("faults", total(|s| s.faults)),
            ("failed dials", total(|s| s.dials) - total(|s| s.ends)),
            ("lost answers", total(|s| s.answers_lost)),
            ("replayed receipts", total(|s| s.replays)),
            ("suppressed redeliveries", total(|s| s.inbox_hits)),
            ("unclean ends", total(|s| s.unclean_ends)),
            ("runs beyond effects", total(|s| s.runs) - total(|s| s.effects)),
        ]
        .into();
        assert!(rare.values().all(|&times| times > runs / 20), "too rare to prove anything: {rare:?}");
    }
}

/// The oracle sees: each planted bug is noticed by some seed.
#[test]
fn every_planted_bug_is_noticed() {
    let origin = Instant::now();
    let mut unnoticed = Vec::new();
    for bug in Bug::all() {
        match run_all(0..RUNS_TO_NOTICE, |seed| sim::run_with_bug(seed, origin, bug)) {
            Err((seed, violation)) => println!("{bug:?}: seed {seed}, {}", violation.check),
            Ok(_) => unnoticed.push(bug),
        }
    }
    assert!(Bug::all().count() >= 20);
    assert!(unnoticed.is_empty(), "nobody noticed {unnoticed:?}");
}

/// A seed replays a run exactly, line by line.
#[test]
fn a_seed_replays_its_run() {
    let origin = Instant::now();
    for seed in 0..5 {
        assert_eq!(sim::trace(seed, origin), sim::trace(seed, origin));
        assert_eq!(sim::run(seed, origin), sim::run(seed, origin));
    }
    assert_ne!(sim::trace(1, origin), sim::trace(2, origin));
}

/// What is told of a run shows no secret.
#[test]
fn a_trace_shows_no_secret() {
    let told = sim::trace(3, Instant::now()).join("\n");
    assert!(told.contains("secret: [redacted]"));
    assert!(!told.contains("secret: Secret") && !told.contains("expose"));
}
