//! The server's end of one session.
//!
//! Source: events-v1.md sections 1 to 6. Texts of messages, answers of the store and `now` go in;
//! [`Effect`]s come out and are carried out in order by whoever owns the socket:
//!
//! ```text
//!             register          accept             silence, breach, end
//!   Fresh ───────────▶ Registering ──────▶ Open ──────────────────────▶ Over
//!     └──── 8 s ────────────┴── refuse ─────────────────────────────────▲
//! ```
//!
//! | the owner of the socket sees | calls |
//! | --- | --- |
//! | a text message; another one, or one that breaks RFC 6455 | [`text`](ServerSession::text); [`broken`](ServerSession::broken) |
//! | the peer gone | [`gone`](ServerSession::gone) |
//! | a deadline of [`poll_timeout`](ServerSession::poll_timeout) reached | [`timed_out`](ServerSession::timed_out) |
//! | the subscription found, or not | [`accept`](ServerSession::accept), [`refuse`](ServerSession::refuse) |
//! | the store's verdict on a proof | [`answer_ack`](ServerSession::answer_ack) |
//! | the credential checked afresh | [`answer_ping`](ServerSession::answer_ping) |
//! | a delivery leased for this session, within [`credit`](ServerSession::credit) | [`deliver`](ServerSession::deliver) |
//! | a delivery confirmed or dropped elsewhere | [`settle`](ServerSession::settle) |
//! | revoked, deleted, shutting down | [`end`](ServerSession::end), [`shut_down`](ServerSession::shut_down) |
//!
//! After each call: drain [`poll_effect`](ServerSession::poll_effect), then arm one timer. Which proof
//! is valid, who gets the next delivery and what the store holds is decided elsewhere.

mod credit;
mod effect;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use self::credit::Credit;
use self::requests::{Request, Requests};
use crate::limits::{HANDSHAKE_TIMEOUT, HEARTBEATS_MISSED_MAX, LEASE_LEFT_MS};
use crate::proof::EventProof;
use crate::scalar::{DeliveryId, Generation, MessageId, SessionId, SubscriptionId};
use crate::wire::{
    Ack, Acked, ClientFrame, CloseCode, ErrorCode, ErrorFrame, FrameError, Ping, Pong, Register, ServerFrame, Welcome,
    decode_client, encode_delivery, encode_server,
};

pub use self::effect::{AckVerdict, Admission, Effect, NotDelivered, Reason, Refusal, Terms};

/// The server's end of one session: what it was told, what it owes, what it may still send.
#[derive(Debug)]
pub struct ServerSession {
    terms: Terms,
    state: State,
    requests: Requests,
    credit: Credit,
    effects: VecDeque<Effect>,
}

#[derive(Debug)]
enum State {
    /// Nothing has come yet.
    Fresh { register_by: Instant },
    /// `register` was handed out; its answer is awaited.
    Registering(Register),
    /// `welcome` was sent.
    Open(Open),
    /// A close was handed out, or the peer is gone. Nothing has an effect any more.
    Over,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    session_id: SessionId,
    subscription_id: SubscriptionId,
    /// When three heartbeat intervals without a control request are over.
    silent_at: Instant,
}

impl ServerSession {
    /// A session whose WebSocket has just been accepted. It waits 8 s for `register`.
    #[must_use]
    pub fn new(terms: Terms, now: Instant) -> Self {
        Self {
            terms,
            state: State::Fresh { register_by: now + HANDSHAKE_TIMEOUT },
            requests: Requests::default(),
            credit: Credit::default(),
            effects: VecDeque::new(),
        }
    }

