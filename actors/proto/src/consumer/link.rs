//! The connection as the machine sees it, and what it hears from there.
//!
//! ```text
//! Backoff ──due and wanted──▶ Dialling ──welcome──▶ Up ──▶ Closing
//!    ▲                           │                  │         │
//!    └───────────retriable───────┴──────────────────┴─────────┤
//! Down ◀──────────────────────permanent───────────────────────┘
//! ```
//!
//! The next dial comes only after the end of the one before, so a consumer never has two readers.

use std::time::{Duration, Instant};

use super::action::{AckAnswer, Action, Delivered, Enabled, Epoch, PingAnswer, Replay};
use super::cause::{CauseCode, DisconnectCause};
use super::held::Arrival;
use super::held_event::Lease;
use super::mutation::Mutation;
use super::notice::Notice;
use super::report::EndReason;
use super::{Consumer, LinkState};
use crate::scalar::{EventId, Generation};
use crate::wire::ErrorCode;

/// Where the connection stands.
#[derive(Debug, Clone)]
pub(super) enum Link {
    /// None, and none will be made.
    Down,
    /// None before this instant.
    Backoff { until: Instant },
    /// Its handshake is under way.
    Dialling { epoch: Epoch },
    /// A session is open.
    Up { epoch: Epoch, enabled: Enabled },
    /// It was told to close, and its reader has not ended yet.
    Closing { epoch: Epoch, why: Closing, session: Session, since: Instant },
}

/// Why the machine closes a connection.
#[derive(Debug, Clone)]
pub(super) enum Closing {
    /// All is done.
    Finished,
    /// Something went wrong.
    Because(DisconnectCause),
}

/// Whether a connection had got as far as a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    Opened,
    NeverOpened,
}

impl Link {
    pub(super) const fn state(&self) -> LinkState {
        match self {
            Self::Down | Self::Backoff { .. } => LinkState::Down,
            Self::Dialling { .. } => LinkState::Dialling,
            Self::Up { enabled, .. } => LinkState::Up(*enabled),
            Self::Closing { .. } => LinkState::Closing,
        }
    }

    const fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Dialling { epoch } | Self::Up { epoch, .. } | Self::Closing { epoch, .. } => Some(*epoch),
            Self::Down | Self::Backoff { .. } => None,
        }
    }

    pub(super) const fn up(&self) -> Option<Epoch> {
        if let Self::Up { epoch, .. } = self { Some(*epoch) } else { None }
    }
}

impl Consumer {
    /// Whether news of this connection is about the current one.
    fn is_current(&self, epoch: Epoch) -> bool {
        let stale = self.planted.is(Mutation::StaleEpochAccepted) && self.link.epoch().is_some();
        self.link.epoch() == Some(epoch) || stale
    }

    pub(super) fn dial(&mut self) {
        self.epoch.0 += 1;
        let epoch = self.epoch;
        // A stop dials for its proofs alone: as few leases as possible should be lost on it.
        let capacity = if self.shutdown.is_open() { self.config.capacity() } else { 1 };
        self.link = Link::Dialling { epoch };
        self.push(Action::Dial { epoch, capacity });
    }

    pub(super) fn on_connected(&mut self, epoch: Epoch, interval: Duration, enabled: Enabled) {
        match self.link {
            Link::Dialling { epoch: dialled } if dialled == epoch => {}
            // The dial had succeeded before it was told to close; its end is still to come.
            Link::Closing { epoch: closing, .. } if closing == epoch => return,
            _ => return self.ignore(),
        }
        self.link = Link::Up { epoch, enabled };
        self.stats.reconnects += u64::from(self.connected_before);
        self.connected_before = true;
        if self.planted.is(Mutation::ConnectResets) {
            self.reconnect.healthy();
        }
        self.push(Action::StartHeartbeat { epoch, interval });
        self.notify(Notice::Connected);
    }

    /// A dial failed or a session is over; its reader has ended.
    pub(super) fn on_ended(&mut self, epoch: Epoch, reported: DisconnectCause, now: Instant) {
        if !self.is_current(epoch) {
            return self.ignore();
        }
        let (cause, session) = match std::mem::replace(&mut self.link, Link::Down) {
            Link::Closing { why: Closing::Finished, .. } => return,
            Link::Closing { why: Closing::Because(own), session, .. } => {
                // What the peer said meanwhile counts only if it is worse.
                (if reported.is_permanent() { reported } else { own }, session)
            }
            Link::Up { epoch, .. } => {
                self.push(Action::StopHeartbeat { epoch });
                (reported, Session::Opened)
            }
            _ => (reported, Session::NeverOpened),
        };
        self.proofs.disconnected();
        if self.planted.is(Mutation::ProofsForgottenAtLoss) {
            for event_id in self.proofs.take().iter().map(|proof| proof.event_id) {
                self.held.confirmed(event_id);
            }
        }
        let wait = self.reconnect.next_wait(Some(&cause));
        // Far beyond any real clock's end there is no other instant to wait for.
        self.link = Link::Backoff { until: now.checked_add(wait).unwrap_or(now) };
        match session {
            Session::Opened => self.notify(Notice::Disconnected { cause: cause.clone() }),
            Session::NeverOpened => self.stats.dials_failed += 1,
        }
        if cause.is_permanent() && !self.planted.is(Mutation::PermanentRetried) {
            self.fail(EndReason::Permanent(cause), now);
        }
    }

