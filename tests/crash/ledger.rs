//! What must balance at the end: events = effects = inbox rows = messages = acknowledgements, each once.

use std::time::Duration;

use crate::business::{Books, Business};
use crate::killer::Plan;
use crate::platform::Standing;
use crate::servers::Place;

/// Who was killed how often.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    pub(crate) workers: u64,
    /// Those of them that had a handler running.
    pub(crate) at_work: u64,
    pub(crate) databases: u64,
    pub(crate) platforms: u64,
    /// Handlers that all workers began: above the number of events by what was delivered again.
    pub(crate) handled: u64,
}

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

/// Counts, prints and drops. True where all balances.
pub(crate) fn settle(plan: &Plan, place: &Place, standing: &Standing, deaths: &Deaths, took: Duration) -> bool {
    let mut counts = vec![("acknowledged", standing.acknowledged)];
    with_books!(place, books => async {
        for (name, sql) in [
            ("effects", "SELECT COUNT(*) FROM {p}effect"),
            ("distinct effects", "SELECT COUNT(DISTINCT event_id) FROM {p}effect"),
            ("balances", "SELECT SUM(n) FROM {p}balance"),
            ("inbox rows", "SELECT COUNT(*) FROM {p}inbox"),
            ("messages", "SELECT COUNT(*) FROM {p}outbox"),
        ] {
            counts.push((name, books.number(sql).await.expect("counted").cast_unsigned()));
        }
        books.drop_tables().await.expect("dropped");
    });
    println!("\n{} (seed {}): {took:.1?}", place.engine(), plan.seed);
    let killed = [
        ("consumers killed", deaths.workers),
        ("  with a handler", deaths.at_work),
        ("databases killed", deaths.databases),
        ("platforms killed", deaths.platforms),
        ("handlers begun", deaths.handled),
        ("events", plan.events),
    ];
    for (name, count) in killed.iter().chain(&counts) {
        println!("  {name:18}{count:>8}");
    }
    let databases = if place.is_own() { plan.database_kills } else { 0 };
    let all_killed =
        (deaths.workers, deaths.databases, deaths.platforms) == (plan.kills, databases, plan.platform_kills);
    let balanced = all_killed && standing.is_done() && counts.iter().all(|(_, count)| *count == plan.events);
    println!("  {}", if balanced { "balanced" } else { "DOES NOT BALANCE" });
    balanced
}
