//! Hands events to actors of the application's own, under one supervisor, with their health on the side.
//!
//! `PERILUNE_CREDENTIAL=… SUBSCRIPTIONS=id,id cargo run --example actor_handler`

use std::env::var;
use std::num::NonZeroUsize;
use std::time::Duration;

use actix::prelude::*;
use perilune::client::{Client, Credential};
use perilune::consumer::{Consumer, HandleEvent, HandlerError, HandlerResult, Supervisor};

/// Blocking work belongs into a `SyncArbiter`: each of its threads has one of these.
struct Invoices;

impl Actor for Invoices {
    type Context = SyncContext<Self>;
}

impl Handler<HandleEvent> for Invoices {
    type Result = HandlerResult;

    fn handle(&mut self, message: HandleEvent, _ctx: &mut SyncContext<Self>) -> HandlerResult {
        if message.context.lease_left() < Duration::from_secs(1) {
            return Err(HandlerError::msg("too late to begin"));
        }
        println!("invoice for {}", message.event.task_id());
        Ok(())
    }
}

#[actix::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = var("PERILUNE_URL").unwrap_or_else(|_| "http://127.0.0.1:7878".to_owned());
    let client = Client::builder(url).credential(Credential::new(var("PERILUNE_CREDENTIAL")?)?).build()?;
    let invoices = SyncArbiter::start(4, || Invoices);

    let supervisor = Supervisor::start(NonZeroUsize::MIN)?;
    let mut runs = Vec::new();
    for id in var("SUBSCRIPTIONS")?.split(',') {
        let consumer =
            Consumer::builder(client.clone(), id.parse()?).capacity(4).actor(invoices.clone().recipient()).build()?;
        runs.push(supervisor.add(&consumer)?);
    }

    let mut tick = tokio::time::interval(Duration::from_secs(10));
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            _ = tick.tick() => {
                for one in supervisor.list().await? {
                    println!("{} {} {:?}", one.subscription_id, one.health.state.as_str(), one.error);
                }
            }
            _ = &mut stop => break,
        }
    }
    supervisor.stop_all();
    for run in runs {
        run.ended().await?;
    }
    Ok(())
}
