//! Events per second of one connection, against the same in-process peer:
//!
//! - `bare`: awc alone; read a delivery, write its ack, wait for the receipt, next.
//! - `client`: the same loop over `perilune_client::Connection`, which checks everything.
//! - `consumer`: the actors, capacity 32, a handler that does nothing.
//!
//! All three have one ack in flight, as the contract demands of a consumer, and send the next one before they look at the
//! delivery that came with a receipt. Short rounds alternate, so that whatever else the machine does meets all of them,
//! and each is compared with the bare loop of its own round. `cargo bench -p perilune-actors --bench throughput -- [events] [rounds] [bare|client|consumer]`

mod peer;
mod placement;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use awc::ws::{Frame, Message};
use futures_util::{SinkExt as _, StreamExt as _};
use perilune_actors::Consumer;
use perilune_actors::client::{Client, Credential, EventRegistration, MessageId, NewMessageId as _};
use perilune_actors::proto::scalar::SubscriptionId;
use serde::Deserialize;
use serde_json::value::RawValue;

use placement::Placement;

const CAPACITY: u8 = 32;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let events = numbers.next().unwrap_or(20_000);
    let rounds = numbers.next().unwrap_or(5).max(1);
    let address = peer::start();
    // One contestant alone, for a profiler.
    if let Some(only) =
        std::env::args().skip(1).find(|argument| argument.parse::<u64>().is_err() && argument != "--bench")
    {
        Placement::OneCore.take();
        return actix::System::new().block_on(async {
            let took = match &*only {
                "bare" => bare(address, events).await,
                "client" => client(address, events).await,
                "consumer" => consumer(address, events).await,
                other => panic!("{other} is none of bare, client, consumer"),
            };
            println!("{only}: {:.1} us an event", took.as_secs_f64() * 1e6 / events as f64);
        });
    }
    println!("{events} events, capacity {CAPACITY}, 1 KiB payload, {rounds} rounds");
    for placement in [Placement::OneCore, Placement::TwoCores] {
        placement.take();
        compare(placement, address, events, rounds);
    }
}

/// Each round is compared with itself, since what the machine's other work takes from one contestant it takes from its
/// neighbours alike. The best rounds, one of each, are those that it disturbed least.
fn compare(placement: Placement, address: SocketAddr, events: u64, rounds: u64) {
    let mut figures: [Vec<f64>; 3] = Default::default();
    actix::System::new().block_on(async {
        for round in 0..=rounds {
            let took = [bare(address, events).await, client(address, events).await, consumer(address, events).await];
            for (figures, took) in figures.iter_mut().zip(took) {
                // The first round warms up.
                if round > 0 {
                    figures.push(events as f64 / took.as_secs_f64());
                }
            }
        }
    });
    println!("{:<19} median of the rounds     best round", placement.name());
    let bare_best = best(&figures[0]);
    for (what, rates) in ["bare awc loop", "client loop", "supervised consumer"].into_iter().zip(&figures) {
        let shares: Vec<f64> = rates.iter().zip(&figures[0]).map(|(own, bare)| own / bare).collect();
        println!(
            "{what:<19} {:>8.0} events/s {:.2}   {:>8.0} events/s {:.2}",
            median(rates),
            median(&shares),
            best(rates),
            best(rates) / bare_best
        );
    }
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn best(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    session_id: Option<&'a str>,
    #[serde(borrow)]
    delivery: Option<Proof<'a>>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Proof<'a> {
    delivery_id: &'a str,
    generation: &'a str,
    secret: &'a str,
}

/// Reads a delivery, writes its ack, waits for the receipt: the least that can be done with this socket library.
async fn bare(address: SocketAddr, events: u64) -> Duration {
    let url = format!("ws://{address}/v1/events");
    let (_, mut socket) =
        awc::Client::new().ws(url).protocols(["orbit.events.v1"]).max_frame_size(524_288).connect().await.expect("up");
    let register = format!(
        r#"{{"type":"register","message_id":"{:032x}","subscription_id":"{:032x}","capacity":{CAPACITY}}}"#,
        1, 1
    );
    socket.send(Message::Text(register.into())).await.expect("sent");
    let mut session = String::new();
    let mut waiting: VecDeque<String> = VecDeque::new();
    let mut in_flight = false;
    let mut done = 0;
    let began = Instant::now();
    while done < events {
        let Some(Ok(Frame::Text(text))) = socket.next().await else { panic!("the peer went") };
        let head: Head<'_> = serde_json::from_slice(&text).expect("a frame");
        match head.kind {
            "welcome" => session = head.session_id.unwrap_or_default().to_owned(),
            "delivery" => {
                let proof = head.delivery.expect("a proof");
                std::hint::black_box(head.event.expect("an event").get());
                waiting.push_back(format!(
                    r#"{{"type":"ack","session_id":"{session}","message_id":"{:032x}","delivery_id":"{}","generation":"{}","secret":"{}"}}"#,
                    rand::random::<u128>(), proof.delivery_id, proof.generation, proof.secret
                ));
            }
            "acked" => {
                done += 1;
                in_flight = false;
            }
            kind => panic!("unexpected {kind}"),
        }
        if !in_flight && let Some(ack) = waiting.pop_front() {
            socket.send(Message::Text(ack.into())).await.expect("sent");
            in_flight = true;
        }
    }
    began.elapsed()
}

fn platform(address: SocketAddr) -> Client {
    let credential = Credential::new("bench").expect("visible ASCII");
    Client::builder(format!("http://{address}")).credential(credential).build().expect("loopback")
}

/// The same loop over the checked connection.
async fn client(address: SocketAddr, events: u64) -> Duration {
    let registration = EventRegistration { subscription_id: SubscriptionId::from_u128(1), capacity: CAPACITY };
    let connection = platform(address).dial_events(registration).await.expect("up");
    let began = Instant::now();
    for _ in 0..events {
        let received = connection.next().await.expect("a delivery");
        connection.ack(MessageId::new(), received.proof()).await.expect("a receipt");
    }
    let took = began.elapsed();
    connection.close().await;
    took
}

/// The actors. Their dial and their close count too.
async fn consumer(address: SocketAddr, events: u64) -> Duration {
    let consumer = Consumer::builder(platform(address), SubscriptionId::from_u128(1))
        .capacity(CAPACITY)
        .max_events(NonZeroU64::new(events).expect("some"))
        .handler(|_event, _context| std::future::ready(Ok(())))
        .build()
        .expect("in range");
    let began = Instant::now();
    let handle = consumer.start().expect("a system");
    handle.ended().await.expect("a clean end");
    began.elapsed()
}