    /// Tells the connection to close, if there is one that was not told before.
    pub(super) fn close(&mut self, why: Closing, now: Instant) {
        let (epoch, session) = match self.link {
            Link::Up { epoch, .. } => {
                self.push(Action::StopHeartbeat { epoch });
                (epoch, Session::Opened)
            }
            Link::Dialling { epoch } => (epoch, Session::NeverOpened),
            _ => return,
        };
        self.push(Action::Close { epoch });
        self.link = Link::Closing { epoch, why, session, since: now };
        if self.planted.is(Mutation::DialBesideOldReader) && self.shutdown.is_open() {
            self.proofs.disconnected();
            self.dial();
        }
    }

    pub(super) fn on_delivered(&mut self, epoch: Epoch, delivery: Delivered, now: Instant) {
        let up = self.link.up();
        let stale = self.planted.is(Mutation::StaleEpochAccepted) && up.is_some();
        if up != Some(epoch) && !stale {
            return self.ignore();
        }
        let alien = delivery.proof.event_id != delivery.event.event_id
            || delivery.proof.subscription_id != self.config.subscription_id();
        if alien {
            return self.ignore();
        }
        // Whatever comes after a stop is left to the platform.
        if !self.shutdown.is_open() && !self.planted.is(Mutation::StartsAfterStop) {
            return;
        }
        self.lapse(now);
        let ends = now.checked_add(delivery.lease).unwrap_or(now);
        let lease = Lease { proof: delivery.proof, event: delivery.event, ends };
        match self.held.arrive(epoch, lease, now) {
            Arrival::Kept => {}
            Arrival::KeptFor(lapsed) => self.tell_lapse(lapsed),
            Arrival::Stale => self.stats.stale_deliveries += 1,
            Arrival::Full => self.close(Closing::Because(CauseCode::ReceiveBufferFull.into()), now),
        }
    }

    pub(super) fn on_ack_answered(
        &mut self,
        epoch: Epoch,
        (event_id, generation): (EventId, Generation),
        answer: AckAnswer,
        now: Instant,
    ) {
        if !self.is_current(epoch) || !self.proofs.is_due(epoch, event_id, generation) {
            return self.ignore();
        }
        match answer {
            AckAnswer::Confirmed { replay } => self.on_confirmed(event_id, generation, replay, now),
            AckAnswer::Lost => {
                if self.planted.is(Mutation::LostProofKept) {
                    return self.proofs.disconnected();
                }
                if self.planted.is(Mutation::LostProofResets) {
                    self.reconnect.healthy();
                }
                self.proofs.settle(now);
                self.held.lost(event_id);
                self.stats.proofs_lost += 1;
                self.notify(Notice::ProofLost { event_id, generation });
            }
            // The server keeps the connection, so that the other proofs can still be reported on it.
            AckAnswer::Refused(cause) if cause.code == CauseCode::Error(ErrorCode::ProofInvalid) => {
                self.proofs.refuse(now);
                self.fail(EndReason::Permanent(cause), now);
            }
            AckAnswer::Refused(cause) => self.refused(cause, now),
        }
    }

    fn on_confirmed(&mut self, event_id: EventId, generation: Generation, replayed: Replay, now: Instant) {
        self.proofs.settle(now);
        self.held.confirmed(event_id);
        if !self.planted.is(Mutation::ReceiptDoesNotReset) {
            self.reconnect.healthy();
        }
        self.stats.acknowledged += 1;
        self.notify(Notice::Acknowledged { event_id, generation, replayed });
        if self.config.max_events().is_some_and(|max| self.stats.acknowledged >= max.get()) {
            self.begin_stop(EndReason::MaxEvents, now);
        }
    }

    pub(super) fn on_ping_answered(&mut self, epoch: Epoch, answer: PingAnswer, now: Instant) {
        if !self.is_current(epoch) {
            return self.ignore();
        }
        match (answer, &mut self.link) {
            (PingAnswer::Pong(fresh), Link::Up { enabled, .. }) => *enabled = fresh,
            (PingAnswer::Pong(_), _) => {}
            (PingAnswer::Refused(cause), _) => self.refused(cause, now),
        }
    }

    /// A request was answered by an error that leaves no use for the connection.
    fn refused(&mut self, cause: DisconnectCause, now: Instant) {
        self.close(Closing::Because(cause.clone()), now);
        if cause.is_permanent() {
            self.fail(EndReason::Permanent(cause), now);
        }
    }
}
