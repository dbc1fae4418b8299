//! Applies each result once, in SQLite, however often it is delivered.
//!
//! `PERILUNE_CREDENTIAL=… SUBSCRIPTION=… cargo run --example inbox`; then run it again: what was applied is not applied
//! again. A platform to consume from is started by `cargo run -- demo --keep-serving`.

use std::env::var;

use perilune::client::{Client, Credential};
use perilune::consumer::Consumer;
use perilune::inbox::{Inbox, PruningPolicy, inspect};

#[actix::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = var("PERILUNE_URL").unwrap_or_else(|_| "http://127.0.0.1:7878".to_owned());
    let client = Client::builder(url).credential(Credential::new(var("PERILUNE_CREDENTIAL")?)?).build()?;

    // The inbox lives beside the business tables. Its name tells this consumer from others on the same database.
    let inbox = Inbox::<sqlx::Sqlite>::connect("sqlite:inbox-example.db", "ledger").await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS ledger (status TEXT PRIMARY KEY, events INTEGER NOT NULL)")
        .execute(inbox.pool())
        .await?;

    // The closure's statements and the event's row are one transaction. An error rolls both back, and the event is
    // delivered again when its lease has run out.
    let count = inbox.handler(|event, mut tx| async move {
        sqlx::query("INSERT INTO ledger VALUES (?, 1) ON CONFLICT (status) DO UPDATE SET events = events + 1")
            .bind(event.snapshot.status.as_str())
            .execute(&mut **tx)
            .await?;
        Ok::<_, sqlx::Error>(())
    });
    let consumer = Consumer::builder(client, var("SUBSCRIPTION")?.parse()?)
        .capacity(16)
        .event_handler(count)
        // Rows of acknowledged events may be pruned one day.
        .on_settled(inbox.on_settled())
        .build()?;

    let run = consumer.start()?;
    tokio::select! {
        ended = run.ended() => ended?,
        _ = tokio::signal::ctrl_c() => {
            run.stop();
            run.ended().await?;
        }
    }
    let figures = inspect::summary(&inbox, &PruningPolicy::default()).await?;
    println!("{} acknowledged now, {} applied ever", run.stats().acknowledged, figures.rows);
    Ok(())
}
