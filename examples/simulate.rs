//! Runs the whole system from one seed, with no socket and no clock, and tells what happened in it.
//!
//! `cargo run --example simulate -- 7`

use std::time::Instant;

use perilune_proto::sim;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| format!("the seed must be a number from 0, not {text:?}"))?,
        None => 7,
    };
    // Where the virtual time begins. The run is the same from wherever it does.
    let origin = Instant::now();
    for line in sim::trace(seed, origin) {
        println!("{line}");
    }
    // Every invariant of the specification is checked at every step; a violation names the one that broke.
    let summary = sim::run(seed, origin)?;
    println!("{summary:#?}");
    Ok(())
}
