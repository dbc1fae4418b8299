//! A scripted platform on a real socket: "expect this frame, then send that one".

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod events;
pub mod peer;

use std::future::Future;
use std::time::Duration;

use perilune_actors::client::{Client, Credential};

pub use events::{Sent, event, subscription_id};
pub use peer::{Peer, Session};

/// The credential that every test presents.
pub const CREDENTIAL: &str = "c0ffee-credential-of-the-tests";

/// What the platform says in errors; it must never be printed.
pub const REMOTE_TEXT: &str = "remote-detail-of-the-tests";

/// A client of this peer.
pub fn client(peer: &Peer) -> Client {
    let credential = Credential::new(CREDENTIAL).expect("visible ASCII");
    Client::builder(peer.url()).credential(credential).build().expect("a loopback address")
}

/// Fails a test that hangs, with a name for what it waited for.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// Waits until something that another thread does has become true.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    soon(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
