//! A consumer against the scripted platform.

use std::future::Future;
use std::time::Duration;

use perilune::client::{Client, Connection, EventRegistration, Timeouts};
use perilune::consumer::{Consumer, RunError, handler_fn};
use perilune::testkit::{Platform, Record, Script, sample_event};
use perilune_proto::scalar::EventId;

/// Longer than any wait of a test should be.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn in_system<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    actix_rt::System::new().block_on(test());
}

/// A client that gives a silent platform up early.
pub(crate) fn hasty(platform: &Platform) -> Client {
    let short = Duration::from_secs(2);
    let timeouts = Timeouts { handshake: short, request: short, ..Timeouts::default() };
    Client::builder(platform.url()).credential(platform.credential()).timeouts(timeouts).build().expect("loopback")
}

/// One session without policy.
pub(crate) async fn dial(platform: &Platform, client: &Client) -> Connection {
    let registration = EventRegistration { subscription_id: platform.subscription_id(), capacity: 4 };
    client.dial_events(registration).await.expect("a session")
}

/// Plays a script to a consumer that handles one event, until it is confirmed. Gives what happened.
pub(crate) async fn survives(script: Script) -> (Platform, EventId) {
    plays(script, async |_| {}).await
}

/// [`survives`] where the first connection takes the delivery with it, whose lease then runs out.
pub(crate) async fn survives_a_lost_lease(script: Script) -> (Platform, EventId) {
    let lapses = async |platform: &Platform| {
        let ended = |records: &[Record]| records.contains(&Record::ConnectionEnded);
        platform.journal().until("a connection's end", LIMIT, ended).await.expect("it is cut");
        platform.advance(Duration::from_secs(31));
    };
    plays(script, lapses).await
}

async fn plays(script: Script, meanwhile: impl AsyncFnOnce(&Platform)) -> (Platform, EventId) {
    let platform = Platform::start(script).expect("a free port");
    let event = platform.publish(sample_event());
    let consumer = Consumer::builder(hasty(&platform), platform.subscription_id())
        .reconnect_min_delay(Duration::from_millis(10))
        .reconnect_max_delay(Duration::from_millis(50))
        .event_handler(platform.watch(handler_fn(|_, _| async { Ok(()) })))
        .build()
        .expect("a handler");
    let run = consumer.start().expect("a system");
    meanwhile(&platform).await;
    platform.all_confirmed().await.expect("the consumer bears it");
    run.stop();
    run.ended().await.expect("nothing is left");
    platform.journal().every_fault_played().expect("the fault came");
    (platform, event)
}

/// Plays a script to a consumer, which ends because of it.
pub(crate) async fn ends(script: Script) -> RunError {
    let platform = Platform::start(script).expect("a free port");
    platform.publish(sample_event());
    let consumer = platform.consumer().handler(|_, _| async { Ok(()) }).build().expect("a handler");
    let error = consumer.run().await.expect_err("a permanent cause");
    platform.journal().every_fault_played().expect("the fault came");
    platform.journal().nothing_unconfirmed().expect_err("the event is still open");
    error
}

pub(crate) fn sessions(platform: &Platform) -> usize {
    let records = platform.journal().records();
    records.iter().filter(|record| matches!(record, Record::SessionOpened { .. })).count()
}

/// How often the watched handler was called.
pub(crate) fn calls(platform: &Platform) -> usize {
    let records = platform.journal().records();
    records.iter().filter(|record| matches!(record, Record::HandlerCalled { .. })).count()
}
