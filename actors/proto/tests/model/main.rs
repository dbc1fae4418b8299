//! Every state of a small system: consumers with the real machine, events with the real lease rules, and a
//! crash, a cut, a lapse, a pause or a stop at any step.
//!
//! Time is abstract: a lease may lapse whenever it stands, and a consumer's clock may jump over everything
//! that it waits for. States that differ only in counters and names are one, and so are those in which two
//! consumers have changed places.

mod node;
mod steps;
mod system;

use std::sync::atomic::Ordering::Relaxed;

use stateright::{Checker, Model};
use system::Small;

/// Explores everything, insists on each property and on having met what makes them worth anything.
fn explore(small: Small) {
    let stops = small.stops;
    let checker = small.checker().symmetry().threads(2).spawn_dfs().join();
    let (all, distinct, depth) = (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
    let seen = &checker.model().seen;
    println!("{all} states, {distinct} distinct, at most {depth} steps deep: {seen:?}");
    let met = [&seen.all_confirmed, &seen.replayed, &seen.lost, &seen.successor_ran, &seen.expired];
    assert!(met.iter().all(|times| times.load(Relaxed) > 0), "{seen:?}");
    let ends = seen.clean_stop.load(Relaxed).min(seen.unclean_stop.load(Relaxed));
    assert!(!stops || ends > 0, "{seen:?}");
}

/// Crashes, cuts, lapses and lost answers, with everything else at rest. `WHOLE=1` opens both events at a time
/// and adds pauses, stops and jumping clocks: five million distinct states, some minutes with `--release`.
#[test]
fn two_consumers_share_two_events_of_three_generations() {
    let whole = std::env::var_os("WHOLE").is_some();
    let window = if whole { 2 } else { 1 };
    let (stops, pauses, jumps) = (whole, whole, whole);
    explore(Small { consumers: 2, events: 2, window, budget: 3, stops, pauses, jumps, ..Small::default() });
}

#[test]
fn two_consumers_hold_two_events_at_a_time() {
    explore(Small { consumers: 2, events: 2, window: 2, budget: 2, ..Small::default() });
}

#[test]
fn two_consumers_stop_and_pause_over_two_events() {
    let (stops, pauses, jumps) = (true, true, true);
    explore(Small { consumers: 2, events: 2, window: 1, budget: 2, stops, pauses, jumps, ..Small::default() });
}

#[test]
fn two_consumers_stop_and_pause_over_three_generations() {
    let (stops, pauses, jumps) = (true, true, true);
    explore(Small { consumers: 2, events: 1, window: 1, budget: 3, stops, pauses, jumps, ..Small::default() });
}

#[test]
fn one_consumer_stops_and_pauses_over_two_events_of_three_generations() {
    let (stops, pauses, jumps) = (true, true, true);
    explore(Small { consumers: 1, events: 2, window: 2, budget: 3, stops, pauses, jumps, ..Small::default() });
}
