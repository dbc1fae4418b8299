//! Killed at any moment: consumer-like processes apply events, are killed with SIGKILL at random again and again, and at
//! the end each event's effect is there exactly once.
//!
//! ```text
//! cargo test --all-features --test crash                       # SQLite, and the servers that the environment names
//! SEED=7 KILLS=1000 EVENTS=10000 cargo test --all-features --test crash
//! ```
//!
//! `KILLS` (20) and `EVENTS` (400) count for each engine. `PERILUNE_TEST_POSTGRES_URL` and `PERILUNE_TEST_MYSQL_URL` name
//! servers, which are not killed; `SERVER_KILLS` (0) kills the database itself that often as well, in instances of the
//! test's own. Seed and ledger are printed.

mod business;
mod killer;
mod ledger;
mod servers;
mod worker;

use std::process::ExitCode;

use killer::Plan;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{variable}: no number")))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("work") => return worker::main(arguments),
        // Test runners ask a binary for its tests; this one has none to choose from.
        Some("--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    let plan = Plan {
        seed: number("SEED", rand::random_range(0..1_000_000)),
        kills: number("KILLS", 20),
        events: number("EVENTS", 400),
        server_kills: number("SERVER_KILLS", 0),
    };
    println!("seed {}: {} events, {} kills, {} of the server", plan.seed, plan.events, plan.kills, plan.server_kills);
    println!(
        "again: SEED={} KILLS={} EVENTS={} cargo test --all-features --test crash",
        plan.seed, plan.kills, plan.events
    );
    let mut balanced = true;
    for place in servers::places(&plan) {
        match place {
            Ok(mut place) => balanced &= killer::run(&plan, &mut place),
            Err(skipped) => println!("{skipped}"),
        }
    }
    if balanced { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
