//! No statement reads a large table from end to end: each one's plan, as SQLite states it.

use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

use super::super::migrations::SERVER;
use super::{confirm, credential, delivery, lapse, lease, log, retain, subscription, take, task, upkeep};

const STATEMENTS: &[(&str, &str)] = &[
    ("confirm::PROOF", confirm::PROOF),
    ("confirm::CONFIRM", confirm::CONFIRM),
    ("credential::LIST", credential::LIST),
    ("credential::LIVE", credential::LIVE),
    ("credential::ONE", credential::ONE),
    ("credential::CREATE", credential::CREATE),
    ("credential::ADD_SECRET", credential::ADD_SECRET),
    ("credential::END_SECRETS", credential::END_SECRETS),
    ("credential::DROP_ENDED", credential::DROP_ENDED),
    ("credential::REVOKE", credential::REVOKE),
    ("credential::DROP_SECRETS", credential::DROP_SECRETS),
    ("credential::WHO", credential::WHO),
    ("delivery::SETTINGS", delivery::SETTINGS),
    ("delivery::GAP", delivery::GAP),
    ("delivery::LIST", delivery::LIST),
    ("delivery::LIST_KEPT", delivery::LIST_KEPT),
    ("delivery::REACH", delivery::REACH),
    ("delivery::ONE", delivery::ONE),
    ("delivery::KNOWN", delivery::KNOWN),
    ("delivery::ADD_ONE", delivery::ADD_ONE),
    ("delivery::ADD_ALL", delivery::ADD_ALL),
    ("delivery::NONE_EXPIRED", delivery::NONE_EXPIRED),
    ("lapse::OF_ONE", lapse::OF_ONE),
    ("lapse::OF_ALL", lapse::OF_ALL),
    ("lapse::END", lapse::END),
    ("lease::SUBSCRIPTION", lease::SUBSCRIPTION),
    ("lease::HELD", lease::HELD),
    ("lease::READY", lease::READY),
    ("lease::TEXTS", lease::TEXTS),
    ("lease::GRANT", lease::GRANT),
    ("log::QUEUES", log::QUEUES),
    ("log::NEW_QUEUE", log::NEW_QUEUE),
    ("retain::QUEUES", retain::QUEUES),
    ("retain::OLDEST", retain::OLDEST),
    ("retain::FORGET", retain::FORGET),
    ("subscription::ONE", subscription::ONE),
    ("subscription::LIST", subscription::LIST),
    ("subscription::CREATE", subscription::CREATE),
    ("subscription::ADD_QUEUE", subscription::ADD_QUEUE),
    ("subscription::BEGIN_AT", subscription::BEGIN_AT),
    ("subscription::DROP_OPEN", subscription::DROP_OPEN),
    ("subscription::DELETE", subscription::DELETE),
    ("subscription::SWITCH", subscription::SWITCH),
    ("subscription::NUMBER", subscription::NUMBER),
    ("take::END", take::END),
    ("take::ALL", take::ALL),
    ("take::WANTED", take::WANTED),
    ("task::KNOWN", task::KNOWN),
    ("task::APPEND", task::APPEND),
    ("task::APPEND_KEYED", task::APPEND_KEYED),
    ("task::TASK", task::TASK),
    ("upkeep::FORGET_PROOFS", upkeep::FORGET_PROOFS),
    ("upkeep::FORGET_KEYS", upkeep::FORGET_KEYS),
    ("upkeep::IDLE", upkeep::IDLE),
    ("upkeep::READER", upkeep::READER),
    ("upkeep::TAKE", upkeep::TAKE),
    ("upkeep::NEXT_LAPSE", upkeep::NEXT_LAPSE),
    ("upkeep::PROBE", upkeep::PROBE),
    ("upkeep::FIGURES", upkeep::FIGURES),
    ("upkeep::BLOCKED", upkeep::BLOCKED),
];

/// Tables that grow with the log, by their names and by what the statements call them.
const LARGE: [&str; 9] = ["event", "e", "delivery", "d", "task", "t", "idempotency", "k", "credential_secret"];

/// Scans in an index's order that end with their LIMIT or at its first row.
const BOUNDED: [&str; 3] = ["idempotency_event", "delivery_lapse", "delivery_confirmed"];

fn reads_all_of_a_large_table(step: &str) -> bool {
    let mut words = step.split(' ');
    let scanned = if words.next() == Some("SCAN") { words.next() } else { None };
    let bounded = BOUNDED.iter().any(|index| step.contains(index)) || step.contains("VIRTUAL TABLE");
    scanned.is_some_and(|table| LARGE.contains(&table)) && !bounded
}

#[test]
fn a_scan_is_told_from_a_search() {
    assert!(reads_all_of_a_large_table("SCAN event"));
    assert!(reads_all_of_a_large_table("SCAN d USING INDEX delivery_open"));
    assert!(!reads_all_of_a_large_table("SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"));
    assert!(!reads_all_of_a_large_table("SCAN v VIRTUAL TABLE INDEX 1:"));
    assert!(!reads_all_of_a_large_table("SCAN idempotency USING INDEX idempotency_event"));
}

#[tokio::test]
async fn no_statement_reads_a_large_table_from_end_to_end() {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await.expect("a database");
    sqlx::raw_sql(SERVER.migrations[0].sqlite).execute(&mut connection).await.expect("the schema");
    let mut planned = 0;
    for (name, text) in STATEMENTS {
        for statement in text.split(';').map(str::trim) {
            if statement.is_empty() || statement.starts_with("SAVEPOINT") || statement.starts_with("RELEASE") {
                continue;
            }
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            let plan = sqlx::query(explain).fetch_all(&mut connection).await.unwrap_or_else(|e| panic!("{name}: {e}"));
            for step in &plan {
                let step: &str = step.get("detail");
                assert!(!reads_all_of_a_large_table(step), "{name}: {step}\n{statement}");
                planned += 1;
            }
        }
    }
    assert!(planned > 50, "{planned} steps were looked at");
}
