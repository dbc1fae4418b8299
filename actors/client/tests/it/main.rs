//! The client against a scripted peer on a real socket: one test for each sentence of the contract.

#[path = "../peer/mod.rs"]
#[allow(unreachable_pub, reason = "written to be lifted into other test binaries")]
mod peer;

mod closing;
mod credentials;
mod framing;
mod handshake;
mod http;
mod interop;
mod reading;
mod refusals;
mod requests;
mod secrets;
mod session;
mod tls;
mod turns;

use std::time::Duration;

use perilune_client::{Client, Connection, Credential, DialError, EventRegistration, Timeouts};

use crate::peer::frames::SUBSCRIPTION;
use crate::peer::{Peer, Socket};

const TOKEN: &str = "s3cret-credential";

fn client(peer: &Peer) -> Client {
    with_times(peer, Timeouts::default())
}

fn with_times(peer: &Peer, timeouts: Timeouts) -> Client {
    let credential = Credential::new(TOKEN).expect("a credential");
    Client::builder(peer.url()).credential(credential).timeouts(timeouts).build().expect("options")
}

/// For dials that are to run out of time.
fn hasty() -> Timeouts {
    Timeouts { handshake: Duration::from_millis(300), ..Timeouts::default() }
}

/// For sessions in which something is to run out of time.
fn impatient() -> Timeouts {
    let brief = Duration::from_millis(300);
    Timeouts { request: brief, write: brief, parting: brief, ..Timeouts::default() }
}

fn registration(capacity: u8) -> EventRegistration {
    EventRegistration { subscription_id: SUBSCRIPTION, capacity }
}

/// An open session with a peer that has said welcome.
async fn open(capacity: u8) -> (Connection, Socket) {
    open_with(&Peer::plain().await, Timeouts::default(), capacity).await
}

async fn open_with(peer: &Peer, timeouts: Timeouts, capacity: u8) -> (Connection, Socket) {
    let client = with_times(peer, timeouts);
    let (dialled, socket) = tokio::join!(client.dial_events(registration(capacity)), peer.welcome());
    (dialled.expect("welcomed"), socket)
}

/// Dials a peer that plays `script`, and must fail.
async fn dial_error<T>(timeouts: Timeouts, script: impl AsyncFnOnce(Peer) -> T) -> DialError {
    let peer = Peer::plain().await;
    let client = with_times(&peer, timeouts);
    // What the script returns stays open until the dial has failed.
    let (dialled, _kept) = tokio::join!(client.dial_events(registration(4)), script(peer));
    dialled.expect_err("no connection")
}
