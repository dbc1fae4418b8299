//! Killed at any moment: consumer processes with a real business transaction, on a real platform, are killed with SIGKILL
//! at random again and again, and now and then so are the database server and the platform; at the end each event's
//! effect is there exactly once.
//!
//! ```text
//! cargo test --all-features --test crash       # SQLite, and the servers that the environment names
//! SEED=7 EVENTS=10000 KILLS=1000 DATABASE_KILLS=20 PLATFORM_KILLS=20 cargo test --all-features --test crash
//! ```
//!
//! | variable | default | |
//! | --- | --- | --- |
//! | `SEED` | random, printed | what is drawn: whom, when |
//! | `EVENTS` | 300 | published as the kills go on |
//! | `KILLS` | 20 | of a consumer process; two run at any time |
//! | `DATABASE_KILLS` | 0 | of the database server; above 0 the servers are instances of the test's own |
//! | `PLATFORM_KILLS` | 1 | of the `perilune serve` process |
//! | `ENGINES` | all | some of `SQLite,PostgreSQL,MySQL` |
//! | `PLATFORM` | this build's | the `perilune` binary that serves |
//!
//! The numbers count for each engine. `PERILUNE_TEST_POSTGRES_URL` and `PERILUNE_TEST_MYSQL_URL` name servers, which are
//! never killed. SQLite has no server. Seed and ledger are printed; the exit code is 0 only where every ledger balances.

mod business;
mod child;
mod killer;
mod ledger;
#[path = "../own_server/mod.rs"]
mod own_server;
mod platform;
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
        events: number("EVENTS", 300),
        kills: number("KILLS", 20),
        database_kills: number("DATABASE_KILLS", 0),
        platform_kills: number("PLATFORM_KILLS", 1),
    };
    let engines = std::env::var("ENGINES").unwrap_or_else(|_| "SQLite,PostgreSQL,MySQL".to_owned());
    println!(
        "again: SEED={} EVENTS={} KILLS={} DATABASE_KILLS={} PLATFORM_KILLS={} ENGINES={engines} \
         cargo test --all-features --test crash",
        plan.seed, plan.events, plan.kills, plan.database_kills, plan.platform_kills
    );
    let mut balanced = true;
    for engine in engines.split(',') {
        match servers::place(engine, plan.database_kills > 0) {
            Ok(mut place) => balanced &= killer::run(&plan, &mut place),
            Err(skipped) => println!("{skipped}"),
        }
    }
    if balanced { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