    /// What to do next, in order. `None` when all is done for now.
    #[must_use]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to call [`Self::timed_out`] next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        match &self.state {
            State::Fresh { register_by } => Some((*register_by, Reason::Register)),
            State::Open(open) => {
                let silence = (open.silent_at, Reason::Silence);
                let lapse = self.credit.next_lapse().map(|at| (at, Reason::Lapse));
                Some(lapse.filter(|(at, _)| *at < open.silent_at).unwrap_or(silence))
            }
            State::Registering(_) | State::Over => None,
        }
    }

    /// Whether the session has ended. What is still to be polled may be carried out, nothing follows it.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// The session's id and subscription, once `welcome` was sent and until it is over.
    #[must_use]
    pub const fn open(&self) -> Option<(SessionId, SubscriptionId)> {
        match &self.state {
            State::Open(open) => Some((open.session_id, open.subscription_id)),
            _ => None,
        }
    }

    /// How many more deliveries the session may have outstanding: its capacity less those that are
    /// neither confirmed nor lapsed. 0 unless it is open.
    #[must_use]
    pub fn credit(&self, now: Instant) -> u8 {
        if self.open().is_some() { self.credit.free(now) } else { 0 }
    }

    /// A text message came.
    pub fn text(&mut self, text: &str, now: Instant) {
        if self.is_over() {
            return;
        }
        match decode_client(text) {
            Ok(ClientFrame::Register(register)) => self.register(register),
            Ok(ClientFrame::Ack(ack)) => self.ack(ack, now),
            Ok(ClientFrame::Ping(ping)) => self.ping(&ping, now),
            Err(error) => self.broken(&error),
        }
    }

    /// A message came that is no frame: binary, too long, not UTF-8.
    pub fn broken(&mut self, error: &FrameError) {
        self.breach_with(error.close_code(), error.to_string());
    }

    /// The peer closed, or the socket failed. No effect follows; its deliveries' leases run out by themselves.
    pub fn gone(&mut self) {
        self.state = State::Over;
        self.effects.clear();
    }

    /// A deadline of [`Self::poll_timeout`] may have passed.
    pub fn timed_out(&mut self, now: Instant) {
        match self.state {
            State::Fresh { register_by } if now >= register_by => self.breach("no register within 8 s"),
            // No error frame: whoever was silent for so long mostly reads nothing either.
            State::Open(open) if now >= open.silent_at => self.close(CloseCode::AWAY),
            State::Open(_) => self.credit.forget_lapsed(now),
            State::Fresh { .. } | State::Registering(_) | State::Over => {}
        }
    }

    /// Answers [`Effect::Register`]: the subscription may be consumed. Sends `welcome`.
    pub fn accept(&mut self, admission: Admission, now: Instant) {
        let State::Registering(register) = &self.state else { return };
        let welcome = Welcome {
            reply_to: register.message_id,
            session_id: admission.session_id,
            subscription_id: register.subscription_id,
            subscription_name: admission.subscription_name,
            enabled: admission.enabled,
            capacity: register.capacity,
            heartbeat_interval_ms: self.terms.heartbeat_interval_ms,
            lease_ms: self.terms.lease_ms,
            server_time: admission.server_time,
        };
        self.credit = Credit::new(register.capacity);
        self.state = State::Open(Open {
            session_id: welcome.session_id,
            subscription_id: welcome.subscription_id,
            silent_at: self.silent_at(now),
        });
        self.send(&ServerFrame::Welcome(welcome));
    }

    /// Answers [`Effect::Register`]: it may not. Sends the error and closes.
    pub fn refuse(&mut self, refusal: Refusal) {
        let State::Registering(register) = &self.state else { return };
        let reply_to = register.message_id;
        self.fail(Some(reply_to), refusal);
    }

    /// Answers [`Effect::Confirm`]. A verdict that is durable stays so when the session has ended meanwhile.
    pub fn answer_ack(&mut self, message_id: MessageId, verdict: AckVerdict) {
        let Some(open) = self.open_state() else { return };
        let Some((delivery_id, generation)) = self.requests.take_ack(message_id) else { return };
        match verdict {
            AckVerdict::Confirmed { event_id, replayed } => {
                self.credit.settle(delivery_id, generation);
                let (session_id, reply_to) = (open.session_id, message_id);
                self.send(&ServerFrame::Acked(Acked {
                    session_id,
                    reply_to,
                    delivery_id,
                    event_id,
                    generation,
                    replayed,
                }));
            }
            AckVerdict::Lost => {
                self.credit.settle(delivery_id, generation);
                self.reply_error(open, message_id, ErrorCode::ProofLost, "superseded, or no longer kept");
            }
            AckVerdict::Invalid => {
                self.reply_error(open, message_id, ErrorCode::ProofInvalid, "not a proof of this delivery");
            }
            AckVerdict::Refused(refusal) => self.fail(Some(message_id), refusal),
        }
    }

    /// Answers [`Effect::Check`]: whether the subscription is enabled, or why the credential may not
    /// keep the session.
    pub fn answer_ping(&mut self, message_id: MessageId, checked: Result<bool, Refusal>) {
        let Some(open) = self.open_state() else { return };
        if !self.requests.take_ping(message_id) {
            return;
        }
        match checked {
            Ok(enabled) => {
                let pong = Pong { session_id: open.session_id, reply_to: message_id, enabled };
                self.send(&ServerFrame::Pong(pong));
            }
            Err(refusal) => self.fail(Some(message_id), refusal),
        }
    }

    /// Sends a delivery that was leased for this session, with the text of its event.
    ///
    /// `lease_ms` is what is left of the lease now, 1 to 30,000. A newer generation takes the place of
    /// an older one of the same delivery.
    ///
    /// # Errors
    /// [`NotDelivered`], and nothing is sent: the lease is left to lapse.
    pub fn deliver(
        &mut self,
        proof: &EventProof,
        lease_ms: u32,
        event: &str,
        now: Instant,
    ) -> Result<(), NotDelivered> {
        let open = self.open_state().ok_or(NotDelivered::NotOpen)?;
        if proof.subscription_id != open.subscription_id {
            return Err(NotDelivered::OtherSubscription);
        }
        if !LEASE_LEFT_MS.contains(&lease_ms) {
            return Err(NotDelivered::Lease);
        }
        let lapses_at = now + Duration::from_millis(lease_ms.into());
        self.credit.take(proof.delivery_id, proof.generation, lapses_at, now)?;
        self.effects.push_back(Effect::Send(encode_delivery(open.session_id, proof, lease_ms, event)));
        Ok(())
    }

    /// A delivery was confirmed by another session, or is no longer kept: its credit is free again.
    pub fn settle(&mut self, delivery_id: DeliveryId, generation: Generation) {
        self.credit.settle(delivery_id, generation);
    }

    /// Ends the session with an error about it, and the close code that belongs to the error.
    pub fn end(&mut self, refusal: Refusal) {
        self.fail(None, refusal);
    }

    /// Ends the session since the server shuts down: `UNAVAILABLE`, then close 1012.
    pub fn shut_down(&mut self) {
        self.fail_with(None, Refusal::new(ErrorCode::Unavailable, "the server shuts down"), CloseCode::RESTART);
    }

    fn register(&mut self, register: Register) {
        match self.state {
            State::Fresh { .. } => {
                self.effects.push_back(Effect::Register(register.clone()));
                self.state = State::Registering(register);
            }
            _ => self.breach("a session registers once"),
        }
    }

    fn ack(&mut self, ack: Ack, now: Instant) {
        let Ack { message_id, delivery_id, generation, .. } = ack;
        if self.control(ack.session_id, Request::Ack { message_id, delivery_id, generation }, now) {
            self.effects.push_back(Effect::Confirm(ack));
        }
    }

    fn ping(&mut self, ping: &Ping, now: Instant) {
        let message_id = ping.message_id;
        if self.control(ping.session_id, Request::Ping { message_id }, now) {
            self.effects.push_back(Effect::Check { message_id });
        }
    }

    /// Admits a control request into the table of those in flight, or ends the session.
    fn control(&mut self, session_id: SessionId, request: Request, now: Instant) -> bool {
        let State::Open(open) = &self.state else {
            self.breach("nothing but register comes before welcome");
            return false;
        };
        let admitted = if session_id == open.session_id {
            self.requests.admit(request)
        } else {
            Err("/session_id must be this session's")
        };
        if let Err(breach) = admitted {
            self.breach(breach);
            return false;
        }
        self.state = State::Open(Open { silent_at: self.silent_at(now), ..*open });
        true
    }

    fn silent_at(&self, now: Instant) -> Instant {
        now + Duration::from_millis(self.terms.heartbeat_interval_ms.into()) * HEARTBEATS_MISSED_MAX
    }

    const fn open_state(&self) -> Option<Open> {
        match self.state {
            State::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Answers a request with an error that leaves the connection as it is.
    fn reply_error(&mut self, open: Open, reply_to: MessageId, code: ErrorCode, message: &str) {
        self.send(&ServerFrame::Error(ErrorFrame {
            session_id: Some(open.session_id),
            reply_to: Some(reply_to),
            code,
            message: message.to_owned(),
            retry_after_ms: None,
        }));
    }

    fn fail(&mut self, reply_to: Option<MessageId>, refusal: Refusal) {
        let close = refusal.code.close_code();
        self.fail_with(reply_to, refusal, close);
    }

    fn fail_with(&mut self, reply_to: Option<MessageId>, refusal: Refusal, close: CloseCode) {
        if self.is_over() {
            return;
        }
        self.send(&ServerFrame::Error(ErrorFrame {
            session_id: self.open().map(|(session_id, _)| session_id),
            reply_to,
            code: refusal.code,
            message: refusal.message.into_owned(),
            retry_after_ms: refusal.retry_after_ms,
        }));
        self.close(close);
    }

    fn breach(&mut self, message: &'static str) {
        self.breach_with(CloseCode::PROTOCOL, message.to_owned());
    }

    fn breach_with(&mut self, close: CloseCode, message: String) {
        self.fail_with(None, Refusal::new(ErrorCode::ProtocolError, message), close);
    }

    fn send(&mut self, frame: &ServerFrame) {
        self.effects.push_back(Effect::Send(encode_server(frame)));
    }

    fn close(&mut self, code: CloseCode) {
        self.state = State::Over;
        self.requests.clear();
        self.effects.push_back(Effect::Close(code));
    }
}
