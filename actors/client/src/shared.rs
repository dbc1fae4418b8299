//! What a connection's handles and its pump have in common. Everything here stays on one thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use perilune_proto::proof::EventProof;
use perilune_proto::scalar::MessageId;
use perilune_proto::session::{Answer, ClientSession, RequestRefused};
use perilune_proto::wire::Welcome;
use tokio::sync::{Notify, oneshot};

use crate::connection::Received;
use crate::error::{ConnectionError, RequestError};

/// The state of one connection. Borrowed only between awaits.
pub(crate) struct Shared {
    session: RefCell<ClientSession>,
    welcome: RefCell<Option<Welcome>>,
    /// Deliveries that nobody has read: the session keeps them at or below the capacity.
    unread: RefCell<VecDeque<Received>>,
    /// Who waits for which answer: at most as many as the session has requests in flight.
    waiting: RefCell<BTreeMap<MessageId, oneshot::Sender<Answer>>>,
    error: RefCell<Option<ConnectionError>>,
    closing: Cell<bool>,
    finished: Cell<bool>,
    /// Wakes the pump: there is something to send, or to stop for.
    to_pump: Notify,
    /// Wakes the handles: a delivery, the welcome, or the end has come.
    to_handles: Notify,
}

impl Shared {
    pub(crate) fn new(session: ClientSession) -> Self {
        Self {
            session: RefCell::new(session),
            welcome: RefCell::new(None),
            unread: RefCell::new(VecDeque::new()),
            waiting: RefCell::new(BTreeMap::new()),
            error: RefCell::new(None),
            closing: Cell::new(false),
            finished: Cell::new(false),
            to_pump: Notify::new(),
            to_handles: Notify::new(),
        }
    }

    // What handles do.

    pub(crate) fn ack(&self, id: MessageId, proof: &EventProof) -> Result<oneshot::Receiver<Answer>, RequestError> {
        self.request(id, |session, now| session.ack(id, proof, now))
    }

    pub(crate) fn ping(&self, id: MessageId) -> Result<oneshot::Receiver<Answer>, RequestError> {
        self.request(id, |session, now| session.ping(id, now))
    }

    fn request(
        &self,
        id: MessageId,
        make: impl FnOnce(&mut ClientSession, Instant) -> Result<(), RequestRefused>,
    ) -> Result<oneshot::Receiver<Answer>, RequestError> {
        match make(&mut self.session.borrow_mut(), now()) {
            Ok(()) => {}
            Err(RequestRefused::NotOpen) => return Err(self.error_or_abandoned().into()),
            Err(refused) => return Err(refused.into()),
        }
        let (sender, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, sender);
        self.to_pump.notify_one();
        Ok(answer)
    }

    /// The next unread delivery; those that came before the end are handed out before its error.
    pub(crate) async fn next(&self) -> Result<Received, ConnectionError> {
        self.until(|| {
            if let Some(received) = self.unread.borrow_mut().pop_front() {
                self.session.borrow_mut().delivery_read();
                return Some(Ok(received));
            }
            self.error().map(Err)
        })
        .await
    }

    pub(crate) async fn welcomed(&self) -> Result<Welcome, ConnectionError> {
        self.until(|| match self.welcome.borrow().clone() {
            Some(welcome) => Some(Ok(welcome)),
            None => self.error().map(Err),
        })
        .await
    }

    /// Waits for the end of the read loop.
    pub(crate) async fn finished(&self) {
        self.until(|| self.finished.get().then_some(())).await;
    }

    pub(crate) fn close(&self) {
        self.closing.set(true);
        self.to_pump.notify_one();
    }

    pub(crate) fn error(&self) -> Option<ConnectionError> {
        self.error.borrow().clone()
    }

    pub(crate) fn error_or_abandoned(&self) -> ConnectionError {
        self.error().unwrap_or_else(ConnectionError::abandoned)
    }

    /// Waits until `ready` gives something. Dropping the future at any point loses nothing.
    async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        loop {
            // Made before the check: it hears of every wake-up from here on.
            let woken = self.to_handles.notified();
            if let Some(value) = ready() {
                return value;
            }
            woken.await;
        }
    }

    // What the pump does.

    /// Runs `step` on the session. The pump carries out its effects afterwards.
    pub(crate) fn with_session<T>(&self, step: impl FnOnce(&mut ClientSession) -> T) -> T {
        step(&mut self.session.borrow_mut())
    }

    pub(crate) fn set_welcome(&self, welcome: Welcome) {
        *self.welcome.borrow_mut() = Some(welcome);
        self.to_handles.notify_waiters();
    }

    pub(crate) fn push(&self, received: Received) {
        self.unread.borrow_mut().push_back(received);
        self.to_handles.notify_waiters();
    }

    pub(crate) fn answer(&self, id: MessageId, answer: Answer) {
        if let Some(waiting) = self.waiting.borrow_mut().remove(&id) {
            // Nobody waits any more where the caller dropped its future.
            let _ = waiting.send(answer);
        }
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing.get()
    }

    pub(crate) async fn woken(&self) {
        self.to_pump.notified().await;
    }

    /// No frame counts any more. Waiting requests learn of the error; the first error stays.
    pub(crate) fn end(&self, error: ConnectionError) {
        self.session.borrow_mut().abandon();
        self.error.borrow_mut().get_or_insert(error);
        self.waiting.borrow_mut().clear();
        self.to_handles.notify_waiters();
    }

    /// The read loop is over and the socket closed.
    pub(crate) fn finish(&self) {
        self.end(ConnectionError::abandoned());
        self.finished.set(true);
        self.to_handles.notify_waiters();
    }
}

/// Tokio's clock, so that a paused one is obeyed.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
