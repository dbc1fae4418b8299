//! What a session asks, and the script's say in the answer.

use std::time::{Duration, Instant};

use perilune_proto::scalar::{SessionId, Timestamp};
use perilune_proto::session::server::{AckVerdict, Admission, Effect, Refusal};
use perilune_proto::wire::{Ack, ErrorCode, FrameError, Register};

use super::{ConnectionId, Output, Rules, SUBSCRIPTION};
use crate::testkit::journal::Record;
use crate::testkit::script::{Request, RequestFault};

/// What becomes of a request.
enum Fate {
    /// It is asked and answered, perhaps with a fault in its answer.
    Counts(Option<RequestFault>),
    /// It fails.
    Fails(ErrorCode),
    /// It never came.
    Lost,
}

impl Rules {
    /// A text message came.
    pub(crate) fn text(&mut self, id: ConnectionId, text: &str, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.session.text(text, now);
        self.carry_out(id, now);
        self.pump(now);
    }

    /// A message came that is no frame.
    pub(crate) fn broken(&mut self, id: ConnectionId, error: &FrameError, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.session.broken(error);
        self.carry_out(id, now);
    }

    /// A connection is over. Again: nothing.
    pub(crate) fn gone(&mut self, id: ConnectionId) {
        if self.connections.remove(&id).is_some() {
            self.journal.write(Record::ConnectionEnded);
        }
    }

    /// Carries out what a session wants done.
    pub(super) fn carry_out(&mut self, id: ConnectionId, now: Instant) {
        let mut fault = None;
        while let Some(effect) = self.connections.get_mut(&id).and_then(|one| one.session.poll_effect()) {
            let fate = match &effect {
                Effect::Register(_) => self.fate(Request::Register),
                Effect::Confirm(_) => self.fate(Request::Ack),
                Effect::Check { .. } => self.fate(Request::Ping),
                _ => Fate::Counts(fault.take()),
            };
            match (effect, fate) {
                (_, Fate::Lost) => return self.cut(id),
                (Effect::Send(text), Fate::Counts(fault)) => self.answer(id, text, fault.as_ref()),
                (Effect::Close(code), _) => {
                    self.put(id, Output::Close(code));
                    return self.gone(id);
                }
                (question, Fate::Counts(next)) => {
                    self.grant(id, question, now);
                    fault = next;
                }
                (question, Fate::Fails(code)) => self.fail(id, &question, code),
            }
        }
    }

    fn fate(&mut self, request: Request) -> Fate {
        let fault = self.script.next_request(request);
        self.journal.set_unplayed(self.script.unplayed());
        match fault {
            Some(RequestFault::LoseRequest) => Fate::Lost,
            Some(RequestFault::Fail(code)) => Fate::Fails(code),
            fault => Fate::Counts(fault),
        }
    }

    fn grant(&mut self, id: ConnectionId, question: Effect, now: Instant) {
        match question {
            Effect::Register(register) => self.welcome(id, &register, now),
            Effect::Confirm(ack) => {
                let verdict = self.judge(&ack, now);
                self.session(id, |session| session.answer_ack(ack.message_id, verdict));
            }
            Effect::Check { message_id } => {
                let enabled = !self.paused;
                self.session(id, |session| session.answer_ping(message_id, Ok(enabled)));
            }
            _ => {}
        }
    }

    fn welcome(&mut self, id: ConnectionId, register: &Register, now: Instant) {
        if register.subscription_id != SUBSCRIPTION {
            let refusal = Refusal::new(ErrorCode::SubscriptionNotFound, "the test kit has one subscription");
            return self.session(id, |session| session.refuse(refusal));
        }
        self.journal.write(Record::SessionOpened { capacity: register.capacity });
        let admission = Admission {
            session_id: SessionId::from_u128(self.next_id().into()),
            subscription_name: "testkit".to_owned(),
            enabled: !self.paused,
            server_time: Timestamp::from_unix_micros(0).expect("1970 is a year"),
        };
        self.session(id, |session| session.accept(admission, now));
    }

    fn fail(&mut self, id: ConnectionId, question: &Effect, code: ErrorCode) {
        let refusal = Refusal::new(code, "the script says so");
        self.session(id, |session| match question {
            Effect::Register(_) => session.refuse(refusal),
            Effect::Confirm(Ack { message_id, .. }) => {
                let verdict = match refusal.code {
                    ErrorCode::ProofLost => AckVerdict::Lost,
                    ErrorCode::ProofInvalid => AckVerdict::Invalid,
                    _ => AckVerdict::Refused(refusal),
                };
                session.answer_ack(*message_id, verdict);
            }
            Effect::Check { message_id } => session.answer_ping(*message_id, Err(refusal)),
            _ => {}
        });
    }

    fn session(&mut self, id: ConnectionId, act: impl FnOnce(&mut perilune_proto::session::ServerSession)) {
        if let Some(connection) = self.connections.get_mut(&id) {
            act(&mut connection.session);
        }
    }

    /// Sends an answer, as the script will have it.
    fn answer(&mut self, id: ConnectionId, text: String, fault: Option<&RequestFault>) {
        match fault {
            Some(RequestFault::DropAnswer) => self.cut(id),
            Some(&RequestFault::Delay(after)) => self.put(id, Output::Send { text, after, cut_after: None }),
            Some(&RequestFault::CutAfter(bytes)) => {
                self.put(id, Output::Send { text, after: Duration::ZERO, cut_after: Some(bytes) });
                self.gone(id);
            }
            Some(RequestFault::GoSilent) => self.fall_silent(id),
            Some(&RequestFault::StallReads(time)) => {
                self.put(id, Output::now(text));
                self.put(id, Output::Stall(time));
            }
            _ => self.put(id, Output::now(text)),
        }
    }
}
