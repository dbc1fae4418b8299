//! The client's end of one session.
//!
//! Source: events-v1.md sections 2 to 4 and consumer.md section 1. A driver owns the socket and the
//! clock: it calls the methods below, drains [`ClientSession::poll_effect`] after each call, and calls
//! [`ClientSession::timed_out`] when [`ClientSession::poll_timeout`] has come.
//!
//! ```text
//! Registering ──welcome──▶ Open ──breach, error, timeout, close──▶ Ended
//!      └────────breach, error, timeout, close────────────────────────┘
//! ```

mod cause;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::instant::later;
use crate::limits;
use crate::proof::EventProof;
use crate::scalar::{DeliveryId, EventId, Generation, MessageId, SessionId};
use crate::wire::{
    Ack, Acked, ClientFrame, CloseCode, Delivery, ErrorCode, ErrorFrame, Ping, Pong, Register, ServerFrame, Welcome,
};

pub use cause::{Breach, EndCause, Refusal, RequestRefused};

/// The client's end of one session, from `register` to its end.
#[derive(Debug)]
pub struct ClientSession {
    register: Register,
    request_timeout: Duration,
    phase: Phase,
    /// Control requests without an answer yet: at most [`limits::CONTROL_REQUESTS_MAX`].
    in_flight: Vec<InFlight>,
    /// Deliveries handed out by an effect and not yet read by the application: at most the capacity.
    unread: u8,
    /// The last refused request that a server follows up with a close, should it do so.
    refusal: Option<Refusal>,
    effects: VecDeque<Effect>,
}

#[derive(Debug)]
enum Phase {
    Registering { deadline: Instant },
    Open { session_id: SessionId },
    Ended,
}

#[derive(Debug)]
struct InFlight {
    message_id: MessageId,
    request: Request,
    deadline: Instant,
}

/// What a reply is checked against. The secret is not kept: a receipt does not repeat it.
#[derive(Debug)]
enum Request {
    Ack { delivery_id: DeliveryId, event_id: EventId, generation: Generation },
    Ping,
}

/// Which deadline comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The handshake's time ends: without a `welcome` so does the session.
    Welcome,
    /// The oldest control request's time ends: without a reply so does the session.
    Reply,
}

/// What the driver does for the session.
#[derive(Debug)]
#[must_use]
pub enum Effect {
    /// Write this frame.
    Send(ClientFrame),
    /// The session is open.
    Welcomed(Welcome),
    /// Hand this to the application, and call [`ClientSession::delivery_read`] once it has taken it.
    Deliver(Delivery),
    /// The request with this message id is answered.
    Answered(MessageId, Answer),
    /// Close with [`EndCause::close_code`]; nothing follows. Requests still in flight have no answer.
    End(EndCause),
}

/// A server's answer to a control request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The `ack` confirmed.
    Acked(Acked),
    /// The `ping` arrived.
    Pong(Pong),
    /// The request failed; the session stays unless the server ends it.
    Refused(Refusal),
}

impl ClientSession {
    /// Opens a session with its `register`: to be called after the 101, with the handshake's deadline.
    ///
    /// `request_timeout` is the whole time of a control request, usually
    /// [`limits::CONTROL_REQUEST_TIMEOUT`].
    #[must_use]
    pub fn open(register: Register, handshake_deadline: Instant, request_timeout: Duration) -> Self {
        let first = Effect::Send(ClientFrame::Register(register.clone()));
        Self {
            register,
            request_timeout,
            phase: Phase::Registering { deadline: handshake_deadline },
            in_flight: Vec::new(),
            unread: 0,
            refusal: None,
            effects: VecDeque::from([first]),
        }
    }

