//! The task beside one session: it takes deliveries and receipts in and tells the tree of them.
//!
//! In batches, since an actor's message costs more than a small handler. What there is to tell waits only while proofs
//! enough are on their way, so that nobody is idle, and never longer than [`LINGER`].

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;

use actix::WeakRecipient;
use futures_util::FutureExt as _;
use perilune_client::{Connection as Session, ConnectionError, Received};
use perilune_proto::consumer::{Delivered, Epoch};
use tokio::time::{Sleep, sleep_until};

use super::DeliveriesArrived;
use crate::acknowledger::AcksAnswered;
use crate::clock::now;
use crate::handler_pool::LINGER;

/// What is told in one message at most: most of what a session can have outstanding.
const BATCH: usize = 24;
/// So many proofs on their way are enough to let what is to be told wait.
const PLENTY: usize = 4;

/// Whom the answers to proofs are told: the latest who handed some over.
pub(super) type Asker = Rc<RefCell<Option<WeakRecipient<AcksAnswered>>>>;

/// The task's state.
pub(super) struct Attendant {
    epoch: Epoch,
    session: Session,
    asker: Asker,
    delivered: WeakRecipient<DeliveriesArrived>,
    /// To be told. At most [`BATCH`].
    deliveries: Vec<Received>,
    /// Bounds the wait of what is to be told. It may fire early; then something is told early.
    alarm: Pin<Box<Sleep>>,
    armed: bool,
}

impl Attendant {
    pub(super) fn new(
        epoch: Epoch,
        session: Session,
        asker: Asker,
        delivered: WeakRecipient<DeliveriesArrived>,
    ) -> Self {
        let alarm = Box::pin(sleep_until(now().into()));
        Self { epoch, session, asker, delivered, deliveries: Vec::with_capacity(BATCH), alarm, armed: false }
    }

    /// Works until the read loop has ended and the socket is closed; tells why it did.
    pub(super) async fn attend(mut self) -> ConnectionError {
        let error = loop {
            self.look_up().await;
            let ended = self.take_in();
            self.tell();
            if let Some(error) = ended {
                break error;
            }
        };
        self.session.closed().await;
        error
    }

    /// Waits until there is something to tell that nobody should wait for.
    async fn look_up(&mut self) {
        let Self { session, alarm, armed, deliveries, .. } = self;
        let plenty = session.unanswered() >= PLENTY;
        if plenty && !*armed {
            // Deliveries wait in the session's buffer, and receipts beside them.
            *armed = true;
            alarm.as_mut().reset((now() + LINGER).into());
        }
        // Proofs that are handed over meanwhile change nothing here: the first receipt ends the wait.
        let enough = if plenty { BATCH } else { 1 };
        tokio::select! {
            biased;
            () = session.answered(enough, PLENTY - 1) => {}
            // An error is found again by whoever takes in what else there is.
            delivery = session.next(), if !plenty => deliveries.extend(delivery.ok()),
            () = alarm, if *armed => *armed = false,
        }
    }

    /// Takes in the deliveries that have come; tells whether the session is over.
    fn take_in(&mut self) -> Option<ConnectionError> {
        while self.deliveries.len() < BATCH {
            match self.session.next().now_or_never()? {
                Ok(delivery) => self.deliveries.push(delivery),
                Err(error) => return Some(error),
            }
        }
        None
    }

    fn tell(&mut self) {
        let epoch = self.epoch;
        let answers = self.session.take_answers();
        if !answers.is_empty()
            && let Some(to) = self.asker.borrow().as_ref().and_then(WeakRecipient::upgrade)
        {
            to.do_send(AcksAnswered { epoch, answers });
        }
        if !self.deliveries.is_empty() {
            let now = now();
            let deliveries = self.deliveries.drain(..).map(|received| delivered(received, now)).collect();
            if let Some(to) = self.delivered.upgrade() {
                to.do_send(DeliveriesArrived { epoch, deliveries });
            }
        }
    }
}

/// What is left of the lease counts from here on: the time that it waited here is gone.
fn delivered(received: Received, now: Instant) -> Delivered {
    let lease = received.lease_ends().saturating_duration_since(now);
    let delivery = received.into_delivery();
    Delivered { proof: delivery.proof, event: delivery.event, lease }
}
