//! What a connection's handles and its pump have in common. Everything here stays on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use perilune_proto::consumer::{AckAnswer, CauseCode};
use perilune_proto::proof::EventProof;
use perilune_proto::scalar::MessageId;
use perilune_proto::session::{ClientSession, Effect, EndCause, RequestRefused};
use perilune_proto::wire::Welcome;

use crate::alarm::Alarm;
use crate::bell::Bell;
use crate::connection::Received;
use crate::error::{ConnectionError, RequestError};
use crate::line::Line;
use crate::message_id::NewMessageId as _;
use crate::requests::{Place, Requests};
use crate::turns::Turns;

/// The state of one connection. Borrowed only between awaits.
pub(crate) struct Shared {
    session: RefCell<ClientSession>,
    /// `None` before the pump begins and once the socket is closed.
    pub(crate) line: RefCell<Option<Line>>,
    welcome: RefCell<Option<Welcome>>,
    /// Deliveries that nobody has read: the session keeps them at or below the capacity.
    unread: RefCell<VecDeque<Received>>,
    pub(crate) requests: Requests,
    pub(crate) turns: Turns,
    /// Why the session is over, until the pump takes note of it.
    ended: RefCell<Option<EndCause>>,
    error: RefCell<Option<ConnectionError>>,
    closing: Cell<bool>,
    finished: Cell<bool>,
    /// Wakes the pump for the next deadline.
    pub(crate) alarm: RefCell<Alarm>,
    /// Whether there is something for the pump to write, to wait for or to stop for.
    wanted: Cell<bool>,
    pump: Cell<Option<Waker>>,
    /// Wakes the handles: a delivery, the welcome, or the end has come.
    to_handles: Bell,
}

/// What the session's effects were.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// A request's answer among others.
    Answer,
    /// Anything else, or nothing.
    NoAnswer,
}

impl Shared {
    pub(crate) fn new(session: ClientSession) -> Self {
        Self {
            session: RefCell::new(session),
            line: RefCell::new(None),
            welcome: RefCell::new(None),
            unread: RefCell::new(VecDeque::new()),
            requests: Requests::default(),
            turns: Turns::default(),
            ended: RefCell::new(None),
            error: RefCell::new(None),
            closing: Cell::new(false),
            finished: Cell::new(false),
            alarm: RefCell::new(Alarm::default()),
            wanted: Cell::new(false),
            pump: Cell::new(None),
            to_handles: Bell::default(),
        }
    }

    // What handles do.

