//! The process that is killed: applies the run's events in an order of its own, several at a time, and says which it
//! would now acknowledge. It knows nothing of what it did before it was killed.

use std::io::Write as _;
use std::process::ExitCode;

use futures_util::StreamExt as _;
use futures_util::stream;
use perilune_proto::rng::Rng;

use crate::business::{Books, Business};

/// Events that a process has in hand at once.
const IN_FLIGHT: usize = 8;

/// `work URL PREFIX EVENTS SEED`.
pub(crate) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || arguments.next().expect("work URL PREFIX EVENTS SEED");
    let (url, prefix) = (next(), next());
    let (events, seed) = (next().parse().expect("a number"), next().parse().expect("a seed"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match url.split(':').next() {
            Some("sqlite") => work::<sqlx::Sqlite>(&url, &prefix, events, seed).await,
            Some("postgres") => work::<sqlx::Postgres>(&url, &prefix, events, seed).await,
            _ => work::<sqlx::MySql>(&url, &prefix, events, seed).await,
        }
    })
}

async fn work<DB: Business>(url: &str, prefix: &str, events: u64, seed: u64) -> ExitCode {
    let books = match Books::<DB>::open(url, prefix).await {
        Ok(books) => books,
        Err(error) => {
            eprintln!("not opened: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut order: Vec<u64> = (0..events).collect();
    let mut rng = Rng::new(seed);
    for place in (1..order.len()).rev() {
        let other = usize::try_from(rng.below(place as u64 + 1)).expect("a place");
        order.swap(place, other);
    }
    let books = &books;
    let mut done = stream::iter(order).map(async |n| (n, books.apply(n).await)).buffer_unordered(IN_FLIGHT);
    let mut failed = false;
    while let Some((n, applied)) = done.next().await {
        if applied {
            // A line at a time, so that a kill cuts none in half.
            let told = std::io::stdout().write_all(format!("{n}\n").as_bytes());
            failed |= told.is_err();
        }
        failed |= !applied;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
