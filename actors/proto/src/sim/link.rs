//! Connections between processes and server, as honest as a stream is.
//!
//! What was sent arrives in order and whole, after a delay; or, from some point on, nothing arrives any
//! more. A break is learnt by each end in its own time, or never: then deadlines must find it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::step::{ConnId, End, Life, Message, Step};
use super::world::World;
use crate::consumer::{AckQueue, Epoch};
use crate::scalar::MessageId;
use crate::session::{ClientSession, ServerSession};

/// One connection with the machines of both its ends.
pub(super) struct Conn {
    pub(super) life: Life,
    pub(super) epoch: Epoch,
    pub(super) client: ClientSession,
    pub(super) server: ServerSession,
    /// Whether the client's end was told that its session is open.
    pub(super) welcomed: bool,
    /// Whether an end has closed, or has learnt that the other is gone.
    pub(super) over: Ends<bool>,
    /// The proofs for this connection.
    pub(super) proofs: AckQueue,
    /// The requests that carry proofs and are not answered: at most one.
    pub(super) acks: BTreeSet<MessageId>,
    /// Towards each end.
    ways: Ends<Way>,
    // When each end's session wants to be woken.
    timers: Ends<Option<Instant>>,
}

/// Something of each end.
#[derive(Debug, Default)]
pub(super) struct Ends<T> {
    client: T,
    server: T,
}

impl<T> Ends<T> {
    pub(super) const fn of(&self, end: End) -> &T {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    pub(super) const fn of_mut(&mut self, end: End) -> &mut T {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    // Nothing arrives from this moment on.
    broken_at: Option<Instant>,
    last_arrival: Option<Instant>,
}

impl Conn {
    pub(super) fn new(life: Life, epoch: Epoch, client: ClientSession, server: ServerSession) -> Self {
        Self {
            life,
            epoch,
            client,
            server,
            welcomed: false,
            over: Ends::default(),
            proofs: AckQueue::default(),
            acks: BTreeSet::new(),
            ways: Ends::default(),
            timers: Ends::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.client && self.over.server
    }

    /// Breaks the direction towards an end.
    pub(super) fn break_way(&mut self, towards: End, now: Instant) {
        self.ways.of_mut(towards).broken_at.get_or_insert(now);
    }
}

const fn other(end: End) -> End {
    match end {
        End::Client => End::Server,
        End::Server => End::Client,
    }
}

impl World {
    /// Sends a message from an end of a connection to the other.
    pub(super) fn send(&mut self, id: ConnId, from: End, message: Message) {
        let delay = self.latency();
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let towards = other(from);
        let way = conn.ways.of_mut(towards);
        let arrival = way.last_arrival.map_or(now + delay, |last| last.max(now + delay));
        way.last_arrival = Some(arrival);
        self.agenda.plan(arrival, Step::Arrive { conn: id, at: towards, message });
    }

    pub(super) fn on_arrive(&mut self, id: ConnId, at: End, message: Message) {
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if *conn.over.of(at) || conn.ways.of(at).broken_at.is_some_and(|broken| broken <= now) {
            return;
        }
        match (at, message) {
            (End::Client, Message::Text(text)) => self.client_hears(id, &text),
            (End::Client, Message::Close(code)) => {
                conn.client.peer_closed(code);
                self.drain_client(id);
            }
            (End::Server, Message::Text(text)) => {
                conn.server.text(&text, now);
                self.drain_server(id);
            }
            (End::Server, Message::Close(_)) => self.server_end_gone(id),
        }
    }

    /// Breaks a connection. Each end may learn of it soon, late, or not at all.
    pub(super) fn cut(&mut self, id: ConnId) {
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.break_way(End::Client, now);
        conn.break_way(End::Server, now);
        for at in [End::Client, End::Server] {
            if self.rng.chance(80) {
                let learnt = self.rng.duration_within(&(Duration::ZERO..=Duration::from_secs(2)));
                self.agenda.plan(now + learnt, Step::Broken { conn: id, at });
            }
        }
    }

    pub(super) fn on_broken(&mut self, id: ConnId, at: End) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if *conn.over.of(at) {
            return;
        }
        match at {
            End::Client => {
                conn.client.peer_closed(crate::wire::CloseCode(1006));
                self.drain_client(id);
            }
            End::Server => self.server_end_gone(id),
        }
    }

    /// Arms the timer of an end's session, unless an earlier one is armed.
    pub(super) fn arm(&mut self, id: ConnId, end: End) {
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let due = match end {
            End::Client => conn.client.poll_timeout().map(|(at, _)| at),
            End::Server => conn.server.poll_timeout().map(|(at, _)| at),
        };
        let armed = conn.timers.of_mut(end);
        if let Some(due) = due.map(|due| due.max(now))
            && !*conn.over.of(end)
            && armed.is_none_or(|earlier| due < earlier)
        {
            *armed = Some(due);
            self.agenda.plan(due, Step::SessionTimer { conn: id, at: end });
        }
    }

    pub(super) fn on_session_timer(&mut self, id: ConnId, end: End) {
        let now = self.now;
        let Some(conn) = self.conns.get_mut(&id) else { return };
        *conn.timers.of_mut(end) = None;
        if *conn.over.of(end) {
            return;
        }
        match end {
            End::Client => {
                conn.client.timed_out(now);
                self.drain_client(id);
            }
            End::Server => {
                conn.server.timed_out(now);
                self.drain_server(id);
                self.pump();
            }
        }
    }

    /// Forgets a connection once both its ends are over.
    pub(super) fn bury(&mut self, id: ConnId) {
        if self.conns.get(&id).is_some_and(Conn::is_over) {
            self.conns.remove(&id);
        }
    }
}
