//! Nothing that is protected stands anywhere in clear.

use std::future::Future;

use perilune::outbox::{Message, OutboxStore};
use perilune::outcome::OutcomeEngine;
use perilune_proto::{Status, TaskError};

use super::{apply, event, json, operations};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! { no_table_shows_an_input_an_outcome_or_a_dead_letter_reason }

/// An engine whose tables can be searched.
trait Searched: TestEngine {
    /// Every column under a prefix, as `table.column`.
    const COLUMNS: &'static str;
    /// Whether a column has a text somewhere: `{column}` and `{needle}`.
    const HAS: &'static str;

    fn texts(on: &mut Self::Connection, sql: &str) -> impl Future<Output = Vec<String>> + Send;
}

macro_rules! searched {
    ($Db:ty, $columns:literal, $has:literal) => {
        impl Searched for $Db {
            const COLUMNS: &'static str = $columns;
            const HAS: &'static str = $has;

            async fn texts(on: &mut Self::Connection, sql: &str) -> Vec<String> {
                sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(on).await.expect("read")
            }
        }
    };
}

searched!(
    sqlx::Sqlite,
    "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND substr(m.name, 1, length('{p}')) = '{p}'",
    "INSTR(CAST(\"{column}\" AS BLOB), CAST('{needle}' AS BLOB)) > 0"
);
searched!(
    sqlx::Postgres,
    "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE starts_with(table_name, '{p}')",
    // A column of bytes as text is hexadecimal.
    "\"{column}\"::text LIKE '%{needle}%' OR \"{column}\"::text LIKE '%' || encode(convert_to('{needle}', 'UTF8'), 'hex') || '%'"
);
searched!(
    sqlx::MySql,
    "SELECT CAST(CONCAT(table_name, '.', column_name) AS CHAR) FROM information_schema.columns \
     WHERE table_schema = DATABASE() AND LEFT(table_name, LENGTH('{p}')) = '{p}'",
    "LOCATE(CAST('{needle}' AS BINARY), CAST(`{column}` AS BINARY)) > 0"
);

/// The columns that have the needle, and how many were looked at.
async fn search<DB: Searched>(site: &Site<DB>, needle: &str) -> (Vec<String>, usize) {
    let mut on = site.pool.acquire().await.expect("a connection");
    let columns = DB::texts(&mut on, &site.sql(DB::COLUMNS)).await;
    let mut found = Vec::new();
    for place in &columns {
        let (table, column) = place.split_once('.').expect("a table's column");
        let has = DB::HAS.replace("{column}", column).replace("{needle}", needle);
        if DB::number(&mut on, &format!("SELECT COUNT(*) FROM {table} WHERE {has}")).await.expect("searched") > 0 {
            found.push(column.to_owned());
        }
    }
    (found, columns.len())
}

const NEEDLE: &str = "77777777";

async fn no_table_shows_an_input_an_outcome_or_a_dead_letter_reason<DB>(site: Site<DB>)
where
    DB: Searched + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    super::dispatch::dispatch(&site, &operations, NEEDLE).await;
    let mut completed = event(1, 1, Status::Succeeded);
    completed.snapshot.result = json(&format!(r#"{{"pages": {NEEDLE}}}"#));
    apply(&site, &operations, &completed).await.expect("applied");
    for (n, status) in [(2, Status::DeadLettered), (3, Status::Rejected), (4, Status::Failed)] {
        let mut ended = event(n, 1, status);
        ended.snapshot.payload = json(&format!(r#""{NEEDLE}""#));
        ended.snapshot.error = Some(TaskError { code: "gone".to_owned(), message: NEEDLE.to_owned() });
        apply(&site, &operations, &ended).await.expect("applied");
    }
    let counts = ["operation_inputs", "outcomes", "dead_letters", "outbox"];
    for table in counts {
        assert_eq!(site.number(&format!("SELECT COUNT(*) FROM {{p}}{table}")).await, 1, "{table}");
    }
    let (found, searched) = search(&site, NEEDLE).await;
    assert!(found.is_empty(), "in clear: {found:?}");
    assert!(searched > 50, "only {searched} columns were looked at");

    // The search finds what is there, as text and as bytes.
    site.run(&format!("INSERT INTO {{p}}effect (tag) VALUES ('x{NEEDLE}x')")).await;
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let message = Message::new("topic", NEEDLE).expect("a message");
    site.outbox().write(&mut transaction, &message).await.expect("written");
    transaction.commit().await.expect("committed");
    let (mut found, _) = search(&site, NEEDLE).await;
    found.sort();
    assert_eq!(found, ["body", "tag"]);
    site.close().await;
}
