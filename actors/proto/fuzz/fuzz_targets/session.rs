//! Both ends of a session, joined by a link that keeps order, under any operations at any times.
//!
//! As long as the link is faithful, neither end may find a breach in the other. Whatever comes, no end
//! panics, the server never has more outstanding than the capacity, and nothing follows a close.

#![no_main]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, MessageId, Secret, SessionId, SubscriptionId, TaskId, Timestamp,
};
use perilune_proto::session::client::{ClientSession, Effect as ToDriver, EndCause};
use perilune_proto::session::server::{AckVerdict, Admission, Effect, Refusal, ServerSession, Terms};
use perilune_proto::wire::{
    CloseCode, ErrorCode, Register, ServerFrame, decode_server, encode_client, encode_event, message_text,
};
use perilune_proto::{EventProof, RawJson, ResultEvent, Snapshot, Status};

#[derive(Arbitrary, Debug)]
struct Run {
    capacity: u8,
    heartbeat_ms: u16,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Admit { enabled: bool },
    Refuse(u8),
    Ack { message: u8, delivery: u8 },
    Ping { message: u8 },
    AnswerAck(Verdict),
    AnswerPing { enabled: bool },
    RefusePing(u8),
    Deliver { delivery: u8, lease_ms: u16 },
    Settle { delivery: u8 },
    Read,
    ToServer,
    ToClient,
    Pass { milliseconds: u16 },
    End(u8),
    ShutDown,
    DamageToServer(Vec<u8>),
    DamageToClient(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
enum Verdict {
    First,
    Replayed,
    Lost,
    Invalid,
    Refused(u8),
}

const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(2);

struct Pair {
    client: ClientSession,
    server: ServerSession,
    capacity: u8,
    to_server: VecDeque<String>,
    to_client: VecDeque<String>,
    /// What the server's owner has been asked and has not answered.
    asked: VecDeque<Effect>,
    /// Whether everything that was read was written by the other end.
    faithful: bool,
    server_closed: bool,
    client_ended: bool,
    now: Instant,
}

fuzz_target!(|run: Run| {
    let capacity = run.capacity % 32 + 1;
    let now = Instant::now();
    let register = Register { message_id: MessageId::from_u128(0), subscription_id: SUBSCRIPTION, capacity };
    let heartbeat_interval_ms = 1_000 + u32::from(run.heartbeat_ms) % 14_001;
    let mut pair = Pair {
        client: ClientSession::open(register, now + Duration::from_secs(8), Duration::from_secs(10)),
        server: ServerSession::new(Terms { heartbeat_interval_ms, lease_ms: 30_000 }, now),
        capacity,
        to_server: VecDeque::new(),
        to_client: VecDeque::new(),
        asked: VecDeque::new(),
        faithful: true,
        server_closed: false,
        client_ended: false,
        now,
    };
    pair.drain();
    for step in run.steps {
        pair.step(step);
        pair.drain();
    }
});

impl Pair {
    fn step(&mut self, step: Step) {
        match step {
            Step::Admit { enabled } => {
                let admission = Admission {
                    session_id: SessionId::from_u128(1),
                    subscription_name: "s".to_owned(),
                    enabled,
                    server_time: Timestamp::from_unix_micros(0).expect("in range"),
                };
                self.server.accept(admission, self.now);
            }
            Step::Refuse(code) => self.server.refuse(refusal(code)),
            Step::Ack { message, delivery } => {
                let _ = self.client.ack(MessageId::from_u128(message.into()), &proof(delivery), self.now);
            }
            Step::Ping { message } => {
                let _ = self.client.ping(MessageId::from_u128(message.into()), self.now);
            }
            Step::AnswerAck(verdict) => self.answer_ack(verdict),
            Step::AnswerPing { enabled } => {
                if let Some(message_id) = self.next_check() {
                    self.server.answer_ping(message_id, Ok(enabled));
                }
            }
            Step::RefusePing(code) => {
                if let Some(message_id) = self.next_check() {
                    self.server.answer_ping(message_id, Err(refusal(code)));
                }
            }
            Step::Deliver { delivery, lease_ms } => self.deliver(delivery, lease_ms),
            Step::Settle { delivery } => {
                let proof = proof(delivery);
                self.server.settle(proof.delivery_id, proof.generation);
            }
            Step::Read => self.client.delivery_read(),
            Step::ToServer => {
                if let Some(text) = self.to_server.pop_front() {
                    self.server.text(&text, self.now);
                }
            }
            Step::ToClient => {
                if let Some(text) = self.to_client.pop_front() {
                    let frame = decode_server(&text).expect("a server writes frames");
                    self.client.receive(frame);
                }
            }
            Step::Pass { milliseconds } => {
                self.now += Duration::from_millis(milliseconds.into());
                self.server.timed_out(self.now);
                self.client.timed_out(self.now);
            }
            Step::End(code) => self.server.end(refusal(code)),
            Step::ShutDown => self.server.shut_down(),
            Step::DamageToServer(bytes) => {
                self.faithful = false;
                match message_text(&bytes) {
                    Ok(text) => self.server.text(text, self.now),
                    Err(error) => self.server.broken(&error),
                }
            }
            Step::DamageToClient(bytes) => {
                self.faithful = false;
                if let Ok(frame) = message_text(&bytes).and_then(decode_server) {
                    self.client.receive(frame);
                }
            }
        }
    }

    fn answer_ack(&mut self, verdict: Verdict) {
        let at = self.asked.iter().position(|effect| matches!(effect, Effect::Confirm(_)));
        let Some(Effect::Confirm(ack)) = at.and_then(|at| self.asked.remove(at)) else { return };
        let event_id = EventId::from_bytes(*ack.delivery_id.as_bytes());
        let verdict = match verdict {
            Verdict::First => AckVerdict::Confirmed { event_id, replayed: false },
            Verdict::Replayed => AckVerdict::Confirmed { event_id, replayed: true },
            Verdict::Lost => AckVerdict::Lost,
            Verdict::Invalid => AckVerdict::Invalid,
            Verdict::Refused(code) => AckVerdict::Refused(refusal(code)),
        };
        self.server.answer_ack(ack.message_id, verdict);
    }

    fn next_check(&mut self) -> Option<MessageId> {
        let at = self.asked.iter().position(|effect| matches!(effect, Effect::Check { .. }))?;
        match self.asked.remove(at) {
            Some(Effect::Check { message_id }) => Some(message_id),
            _ => None,
        }
    }

    fn deliver(&mut self, delivery: u8, lease_ms: u16) {
        let credit = self.server.credit(self.now);
        assert!(credit <= self.capacity);
        let proof = proof(delivery);
        let lease_ms = 1 + u32::from(lease_ms) % 30_000;
        let sent = self.server.deliver(&proof, lease_ms, &event(proof.event_id), self.now);
        let left = self.server.credit(self.now);
        assert!(sent.is_ok() || left == credit);
        assert!(sent.is_err() || left + 1 == credit || left == credit, "one at most is taken");
    }

    /// Carries the effects of both ends out.
    fn drain(&mut self) {
        while let Some(effect) = self.server.poll_effect() {
            assert!(!self.server_closed, "nothing follows a close");
            match effect {
                Effect::Send(text) => self.to_client.push_back(text),
                Effect::Close(code) => {
                    assert!(!self.faithful || code != CloseCode::PROTOCOL || self.may_close_1002(), "a breach");
                    self.server_closed = true;
                }
                asked => self.asked.push_back(asked),
            }
        }
        while let Some(effect) = self.client.poll_effect() {
            assert!(!self.client_ended, "nothing follows an end");
            match effect {
                ToDriver::Send(frame) => self.to_server.push_back(encode_client(&frame)),
                ToDriver::End(cause) => {
                    self.client_ended = true;
                    assert!(!self.faithful || !matches!(cause, EndCause::Breach(_)), "{cause:?}");
                }
                _ => {}
            }
        }
    }

    /// A server on a faithful link closes with 1002 for want of a `register`, or where its owner says so.
    fn may_close_1002(&self) -> bool {
        self.to_client.iter().any(|text| match decode_server(text) {
            Ok(ServerFrame::Error(error)) => {
                error.code == ErrorCode::ProtocolError
                    && (error.message == "the owner says so" || error.message == "no register within 8 s")
            }
            _ => false,
        })
    }
}

fn refusal(code: u8) -> Refusal {
    const CODES: [ErrorCode; 7] = [
        ErrorCode::Unavailable,
        ErrorCode::RateLimited,
        ErrorCode::Unauthenticated,
        ErrorCode::PermissionDenied,
        ErrorCode::SubscriptionNotFound,
        ErrorCode::HistoryGap,
        ErrorCode::ProtocolError,
    ];
    Refusal::new(CODES[usize::from(code) % CODES.len()].clone(), "the owner says so")
}

/// Delivery `n / 4` under generation `n % 4 + 1`; its event has the same id.
fn proof(n: u8) -> EventProof {
    EventProof {
        subscription_id: SUBSCRIPTION,
        delivery_id: DeliveryId::from_u128(u128::from(n / 4)),
        event_id: EventId::from_u128(u128::from(n / 4)),
        generation: Generation(u64::from(n % 4) + 1),
        secret: Secret::from_bytes([n; 32]),
    }
}

fn event(event_id: EventId) -> String {
    let time: Timestamp = "2026-08-01T10:00:00Z".parse().expect("a time");
    encode_event(&ResultEvent {
        event_id,
        sequence: perilune_proto::scalar::Sequence(1),
        occurred_at: time,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(1),
            queue: "q".parse().expect("a name"),
            operation: "o".parse().expect("a name"),
            status: Status::Started,
            version: perilune_proto::scalar::TaskVersion(1),
            created_at: time,
            updated_at: time,
            payload: RawJson::null(),
            result: RawJson::null(),
            error: None,
        },
    })
}
