//! One session without the consumer: dial, read, apply, acknowledge, keep alive, close.
//!
//! ```text
//! PERILUNE_CREDENTIAL=... cargo run --example by_hand -- 0123456789abcdef0123456789abcdef
//! ```
//!
//! What is missing here is what `perilune::consumer` adds: reconnects with backoff, handlers that may be
//! slow or panic, proofs that outlive a connection, an orderly stop.

use std::error::Error;
use std::time::Duration;

use perilune::client::{Client, Connection, Credential, EventRegistration, MessageId, NewMessageId as _, Received};

fn main() -> Result<(), Box<dyn Error>> {
    // A connection stays on the thread where it was dialled.
    actix_rt::System::new().block_on(consume())
}

async fn consume() -> Result<(), Box<dyn Error>> {
    let subscription_id = std::env::args().nth(1).ok_or("name a subscription")?.parse()?;
    let url = std::env::var("PERILUNE_URL").unwrap_or_else(|_| "http://127.0.0.1:7878".to_owned());
    let credential = Credential::new(std::env::var("PERILUNE_CREDENTIAL")?)?;
    let client = Client::builder(url).credential(credential).build()?;

    // At most four deliveries are outstanding: one is applied here, three may wait in the buffer.
    let connection = client.dial_events(EventRegistration { subscription_id, capacity: 4 }).await?;
    let welcome = connection.welcome();
    eprintln!("session {} on subscription {:?}", welcome.session_id, welcome.subscription_name);
    let outcome = tokio::select! {
        outcome = apply_events(&connection) => outcome,
        outcome = keep_alive(&connection) => outcome,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
    };
    // Cancels nothing on the platform: what is unacknowledged comes again when its lease has lapsed.
    connection.close().await;
    outcome
}

async fn apply_events(connection: &Connection) -> Result<(), Box<dyn Error>> {
    loop {
        let received = connection.next().await?;
        apply(&received);
        // Only a receipt is a confirmation. Until it has come the event may be delivered again, so its effect
        // belongs into one transaction with its id: see `perilune::inbox`.
        match connection.ack(MessageId::new(), received.proof()).await {
            Ok(receipt) => eprintln!("confirmed {} (replayed: {})", receipt.event_id, receipt.replayed),
            // Somebody holds a newer lease. This one is over, the session is not.
            Err(error) if error.is_proof_lost() => eprintln!("lost {}", received.event().event_id),
            Err(error) => return Err(error.into()),
        }
    }
}

fn apply(received: &Received) {
    let event = received.event();
    println!("{} {} task {} version {}", event.sequence, event.event_type(), event.task_id(), event.task_version());
}

/// A server closes a session that is silent for three intervals. A ping extends no lease.
async fn keep_alive(connection: &Connection) -> Result<(), Box<dyn Error>> {
    let interval = Duration::from_millis(connection.welcome().heartbeat_interval_ms.into());
    loop {
        tokio::time::sleep(interval).await;
        if !connection.ping(MessageId::new()).await?.enabled {
            eprintln!("the subscription is paused: nothing new comes");
        }
    }
}