    pub(crate) fn ack(&self, id: MessageId, proof: &EventProof) -> Result<Place<'_>, RequestError> {
        self.request(id, |session, now| session.ack(id, proof, now))
    }

    pub(crate) fn ping(&self, id: MessageId) -> Result<Place<'_>, RequestError> {
        self.request(id, |session, now| session.ping(id, now))
    }

    fn request(
        &self,
        id: MessageId,
        make: impl FnOnce(&mut ClientSession, Instant) -> Result<(), RequestRefused>,
    ) -> Result<Place<'_>, RequestError> {
        let now = now();
        let made = make(&mut self.session.borrow_mut(), now);
        match made {
            Ok(()) => {}
            Err(RequestRefused::NotOpen) => return Err(self.error_or_abandoned().into()),
            Err(refused) => return Err(refused.into()),
        }
        let place = self.requests.wait_for(id);
        self.write_requests(now);
        Ok(place)
    }

    /// Takes proofs that are reported one at a time.
    pub(crate) fn ack_in_turn(&self, proofs: impl IntoIterator<Item = EventProof>) {
        proofs.into_iter().for_each(|proof| self.turns.push(proof));
        self.send_next(now());
    }

    /// Reports the proof whose turn it is, if none is in flight.
    fn send_next(&self, now: Instant) {
        while let Some(proof) = self.turns.next() {
            let id = MessageId::new();
            let made = self.session.borrow_mut().ack(id, &proof, now);
            match made {
                Ok(()) => {
                    self.turns.sent(id, now);
                    return self.write_requests(now);
                }
                // The end is told by itself, and whether this proof was taken is a question for the next session.
                Err(RequestRefused::NotOpen) => return,
                Err(_) => self.turns.answered(AckAnswer::Refused(CauseCode::Local.into()), now),
            }
        }
    }

    fn write_requests(&self, now: Instant) {
        self.carry_out(now);
        // Written here and now: on its way through the pump it would wait for all that the thread has to do before.
        let written = !self.is_closing() && self.line.borrow_mut().as_mut().is_some_and(Line::write_at_once);
        let due = self.session.borrow().poll_timeout();
        if !written || due.is_some_and(|(due, _)| !self.alarm.borrow().covers(due)) {
            self.wake_pump();
        }
    }

    /// The next unread delivery; those that came before the end are handed out before its error.
    pub(crate) async fn next(&self) -> Result<Received, ConnectionError> {
        self.to_handles
            .until(|| {
                if let Some(received) = self.unread.borrow_mut().pop_front() {
                    self.session.borrow_mut().delivery_read();
                    return Some(Ok(received));
                }
                self.error().map(Err)
            })
            .await
    }

    pub(crate) async fn welcomed(&self) -> Result<Welcome, ConnectionError> {
        self.to_handles
            .until(|| match self.welcome.borrow().clone() {
                Some(welcome) => Some(Ok(welcome)),
                None => self.error().map(Err),
            })
            .await
    }

    /// Waits for the end of the read loop.
    pub(crate) async fn finished(&self) {
        self.to_handles.until(|| self.finished.get().then_some(())).await;
    }

    pub(crate) fn close(&self) {
        self.closing.set(true);
        self.wake_pump();
    }

    pub(crate) fn error(&self) -> Option<ConnectionError> {
        self.error.borrow().clone()
    }

    pub(crate) fn error_or_abandoned(&self) -> ConnectionError {
        self.error().unwrap_or_else(ConnectionError::abandoned)
    }

    fn wake_pump(&self) {
        self.wanted.set(true);
        if let Some(pump) = self.pump.take() {
            pump.wake();
        }
    }

    // What the pump does.

    /// Runs `step` on the session. The pump carries out its effects afterwards.
    pub(crate) fn with_session<T>(&self, step: impl FnOnce(&mut ClientSession) -> T) -> T {
        step(&mut self.session.borrow_mut())
    }

    /// Carries the session's effects out. An end is remembered: what came before it still counts.
    pub(crate) fn carry_out(&self, arrived: Instant) -> Came {
        let mut came = Came::NoAnswer;
        let mut turn_over = false;
        while let Some(effect) = self.with_session(ClientSession::poll_effect) {
            match effect {
                Effect::Send(frame) => {
                    if let Some(line) = &mut *self.line.borrow_mut() {
                        line.push(frame);
                    }
                }
                Effect::Welcomed(welcome) => {
                    *self.welcome.borrow_mut() = Some(welcome);
                    self.to_handles.ring();
                }
                Effect::Deliver(delivery) => {
                    self.unread.borrow_mut().push_back(Received::new(delivery, arrived));
                    self.to_handles.ring();
                }
                Effect::Answered(id, answer) if self.turns.is_in_flight(id) => {
                    self.turns.answered(answer.into(), arrived);
                    turn_over = true;
                }
                Effect::Answered(id, answer) => {
                    self.requests.answer(id, answer);
                    came = Came::Answer;
                }
                Effect::End(cause) => *self.ended.borrow_mut() = Some(cause),
            }
        }
        if turn_over {
            // Not `arrived`: the next request has its own time, whatever this thread did since it read.
            self.send_next(now());
        }
        came
    }

    pub(crate) fn take_end(&self) -> Option<EndCause> {
        self.ended.borrow_mut().take()
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Ready when a handle wants something of the pump.
    pub(crate) fn poll_wanted(&self, cx: &Context<'_>) -> Poll<()> {
        if self.wanted.replace(false) {
            return Poll::Ready(());
        }
        let waker = self.pump.take().filter(|waker| waker.will_wake(cx.waker()));
        self.pump.set(waker.or_else(|| Some(cx.waker().clone())));
        Poll::Pending
    }

    /// No frame counts any more. Waiting requests learn of the error; the first error stays.
    pub(crate) fn end(&self, error: ConnectionError) {
        self.session.borrow_mut().abandon();
        self.error.borrow_mut().get_or_insert(error);
        self.requests.end();
        self.turns.end();
        self.to_handles.ring();
    }

    /// The read loop is over. Closes the socket.
    pub(crate) fn finish(&self) {
        drop(self.line.take());
        drop(self.pump.take());
        self.end(ConnectionError::abandoned());
        self.finished.set(true);
        self.to_handles.ring();
    }
}

/// Tokio's clock, so that a paused one is obeyed.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
