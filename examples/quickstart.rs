//! Consumes a subscription until Ctrl-C. Start a platform first: `cargo run -- demo --keep-serving`, or see the README.
//!
//! `PERILUNE_CREDENTIAL=… SUBSCRIPTION=… cargo run --example quickstart`

use std::env::var;

use perilune::client::{Client, Credential};
use perilune::consumer::Consumer;

#[actix::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = var("PERILUNE_URL").unwrap_or_else(|_| "http://127.0.0.1:7878".to_owned());
    let client = Client::builder(url).credential(Credential::new(var("PERILUNE_CREDENTIAL")?)?).build()?;

    let consumer = Consumer::builder(client, var("SUBSCRIPTION")?.parse()?)
        .capacity(8)
        .handler(|event, context| async move {
            // The same event may come again: see the inbox for effects that must happen once.
            println!("{} is {}, {:?} left", event.task_id(), event.snapshot.status, context.lease_left());
            Ok(())
        })
        .build()?;

    let run = consumer.start()?;
    tokio::select! {
        ended = run.ended() => ended?,
        _ = tokio::signal::ctrl_c() => {
            // What runs may end, what is done is acknowledged; then the run is over.
            run.stop();
            run.ended().await?;
        }
    }
    println!("{} acknowledged", run.stats().acknowledged);
    Ok(())
}