    /// Takes the next thing to do. Drain it after each call of another method.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Self::timed_out`] is due, and what for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        match self.phase {
            Phase::Registering { deadline } => Some((deadline, Reason::Welcome)),
            Phase::Open { .. } => {
                let oldest = self.in_flight.iter().map(|request| request.deadline).min();
                oldest.map(|deadline| (deadline, Reason::Reply))
            }
            Phase::Ended => None,
        }
    }

    /// Whether the session is over.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Asks for a delivery to be confirmed. The proof may come from an earlier session of the same
    /// subscription. The request's time starts here, so that a write queue is part of it.
    ///
    /// # Errors
    /// [`RequestRefused`]: nothing was sent and the session stays as it is.
    pub fn ack(&mut self, message_id: MessageId, proof: &EventProof, now: Instant) -> Result<(), RequestRefused> {
        if proof.subscription_id != self.register.subscription_id {
            return Err(RequestRefused::OtherSubscription);
        }
        let EventProof { delivery_id, event_id, generation, .. } = *proof;
        let session_id = self.take_place(message_id, Request::Ack { delivery_id, event_id, generation }, now)?;
        let secret = proof.secret.clone();
        let frame = ClientFrame::Ack(Ack { session_id, message_id, delivery_id, generation, secret });
        self.effects.push_back(Effect::Send(frame));
        Ok(())
    }

    /// Keeps the session and asks whether the subscription is enabled.
    ///
    /// # Errors
    /// [`RequestRefused`]: nothing was sent and the session stays as it is.
    pub fn ping(&mut self, message_id: MessageId, now: Instant) -> Result<(), RequestRefused> {
        let session_id = self.take_place(message_id, Request::Ping, now)?;
        self.effects.push_back(Effect::Send(ClientFrame::Ping(Ping { session_id, message_id })));
        Ok(())
    }

    /// The application has taken one delivery out of the buffer.
    pub const fn delivery_read(&mut self) {
        self.unread = self.unread.saturating_sub(1);
    }

    /// A frame has come that passed the frame reader.
    pub fn receive(&mut self, frame: ServerFrame) {
        let outcome = match self.phase {
            Phase::Registering { .. } => self.receive_first(frame),
            Phase::Open { session_id } => self.receive_later(frame, session_id),
            Phase::Ended => return,
        };
        if let Err(cause) = outcome {
            self.end(cause);
        }
    }

    /// The driver has found a breach below the frames: a message that is no frame, or broken framing.
    pub fn breached(&mut self, breach: Breach) {
        self.end(EndCause::Breach(breach));
    }

    /// The peer has sent a WebSocket close, or has gone without one ([`CloseCode`] 1006).
    pub fn peer_closed(&mut self, code: CloseCode) {
        // A server says why in an `error`, and the close that follows it adds nothing.
        let explained = self.refusal.take_if(|refusal| refusal.explains(code));
        self.end(explained.map_or(EndCause::PeerClosed(code), EndCause::Refused));
    }

    /// The driver has lost or given up the transport: the session is over without an effect.
    pub fn abandon(&mut self) {
        self.phase = Phase::Ended;
        self.in_flight.clear();
    }

    /// [`Self::poll_timeout`] has come. Earlier, it does nothing.
    pub fn timed_out(&mut self, now: Instant) {
        match self.poll_timeout() {
            Some((due, _)) if now < due => {}
            Some((_, Reason::Welcome)) => self.end(EndCause::HandshakeTimeout),
            // A late reply could no longer be told from another request's, so the connection goes.
            Some((_, Reason::Reply)) => self.end(EndCause::RequestTimeout),
            None => {}
        }
    }

    fn take_place(
        &mut self,
        message_id: MessageId,
        request: Request,
        now: Instant,
    ) -> Result<SessionId, RequestRefused> {
        let Phase::Open { session_id } = self.phase else {
            return Err(RequestRefused::NotOpen);
        };
        if self.in_flight.iter().any(|request| request.message_id == message_id) {
            return Err(RequestRefused::MessageIdInUse);
        }
        if self.in_flight.len() >= limits::CONTROL_REQUESTS_MAX {
            return Err(RequestRefused::Busy);
        }
        let deadline = later(now, self.request_timeout);
        self.in_flight.push(InFlight { message_id, request, deadline });
        Ok(session_id)
    }

    /// The request that is answered: it is in flight no more.
    fn take_request(&mut self, message_id: MessageId) -> Option<Request> {
        let at = self.in_flight.iter().position(|request| request.message_id == message_id)?;
        Some(self.in_flight.swap_remove(at).request)
    }

    fn receive_first(&mut self, frame: ServerFrame) -> Result<(), EndCause> {
        match frame {
            ServerFrame::Welcome(welcome) => {
                let echoed = welcome.reply_to == self.register.message_id
                    && welcome.subscription_id == self.register.subscription_id
                    && welcome.capacity == self.register.capacity;
                if !echoed {
                    return Err(Breach::Echo.into());
                }
                self.phase = Phase::Open { session_id: welcome.session_id };
                self.effects.push_back(Effect::Welcomed(welcome));
                Ok(())
            }
            ServerFrame::Error(error) => {
                if error.session_id.is_some() {
                    return Err(Breach::Session.into());
                }
                if error.reply_to.is_some_and(|id| id != self.register.message_id) {
                    return Err(Breach::Reply.into());
                }
                Err(ends_session(error))
            }
            _ => Err(Breach::OutOfPlace.into()),
        }
    }

    fn receive_later(&mut self, frame: ServerFrame, session_id: SessionId) -> Result<(), EndCause> {
        match frame {
            ServerFrame::Welcome(_) => Err(Breach::OutOfPlace.into()),
            ServerFrame::Delivery(delivery) => {
                same_session(session_id, Some(delivery.session_id))?;
                self.deliver(delivery)
            }
            ServerFrame::Acked(acked) => {
                same_session(session_id, Some(acked.session_id))?;
                self.acked(acked)
            }
            ServerFrame::Pong(pong) => {
                same_session(session_id, Some(pong.session_id))?;
                let Some(Request::Ping) = self.take_request(pong.reply_to) else {
                    return Err(Breach::Reply.into());
                };
                self.effects.push_back(Effect::Answered(pong.reply_to, Answer::Pong(pong)));
                Ok(())
            }
            ServerFrame::Error(error) => {
                same_session(session_id, error.session_id)?;
                self.refused(error)
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) -> Result<(), EndCause> {
        if delivery.proof.subscription_id != self.register.subscription_id {
            return Err(Breach::OtherSubscription.into());
        }
        // No breach: the server counts unlapsed deliveries, the buffer keeps lapsed ones too.
        if self.unread >= self.register.capacity {
            return Err(EndCause::ReceiveBufferFull);
        }
        self.unread += 1;
        self.effects.push_back(Effect::Deliver(delivery));
        Ok(())
    }

    fn acked(&mut self, acked: Acked) -> Result<(), EndCause> {
        let Some(Request::Ack { delivery_id, event_id, generation }) = self.take_request(acked.reply_to) else {
            return Err(Breach::Reply.into());
        };
        if (delivery_id, event_id, generation) != (acked.delivery_id, acked.event_id, acked.generation) {
            return Err(Breach::Receipt.into());
        }
        self.effects.push_back(Effect::Answered(acked.reply_to, Answer::Acked(acked)));
        Ok(())
    }

    fn refused(&mut self, error: ErrorFrame) -> Result<(), EndCause> {
        let Some(reply_to) = error.reply_to else {
            return Err(ends_session(error));
        };
        let Some(request) = self.take_request(reply_to) else {
            return Err(Breach::Reply.into());
        };
        let about_proof = matches!(error.code, ErrorCode::ProofLost | ErrorCode::ProofInvalid);
        if about_proof && matches!(request, Request::Ping) {
            return Err(Breach::ProofCode.into());
        }
        let refusal = Refusal::from(error);
        if !about_proof {
            self.refusal = Some(refusal.clone());
        }
        self.effects.push_back(Effect::Answered(reply_to, Answer::Refused(refusal)));
        Ok(())
    }

    fn end(&mut self, cause: EndCause) {
        if !self.is_ended() {
            self.abandon();
            self.effects.push_back(Effect::End(cause));
        }
    }
}

fn same_session(ours: SessionId, theirs: Option<SessionId>) -> Result<(), EndCause> {
    if theirs == Some(ours) { Ok(()) } else { Err(Breach::Session.into()) }
}

/// An `error` about the session as a whole.
fn ends_session(error: ErrorFrame) -> EndCause {
    match error.code {
        ErrorCode::ProofLost | ErrorCode::ProofInvalid => Breach::ProofCode.into(),
        _ => EndCause::Refused(Refusal::from(error)),
    }
}
