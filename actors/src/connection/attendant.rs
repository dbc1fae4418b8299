//! The task beside one session: it carries proofs out, one after the other, and takes deliveries in.
//!
//! It tells the tree of both in batches, since an actor's message costs more than a small handler, and it sends the
//! next proof before anybody hears of the last one's receipt. What it has to tell waits only while proofs enough are
//! on their way, so that nobody is idle, and never longer than [`LINGER`].

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use actix::WeakRecipient;
use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _};
use perilune_client::{Connection as Session, ConnectionError, MessageId, NewMessageId as _, Received};
use perilune_proto::EventProof;
use perilune_proto::consumer::{AckAnswer, AckQueue, Delivered, Epoch, Replay};
use tokio::time::{Sleep, sleep_until};

use super::DeliveriesArrived;
use crate::acknowledger::{AcksAnswered, Answered};
use crate::cause::cause_of_request;
use crate::clock::now;
use crate::handler_pool::LINGER;

/// What is told in one message at most: most of what a session can have outstanding.
const BATCH: usize = 24;
/// So many proofs on their way are enough to let what is to be told wait.
const PLENTY: usize = 4;

/// What the actor hands to the task beside its session.
#[derive(Default)]
pub(super) struct Orders {
    proofs: RefCell<AckQueue>,
    answer_to: RefCell<Option<WeakRecipient<AcksAnswered>>>,
    came: Cell<bool>,
    waits: RefCell<Option<Waker>>,
}

impl Orders {
    /// Takes proofs behind those that are here. The answers to all of them go to the latest asker.
    pub(super) fn take(&self, proofs: Vec<EventProof>, answer_to: WeakRecipient<AcksAnswered>) {
        *self.answer_to.borrow_mut() = Some(answer_to);
        let mut queue = self.proofs.borrow_mut();
        proofs.into_iter().for_each(|proof| queue.push(proof));
        self.came.set(true);
        if let Some(waits) = self.waits.borrow_mut().take() {
            waits.wake();
        }
    }

    fn on_their_way(&self) -> usize {
        self.proofs.borrow().len()
    }

    /// Waits until proofs have come.
    async fn came(&self) {
        poll_fn(|cx| {
            if self.came.take() {
                return Poll::Ready(());
            }
            let mut waits = self.waits.borrow_mut();
            if !waits.as_ref().is_some_and(|waits| waits.will_wake(cx.waker())) {
                *waits = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// The task's state.
pub(super) struct Attendant {
    epoch: Epoch,
    session: Session,
    orders: Rc<Orders>,
    delivered: WeakRecipient<DeliveriesArrived>,
    /// To be told. At most [`BATCH`] of each.
    answers: Vec<Answered>,
    deliveries: Vec<Received>,
    told: Instant,
    /// Bounds the wait of what is to be told. It may fire early; then something is told early.
    alarm: Pin<Box<Sleep>>,
    armed: bool,
}

impl Attendant {
    pub(super) fn new(
        epoch: Epoch,
        session: Session,
        orders: Rc<Orders>,
        delivered: WeakRecipient<DeliveriesArrived>,
    ) -> Self {
        let told = now();
        Self {
            epoch,
            session,
            orders,
            delivered,
            answers: Vec::with_capacity(BATCH),
            deliveries: Vec::with_capacity(BATCH),
            told,
            alarm: Box::pin(sleep_until(told.into())),
            armed: false,
        }
    }

    /// Works until the read loop has ended and the socket is closed; tells why it did.
    pub(super) async fn attend(mut self) -> ConnectionError {
        let error = self.exchange().await;
        self.tell(now());
        self.session.closed().await;
        error
    }

    async fn exchange(&mut self) -> ConnectionError {
        let session = self.session.clone();
        let orders = Rc::clone(&self.orders);
        let mut report = pin!(Fuse::terminated());
        loop {
            if report.is_terminated()
                && let Some(proof) = orders.proofs.borrow_mut().send_next()
            {
                report.set(report_proof(session.clone(), proof).fuse());
            }
            let plenty = orders.on_their_way() >= PLENTY;
            if plenty {
                // Deliveries wait in the session's buffer for the next receipt, which is sure to come or to fail.
                self.arm();
            }
            tokio::select! {
                biased;
                // Polled first: it sends the proof.
                answer = &mut report, if !report.is_terminated() => self.answered(answer),
                delivery = session.next(), if !plenty => match delivery {
                    Ok(delivery) => self.deliveries.push(delivery),
                    Err(error) => return error,
                },
                () = orders.came() => {}
                () = &mut self.alarm, if self.armed => self.armed = false,
            }
            while self.deliveries.len() < BATCH
                && let Some(delivery) = session.next().now_or_never()
            {
                match delivery {
                    Ok(delivery) => self.deliveries.push(delivery),
                    Err(error) => return error,
                }
            }
            self.tell_if_due();
        }
    }

    /// Comes back here in time, whatever the session does.
    fn arm(&mut self) {
        if !self.armed {
            self.armed = true;
            self.alarm.as_mut().reset((now() + LINGER).into());
        }
    }

    fn answered(&mut self, answer: Option<(AckAnswer, Duration)>) {
        // None where the connection ended first, which is told by itself.
        let Some((answer, took)) = answer else { return };
        if let Some((event_id, generation)) = self.orders.proofs.borrow_mut().answered(&answer) {
            self.answers.push(Answered { event_id, generation, answer, took });
        }
    }

    fn tell_if_due(&mut self) {
        if self.answers.is_empty() && self.deliveries.is_empty() {
            return;
        }
        let on_their_way = self.orders.on_their_way();
        let now = now();
        let somebody_waits = on_their_way == 0 || (on_their_way < PLENTY && !self.deliveries.is_empty());
        let full = self.answers.len() >= BATCH || self.deliveries.len() >= BATCH;
        if somebody_waits || full || now.saturating_duration_since(self.told) >= LINGER {
            self.tell(now);
        } else {
            self.arm();
        }
    }

    fn tell(&mut self, now: Instant) {
        self.told = now;
        let epoch = self.epoch;
        if !self.answers.is_empty() {
            let answers = std::mem::replace(&mut self.answers, Vec::with_capacity(BATCH));
            if let Some(to) = self.orders.answer_to.borrow().as_ref().and_then(WeakRecipient::upgrade) {
                to.do_send(AcksAnswered { epoch, answers });
            }
        }
        if !self.deliveries.is_empty() {
            let deliveries = self.deliveries.drain(..).map(|received| delivered(received, now)).collect();
            if let Some(to) = self.delivered.upgrade() {
                to.do_send(DeliveriesArrived { epoch, deliveries });
            }
        }
    }
}

/// Reports a proof under a new message id; none when the connection ended first, and whether it was taken is unknown.
async fn report_proof(session: Session, proof: EventProof) -> Option<(AckAnswer, Duration)> {
    let sent = now();
    let answer = match session.ack(MessageId::new(), &proof).await {
        Ok(receipt) if receipt.replayed => AckAnswer::Confirmed { replay: Replay::Replayed },
        Ok(_) => AckAnswer::Confirmed { replay: Replay::First },
        Err(error) if error.is_proof_lost() => AckAnswer::Lost,
        Err(error) => AckAnswer::Refused(cause_of_request(&error)?),
    };
    Some((answer, now().saturating_duration_since(sent)))
}

/// What is left of the lease counts from here on: the time that it waited here is gone.
fn delivered(received: Received, now: Instant) -> Delivered {
    let lease = received.lease_ends().saturating_duration_since(now);
    let delivery = received.into_delivery();
    Delivered { proof: delivery.proof, event: Arc::new(delivery.event), lease }
}
