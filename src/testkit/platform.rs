//! What a test holds of the scripted platform.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perilune_actors::client::{Client, Credential};
use perilune_actors::{Consumer, ConsumerBuilder, EventHandler};
use perilune_proto::ResultEvent;
use perilune_proto::limits::{HEARTBEAT_MS, LEASE_MS};
use perilune_proto::scalar::{EventId, SubscriptionId};
use perilune_proto::session::server::Terms;
use tokio::sync::oneshot;

use super::assertion::{Unmet, unconfirmed};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
use super::gate::Gate;
use super::journal::Journal;
use super::rules::{Rules, SUBSCRIPTION};
use super::script::{Script, ScriptError};
use super::socket::{Hub, serve};
use super::watched::Watched;

/// How long a test waits for what should come soon: past the contract's own limits of 8 and 10 s.
const SOON: Duration = Duration::from_secs(30);

/// Waits of a test's consumer between two attempts, so that tests end soon.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));

/// A scripted platform on a socket of this machine. It ends when it is dropped.
///
/// It has one subscription. Leases, generations, proofs and sessions follow the contract's own rules; what goes wrong
/// is the [`Script`]'s business. It runs on a thread of its own, so it needs no runtime of the caller's. A lapsed
/// delivery comes again after 20 to 200 ms, sooner than the contract's second.
pub struct Platform {
    hub: Arc<Hub>,
    address: SocketAddr,
    journal: Journal,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A platform could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The script can't be played.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The terms are not the contract's.
    #[error("{field} is {value} ms; the contract has {range:?} ms")]
    Terms {
        /// Which of them.
        field: &'static str,
        /// What it is, in milliseconds.
        value: u32,
        /// What it may be, in milliseconds.
        range: RangeInclusive<u32>,
    },
    /// No port, no thread or no runtime.
    #[error("the scripted platform could not be started")]
    Io(#[from] io::Error),
}

pub(super) fn check_terms(terms: Terms) -> Result<(), StartError> {
    let Terms { heartbeat_interval_ms, lease_ms } = terms;
    for (field, value, range) in
        [("heartbeat_interval_ms", heartbeat_interval_ms, HEARTBEAT_MS), ("lease_ms", lease_ms, LEASE_MS)]
    {
        if !range.contains(&value) {
            return Err(StartError::Terms { field, value, range });
        }
    }
    Ok(())
}

impl Platform {
    /// Starts a platform that plays this script, on a free port of the loopback.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(script: Script) -> Result<Self, StartError> {
        Self::start_with(script, Terms::default())
    }

    /// [`Self::start`] with other terms than 15 s between heartbeats and leases of 30 s.
    ///
    /// # Errors
    /// [`StartError`]; [`StartError::Terms`] where they are outside the contract's ranges.
    pub fn start_with(script: Script, terms: Terms) -> Result<Self, StartError> {
        script.check()?;
        check_terms(terms)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let journal = Journal::new();
        let rules = Rules::new(script, terms, journal.clone(), Instant::now());
        let hub = Arc::new(Hub::new(rules));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&hub);
        let thread = std::thread::Builder::new().name("testkit-platform".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // A dropped platform is a stopped one.
                    _ = stopped => {}
                    ended = serve(served, listener) => tracing::error!(?ended, "the scripted platform ended"),
                }
            });
            // Connections end with their runtime.
        })?;
        Ok(Self { hub, address, journal, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, as a base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its subscription.
    #[must_use]
    pub const fn subscription_id(&self) -> SubscriptionId {
        SUBSCRIPTION
    }

    /// The credential that it accepts, for a client with options of its own.
    #[must_use]
    pub fn credential(&self) -> Credential {
        Credential::new(self.hub.credential()).expect("hexadecimal digits are visible ASCII")
    }

    /// A client with its credential.
    ///
    /// # Panics
    /// Never: its address is on loopback.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::builder(self.url()).credential(self.credential()).build().expect("a loopback address")
    }

    /// Begins a consumer of its subscription that waits 10 to 50 ms between two attempts to connect.
    #[must_use = "a consumer is built and run"]
    pub fn consumer(&self) -> ConsumerBuilder {
        let (min, max) = RECONNECT;
        Consumer::builder(self.client(), SUBSCRIPTION).reconnect_min_delay(min).reconnect_max_delay(max)
    }

    /// Records the calls of this handler in the journal.
    #[must_use]
    pub fn watch<H: EventHandler>(&self, handler: H) -> Watched<H> {
        self.journal.watch(handler)
    }

    /// Publishes an event. Its place in the log is the platform's to give.
    pub fn publish(&self, event: ResultEvent) -> EventId {
        let event_id = event.event_id;
        self.hub.act(|rules, now| rules.publish(event, now));
        event_id
    }

    /// Pauses the subscription: nothing new is leased, what was leased can still be confirmed.
    pub fn pause(&self) {
        self.hub.act(|rules, now| rules.pause(true, now));
    }

    /// Leases again.
    pub fn resume(&self) {
        self.hub.act(|rules, now| rules.pause(false, now));
    }

    /// Cuts every connection there is. Leases go on, as they do for the contract's server.
    pub fn cut_connections(&self) {
        self.hub.act(|rules, _| rules.cut_all());
    }

    /// Puts the clock forward that judges leases: they lapse as if so much time had passed. Nobody's own clock moves.
    pub fn advance(&self, by: Duration) {
        self.hub.act(|rules, now| rules.advance(by, now));
    }

    /// What happened.
    #[must_use]
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Waits until whatever was published is confirmed, at most 30 s.
    ///
    /// # Errors
    /// [`Unmet`] after that.
    pub async fn all_confirmed(&self) -> Result<(), Unmet> {
        self.journal.until("all events to be confirmed", SOON, |records| unconfirmed(records).is_empty()).await
    }

    /// Lets another process take the place of the one before, whose credential is worth nothing any more.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn admit(&self, gate: Arc<Gate>) {
        self.hub.admit(gate);
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the credential.
        f.debug_struct("Platform").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
mod tests {
    use perilune_actors::client::EventRegistration;

    use super::*;
    use crate::testkit::gate::Harm;

    #[test]
    fn a_process_whose_place_was_taken_is_not_let_in() {
        actix_rt::System::new().block_on(async {
            let platform = Platform::start(Script::new()).expect("a free port");
            let registration = EventRegistration { subscription_id: SUBSCRIPTION, capacity: 1 };
            platform.admit(Arc::new(Gate::new(Harm::Crash)));
            let first = platform.client();
            first.dial_events(registration).await.expect("the first process");
            platform.admit(Arc::new(Gate::new(Harm::Crash)));
            assert_eq!(first.dial_events(registration).await.expect_err("replaced").status(), Some(401));
            platform.client().dial_events(registration).await.expect("the second process");
        });
    }

    #[test]
    fn a_dead_process_is_cut_and_finds_nobody() {
        actix_rt::System::new().block_on(async {
            let platform = Platform::start(Script::new()).expect("a free port");
            let registration = EventRegistration { subscription_id: SUBSCRIPTION, capacity: 1 };
            let gate = Arc::new(Gate::new(Harm::Crash));
            platform.admit(Arc::clone(&gate));
            let client = platform.client();
            let connection = client.dial_events(registration).await.expect("a session");
            gate.arm(1);
            gate.pass(|| "elsewhere".to_owned()).expect_err("it dies");
            connection.next().await.expect_err("cut");
            assert_eq!(client.dial_events(registration).await.expect_err("nobody").status(), None);
        });
    }
}
