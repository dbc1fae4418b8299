//! What a caller holds of one session.

use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use perilune_proto::event::ResultEvent;
use perilune_proto::proof::EventProof;
use perilune_proto::scalar::MessageId;
use perilune_proto::session::Answer;
use perilune_proto::wire::{Acked, Delivery, Pong, Welcome};

use crate::error::{AckError, ConnectionError, PingError, RequestError};
use crate::shared::Shared;
use crate::turns::TurnAnswered;

/// One open session.
///
/// A clone is another handle on the same session, so that one task may read deliveries while another
/// acknowledges. No policy lives here: nothing pings, reconnects or acknowledges by itself.
///
/// Dropping the last handle closes the session as [`Self::close`] does, without waiting. A handle stays
/// on the thread where it was dialled.
#[derive(Clone)]
pub struct Connection {
    shared: Rc<Shared>,
    welcome: Rc<Welcome>,
    _hold: Rc<Hold>,
}

/// Asks the pump to close when the last handle goes.
pub(crate) struct Hold(pub(crate) Rc<Shared>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Connection {
    pub(crate) fn new(hold: Hold, welcome: Welcome) -> Self {
        Self { shared: Rc::clone(&hold.0), welcome: Rc::new(welcome), _hold: Rc::new(hold) }
    }

    /// The session's terms, as they were at the handshake's moment. Not a live status.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The next delivery, in the order of arrival. Of several waiting callers one gets it.
    ///
    /// Dropping the future loses no delivery and closes nothing. What arrived before the connection ended
    /// is handed out first.
    ///
    /// # Errors
    /// Why the connection ended, from then on each time.
    pub async fn next(&self) -> Result<Received, ConnectionError> {
        self.shared.next().await
    }

    /// Confirms a delivery, and waits for the receipt.
    ///
    /// The proof may come from an earlier session of the same subscription. The request has 10 s in all,
    /// the wait in the write queue included; if they run out, the connection is closed. Dropping the
    /// future takes nothing back: the platform may confirm all the same.
    ///
    /// # Errors
    /// See [`crate::RequestErrorKind`]. Only a returned receipt is a confirmation.
    pub async fn ack(&self, message_id: MessageId, proof: &EventProof) -> Result<Acked, AckError> {
        match self.shared.ack(message_id, proof)?.answer().await {
            Some(Answer::Acked(acked)) => Ok(acked),
            answer => Err(self.no_receipt(answer)),
        }
    }

    /// Keeps the session and tells whether the subscription is enabled. Extends no lease.
    ///
    /// # Errors
    /// See [`crate::RequestErrorKind`].
    pub async fn ping(&self, message_id: MessageId) -> Result<Pong, PingError> {
        match self.shared.ping(message_id)?.answer().await {
            Some(Answer::Pong(pong)) => Ok(pong),
            answer => Err(self.no_receipt(answer)),
        }
    }

    /// Confirms deliveries in turn: in this order, behind those that were handed over before, and one in flight at a
    /// time. The next proof goes out at the receipt of the one before, before anything else is done.
    ///
    /// Answers are taken with [`Self::take_answers`]. The rules of [`Self::ack`] hold for each proof. An answer that
    /// judges the session, and not the proof, is the last one: what was to follow is not sent. Where the connection ends,
    /// what has no answer gets none.
    pub fn ack_in_turn(&self, proofs: impl IntoIterator<Item = EventProof>) {
        self.shared.ack_in_turn(proofs);
    }

    /// How many of the proofs handed to [`Self::ack_in_turn`] have no answer yet, the one in flight included.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.shared.turns.unanswered()
    }

    /// Waits until [`Self::take_answers`] gives `enough` answers, or gives some while at most `left` proofs are
    /// unanswered; or until the connection has ended. Of several waiting callers, the last one's numbers count.
    pub async fn answered(&self, enough: usize, left: usize) {
        self.shared.turns.until_due(enough, left, || self.shared.error().is_some()).await;
    }

    /// Takes what was answered to proofs of [`Self::ack_in_turn`], in their order.
    #[must_use]
    pub fn take_answers(&self) -> Vec<TurnAnswered> {
        self.shared.turns.take()
    }

    fn no_receipt(&self, answer: Option<Answer>) -> RequestError {
        match answer {
            Some(Answer::Refused(refusal)) => refusal.into(),
            // The session hands out replies of the matching kind only, so this is the end of it.
            _ => self.shared.error_or_abandoned().into(),
        }
    }

    /// Resolves when the read loop has ended and the socket is closed. [`Self::error`] says why.
    pub async fn closed(&self) {
        self.shared.finished().await;
    }

    /// Why the connection ended; `None` while it lives.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.shared.error()
    }

    /// Closes the transport and waits for the read loop. Cancels no delivery on the platform: their leases
    /// run out by themselves.
    ///
    /// Requests in flight fail. A peer that does not answer the close is waited for one second.
    pub async fn close(&self) {
        self.shared.close();
        self.shared.finished().await;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("session_id", &self.welcome.session_id).finish_non_exhaustive()
    }
}

/// A delivery, and when it came.
#[derive(Debug)]
pub struct Received {
    delivery: Delivery,
    arrived: Instant,
}

impl Received {
    pub(crate) const fn new(delivery: Delivery, arrived: Instant) -> Self {
        Self { delivery, arrived }
    }

    /// What happened.
    #[must_use]
    pub fn event(&self) -> &ResultEvent {
        &self.delivery.event
    }

    /// What confirms the delivery.
    #[must_use]
    pub fn proof(&self) -> &EventProof {
        &self.delivery.proof
    }

    /// What was left of the lease when the platform sent the delivery.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.delivery.lease_ms.into())
    }

    /// When the delivery was read from the socket.
    #[must_use]
    pub const fn arrived(&self) -> Instant {
        self.arrived
    }

    /// When the lease ends by this machine's clock: at the earliest, since the way here took time too.
    #[must_use]
    pub fn lease_ends(&self) -> Instant {
        self.arrived + self.lease()
    }

    /// The frame itself.
    #[must_use]
    pub fn into_delivery(self) -> Delivery {
        self.delivery
    }
}
