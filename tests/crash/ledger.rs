//! What must balance at the end: events = effects = inbox rows = messages, each once.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::business::{Books, Business};
use crate::killer::Plan;
use crate::servers::Place;

/// Runs a future on a runtime of its own, with the books of the place's engine.
macro_rules! with_books {
    ($place:expr, $books:ident => $work:expr) => {{
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            match $place.engine() {
                "SQLite" => {
                    let $books = open::<sqlx::Sqlite>($place).await;
                    $work.await
                }
                "PostgreSQL" => {
                    let $books = open::<sqlx::Postgres>($place).await;
                    $work.await
                }
                _ => {
                    let $books = open::<sqlx::MySql>($place).await;
                    $work.await
                }
            }
        })
    }};
}

async fn open<DB: Business>(place: &Place) -> Books<DB> {
    Books::open(place.url(), place.prefix()).await.expect("the database answers")
}

pub(crate) fn create(place: &Place) {
    with_books!(place, books => async { books.create().await.expect("created") });
}

/// Events that somebody would have acknowledged and that have no effect.
pub(crate) fn missing(place: &Place, acknowledged: &BTreeSet<u64>) -> Vec<u64> {
    let applied: BTreeSet<u64> = with_books!(place, books => async {
        books.applied().await.expect("read").into_iter().map(i64::cast_unsigned).collect()
    });
    acknowledged.difference(&applied).copied().collect()
}

/// Counts, prints and drops. True where all balances.
pub(crate) fn settle(
    plan: &Plan,
    place: &Place,
    killed: u64,
    servers_killed: u64,
    lost: &[u64],
    took: Duration,
) -> bool {
    let counts = with_books!(place, books => async {
        let mut counts = Vec::new();
        for (name, sql) in [
            ("effects", "SELECT COUNT(*) FROM {p}effect"),
            ("distinct effects", "SELECT COUNT(DISTINCT event) FROM {p}effect"),
            ("balances", "SELECT SUM(n) FROM {p}balance"),
            ("inbox rows", "SELECT COUNT(*) FROM {p}inbox"),
            ("messages", "SELECT COUNT(*) FROM {p}outbox"),
        ] {
            counts.push((name, books.number(sql).await.expect("counted")));
        }
        books.drop_tables().await.expect("dropped");
        counts
    });
    println!("\n{} (seed {}): {killed} kills, {servers_killed} of the server, {took:.1?}", place.engine(), plan.seed);
    println!("  {:18}{:>8}", "events", plan.events);
    for (name, count) in &counts {
        println!("  {name:18}{count:>8}");
    }
    println!("  {:18}{:>8}", "lost after ack", lost.len());
    let expected = i64::try_from(plan.events).expect("small");
    let balanced = lost.is_empty() && counts.iter().all(|(_, count)| *count == expected);
    println!("  {}", if balanced { "balanced" } else { "DOES NOT BALANCE" });
    balanced
}
