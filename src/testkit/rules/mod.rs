//! The scripted platform without a socket: deliveries and leases by the contract's own rules, sessions by its own
//! session machine, faults by the script. Text and `now` go in, [`Output`]s come out.
//!
//! - `sessions`: what a session asks, and the script's say in the answer.
//! - `leases`: who gets which delivery, and the script's say in it.

mod leases;
mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use perilune_proto::ResultEvent;
use perilune_proto::backoff::Backoff;
use perilune_proto::lease::Moment;
use perilune_proto::rng::Rng;
use perilune_proto::scalar::{DeliveryId, EventId, Sequence, SubscriptionId};
use perilune_proto::session::server::{ServerSession, Terms};
use perilune_proto::wire::{CloseCode, encode_event};

use self::leases::Entry;
use super::journal::{Journal, Record};
use super::script::{DialFault, Script};

/// The only subscription there is.
pub(crate) const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(0x7e57);

/// How long a lapsed delivery waits before it comes again: shorter than the contract's second, so that tests end soon.
const REDELIVERY: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));

/// Numbers the connections.
pub(crate) type ConnectionId = u64;

/// What has to be done on a connection, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    /// Send this message.
    Send { text: String, after: Duration, cut_after: Option<usize> },
    /// Read nothing for so long.
    Stall(Duration),
    /// Close with this code.
    Close(CloseCode),
    /// Let the connection go without a word.
    Cut,
}

impl Output {
    const fn now(text: String) -> Self {
        Self::Send { text, after: Duration::ZERO, cut_after: None }
    }
}

/// The scripted platform.
pub(crate) struct Rules {
    terms: Terms,
    script: Script,
    journal: Journal,
    origin: Instant,
    /// How far the clock that judges leases was put forward.
    ahead: Duration,
    log: Vec<(EventId, String)>,
    /// How many events were taken off the log.
    taken: usize,
    deliveries: BTreeMap<DeliveryId, Entry>,
    connections: BTreeMap<ConnectionId, Connection>,
    outputs: VecDeque<(ConnectionId, Output)>,
    last_id: u64,
    paused: bool,
    /// When deliveries were last looked at, by the clock that judges leases.
    pumped: Moment,
    rng: Rng,
}

struct Connection {
    session: ServerSession,
    /// Nothing is said on it any more.
    silent: bool,
}

impl Rules {
    pub(crate) fn new(script: Script, terms: Terms, journal: Journal, now: Instant) -> Self {
        journal.set_unplayed(script.unplayed());
        Self {
            terms,
            script,
            journal,
            origin: now,
            ahead: Duration::ZERO,
            log: Vec::new(),
            taken: 0,
            deliveries: BTreeMap::new(),
            connections: BTreeMap::new(),
            outputs: VecDeque::new(),
            last_id: 0,
            paused: false,
            pumped: Moment(0),
            rng: Rng::new(0),
        }
    }

    /// Writes an event to the log, at its end.
    pub(crate) fn publish(&mut self, mut event: ResultEvent, now: Instant) {
        event.sequence = Sequence(self.log.len() as u64 + 1);
        self.log.push((event.event_id, encode_event(&event)));
        self.journal.write(Record::Published { event_id: event.event_id });
        self.pump(now);
    }

    /// Leases nothing new, or does so again.
    pub(crate) fn pause(&mut self, paused: bool, now: Instant) {
        self.paused = paused;
        self.pump(now);
    }

    /// Puts the clock forward that judges leases.
    pub(crate) fn advance(&mut self, by: Duration, now: Instant) {
        // Whole microseconds, as the clock counts: a due moment then is one instant.
        self.ahead += Duration::from_micros(u64::try_from(by.as_micros()).unwrap_or(u64::MAX));
        self.pump(now);
    }

    /// A connection is being made. What the script has for it.
    pub(crate) fn dialled(&mut self) -> (ConnectionId, Option<DialFault>) {
        let fault = self.script.next_dial();
        self.journal.set_unplayed(self.script.unplayed());
        if let Some(DialFault::Refuse(status)) = fault {
            self.journal.write(Record::HandshakeRefused { status });
        }
        (self.next_id(), fault)
    }

    /// Its handshake is done.
    pub(crate) fn upgraded(&mut self, id: ConnectionId, now: Instant) {
        let session = ServerSession::new(self.terms, now);
        self.connections.insert(id, Connection { session, silent: false });
    }

    /// What to do next, in order.
    pub(crate) fn poll_output(&mut self) -> Option<(ConnectionId, Output)> {
        self.outputs.pop_front()
    }

    /// When to call [`Self::timed_out`] next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let sessions = self.connections.values().filter_map(|one| one.session.poll_timeout().map(|(at, _)| at));
        sessions.chain(self.next_due()).min()
    }

    pub(crate) fn timed_out(&mut self, now: Instant) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.session.timed_out(now);
            }
            self.carry_out(id, now);
        }
        self.pump(now);
    }

    /// Cuts every connection there is.
    pub(crate) fn cut_all(&mut self) {
        let ids: Vec<_> = self.connections.keys().copied().collect();
        ids.into_iter().for_each(|id| self.cut(id));
    }

    fn moment(&self, now: Instant) -> Moment {
        let passed = now.saturating_duration_since(self.origin) + self.ahead;
        Moment(u64::try_from(passed.as_micros()).unwrap_or(u64::MAX))
    }

    const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn put(&mut self, id: ConnectionId, output: Output) {
        let silent = self.connections.get(&id).is_none_or(|connection| connection.silent);
        // Whoever says nothing does not say goodbye either.
        if !silent {
            self.outputs.push_back((id, output));
        }
    }

    fn fall_silent(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.silent = true;
        }
    }

    /// Cuts a connection: nothing more is heard from it.
    fn cut(&mut self, id: ConnectionId) {
        self.put(id, Output::Cut);
        self.gone(id);
    }
}
