//! One session at a time, told what comes, asked what follows.

use std::time::{Duration, Instant};

use super::*;
use crate::scalar::{EventId, Secret, Timestamp};
use crate::wire::{decode_server, encode_client};

const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(1);
const SESSION: SessionId = SessionId::from_u128(2);

struct Bench {
    session: ServerSession,
    now: Instant,
}

fn message(n: u128) -> MessageId {
    MessageId::from_u128(n)
}

fn proof(n: u128, generation: u64) -> EventProof {
    EventProof {
        subscription_id: SUBSCRIPTION,
        delivery_id: DeliveryId::from_u128(n),
        event_id: EventId::from_u128(n),
        generation: Generation(generation),
        secret: Secret::from_bytes([7; 32]),
    }
}

fn register(capacity: u8) -> String {
    let register = Register { message_id: message(100), subscription_id: SUBSCRIPTION, capacity };
    encode_client(&ClientFrame::Register(register))
}

fn ping(n: u128) -> String {
    encode_client(&ClientFrame::Ping(Ping { session_id: SESSION, message_id: message(n) }))
}

fn ack(n: u128, proof: &EventProof) -> String {
    encode_client(&ClientFrame::Ack(Ack {
        session_id: SESSION,
        message_id: message(n),
        delivery_id: proof.delivery_id,
        generation: proof.generation,
        secret: proof.secret.clone(),
    }))
}

impl Bench {
    fn fresh() -> Self {
        #[expect(clippy::disallowed_methods, reason = "only the start is read; all that follows is counted from it")]
        let now = Instant::now();
        Self { session: ServerSession::new(Terms::default(), now), now }
    }

    fn open(capacity: u8) -> Self {
        let mut bench = Self::fresh();
        bench.text(&register(capacity));
        assert!(matches!(bench.effects()[..], [Effect::Register(_)]));
        bench.session.accept(
            Admission {
                session_id: SESSION,
                subscription_name: "invoices".to_owned(),
                enabled: true,
                server_time: Timestamp::from_unix_micros(0).expect("in range"),
            },
            bench.now,
        );
        assert!(matches!(bench.sent()[..], [ServerFrame::Welcome(_)]));
        bench
    }

    fn text(&mut self, text: &str) {
        self.session.text(text, self.now);
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.session.poll_effect()).collect()
    }

    fn sent(&mut self) -> Vec<ServerFrame> {
        let text = |effect| match effect {
            Effect::Send(text) => decode_server(&text).expect("what a server sends is valid"),
            other => panic!("{other:?}"),
        };
        self.effects().into_iter().map(text).collect()
    }

    /// The session must have ended with an error about itself and this close.
    fn ended(&mut self, code: &ErrorCode, close: CloseCode) -> ErrorFrame {
        let mut effects = self.effects();
        assert_eq!(effects.pop(), Some(Effect::Close(close)));
        assert!(self.session.is_over());
        let Some(Effect::Send(text)) = effects.pop() else { panic!("no error frame") };
        let Ok(ServerFrame::Error(error)) = decode_server(&text) else { panic!("{text}") };
        assert_eq!(&error.code, code);
        error
    }

    fn breached(&mut self) {
        let error = self.ended(&ErrorCode::ProtocolError, CloseCode::PROTOCOL);
        assert_eq!(error.reply_to, None);
        self.text(&ping(99));
        self.session.timed_out(self.now + Duration::from_secs(3600));
        assert_eq!(self.effects(), [], "nothing follows the close");
    }

    fn deliver(&mut self, proof: &EventProof, lease_ms: u32) -> Result<(), NotDelivered> {
        self.session.deliver(proof, lease_ms, "{}", self.now)
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
        self.session.timed_out(self.now);
    }
}

#[test]
fn a_session_that_never_registers_ends_with_1002_after_8_seconds() {
    let mut bench = Bench::fresh();
    assert_eq!(bench.session.poll_timeout(), Some((bench.now + Duration::from_secs(8), Reason::Register)));
    bench.pass(7_999);
    assert_eq!(bench.effects(), []);
    bench.pass(1);
    bench.breached();
}

#[test]
fn nothing_but_one_register_comes_first() {
    for first in [ping(1), ack(1, &proof(1, 1))] {
        let mut bench = Bench::fresh();
        bench.text(&first);
        bench.breached();
    }
    let mut bench = Bench::fresh();
    bench.text(&register(4));
    assert_eq!(bench.effects().len(), 1);
    bench.text(&ping(1));
    bench.breached();
    let mut bench = Bench::open(4);
    bench.text(&register(4));
    bench.breached();
}

#[test]
fn a_refused_register_is_answered_and_closed() {
    for (code, close) in [
        (ErrorCode::SubscriptionNotFound, CloseCode::POLICY),
        (ErrorCode::HistoryGap, CloseCode::POLICY),
        (ErrorCode::RateLimited, CloseCode::TRY_AGAIN),
    ] {
        let mut bench = Bench::fresh();
        bench.text(&register(4));
        assert_eq!(bench.effects().len(), 1);
        let refusal = Refusal { retry_after_ms: Some(1_000), ..Refusal::new(code.clone(), "no") };
        bench.session.refuse(refusal);
        let error = bench.ended(&code, close);
        assert_eq!((error.session_id, error.reply_to), (None, Some(message(100))));
        assert_eq!(error.retry_after_ms, Some(1_000));
    }
}

#[test]
fn messages_that_are_no_frames_end_with_their_own_close_codes() {
    for (error, close) in [
        (FrameError::Binary, CloseCode::UNSUPPORTED),
        (FrameError::TooLong, CloseCode::TOO_LARGE),
        (FrameError::NotUtf8, CloseCode::INVALID_TEXT),
    ] {
        let mut bench = Bench::open(4);
        bench.session.broken(&error);
        assert_eq!(bench.ended(&ErrorCode::ProtocolError, close).session_id, Some(SESSION));
    }
    let mut bench = Bench::open(4);
    bench.text("{}");
    bench.breached();
}

#[test]
fn another_sessions_id_ends_the_session() {
    let mut bench = Bench::open(4);
    let foreign = Ping { session_id: SessionId::from_u128(9), message_id: message(1) };
    bench.text(&encode_client(&ClientFrame::Ping(foreign)));
    bench.breached();
}

#[test]
fn a_message_id_may_be_used_again_only_after_its_reply() {
    let mut bench = Bench::open(4);
    bench.text(&ping(1));
    assert_eq!(bench.effects(), [Effect::Check { message_id: message(1) }]);
    bench.session.answer_ping(message(1), Ok(false));
    let pong = Pong { session_id: SESSION, reply_to: message(1), enabled: false };
    assert_eq!(bench.sent(), [ServerFrame::Pong(pong)]);
    bench.text(&ping(1));
    assert_eq!(bench.effects().len(), 1);
    bench.text(&ack(1, &proof(1, 1)));
    bench.breached();
}

#[test]
fn the_33rd_unanswered_request_ends_the_session() {
    let mut bench = Bench::open(4);
    for n in 0..32 {
        bench.text(&ping(n));
    }
    assert_eq!(bench.effects().len(), 32);
    bench.session.answer_ping(message(5), Ok(true));
    bench.text(&ping(40));
    assert_eq!(bench.effects().len(), 2);
    bench.text(&ping(41));
    bench.breached();
}

#[test]
fn three_intervals_without_a_control_request_end_with_1001() {
    let mut bench = Bench::open(4);
    bench.pass(44_999);
    bench.text(&ping(1));
    assert_eq!(bench.effects().len(), 1);
    assert_eq!(bench.session.poll_timeout(), Some((bench.now + Duration::from_secs(45), Reason::Silence)));
    bench.pass(44_999);
    assert_eq!(bench.effects(), []);
    bench.pass(1);
    assert_eq!(bench.effects(), [Effect::Close(CloseCode::AWAY)]);
}

#[test]
fn credit_is_capacity_less_what_is_neither_confirmed_nor_lapsed() {
    let mut bench = Bench::open(2);
    assert_eq!(bench.deliver(&proof(1, 1), 30_000), Ok(()));
    assert_eq!(bench.deliver(&proof(2, 1), 5_000), Ok(()));
    assert_eq!(bench.deliver(&proof(3, 1), 30_000), Err(NotDelivered::NoCredit));
    assert_eq!(bench.session.credit(bench.now), 0);
    assert_eq!(bench.effects().len(), 2);
    assert_eq!(bench.session.poll_timeout(), Some((bench.now + Duration::from_secs(5), Reason::Lapse)));
    bench.pass(5_000);
    assert_eq!(bench.session.credit(bench.now), 1, "the second has lapsed");
    bench.text(&ack(1, &proof(1, 1)));
    assert!(matches!(bench.effects()[..], [Effect::Confirm(_)]));
    let event_id = EventId::from_u128(1);
    bench.session.answer_ack(message(1), AckVerdict::Confirmed { event_id, replayed: false });
    let [ServerFrame::Acked(acked)] = &bench.sent()[..] else { panic!("no receipt") };
    assert_eq!((acked.reply_to, acked.event_id, acked.replayed), (message(1), event_id, false));
    assert_eq!(bench.session.credit(bench.now), 2);
}

#[test]
fn a_newer_generation_keeps_its_credit_when_an_older_one_is_settled() {
    let mut bench = Bench::open(1);
    assert_eq!(bench.deliver(&proof(1, 1), 30_000), Ok(()));
    assert_eq!(bench.deliver(&proof(1, 2), 30_000), Ok(()), "it takes the older one's place");
    bench.session.settle(DeliveryId::from_u128(1), Generation(1));
    assert_eq!(bench.session.credit(bench.now), 0);
    bench.session.settle(DeliveryId::from_u128(1), Generation(2));
    assert_eq!(bench.session.credit(bench.now), 1);
}

#[test]
fn a_delivery_that_the_client_would_refuse_is_never_sent() {
    let mut bench = Bench::open(1);
    let foreign = EventProof { subscription_id: SubscriptionId::from_u128(9), ..proof(1, 1) };
    assert_eq!(bench.deliver(&foreign, 1), Err(NotDelivered::OtherSubscription));
    for lease_ms in [0, 30_001] {
        assert_eq!(bench.deliver(&proof(1, 1), lease_ms), Err(NotDelivered::Lease));
    }
    assert_eq!(bench.effects(), []);
    assert_eq!(Bench::fresh().deliver(&proof(1, 1), 1), Err(NotDelivered::NotOpen));
}

#[test]
fn a_bad_proof_leaves_the_connection_as_it_is() {
    let mut bench = Bench::open(4);
    for (n, verdict, code) in
        [(1, AckVerdict::Lost, ErrorCode::ProofLost), (2, AckVerdict::Invalid, ErrorCode::ProofInvalid)]
    {
        bench.text(&ack(n, &proof(1, 1)));
        assert_eq!(bench.effects().len(), 1);
        bench.session.answer_ack(message(n), verdict);
        let [ServerFrame::Error(error)] = &bench.sent()[..] else { panic!("no error") };
        assert_eq!((&error.code, error.reply_to, error.session_id), (&code, Some(message(n)), Some(SESSION)));
    }
    assert!(!bench.session.is_over());
}

#[test]
fn a_revoked_credential_is_answered_and_closed_with_1008() {
    for code in [ErrorCode::Unauthenticated, ErrorCode::PermissionDenied] {
        let mut bench = Bench::open(4);
        bench.text(&ping(1));
        assert_eq!(bench.effects().len(), 1);
        bench.session.answer_ping(message(1), Err(Refusal::new(code.clone(), "revoked")));
        assert_eq!(bench.ended(&code, CloseCode::POLICY).reply_to, Some(message(1)));
        let mut bench = Bench::open(4);
        bench.text(&ack(1, &proof(1, 1)));
        assert_eq!(bench.effects().len(), 1);
        bench.session.answer_ack(message(1), AckVerdict::Refused(Refusal::new(code.clone(), "revoked")));
        assert_eq!(bench.ended(&code, CloseCode::POLICY).reply_to, Some(message(1)));
    }
}

#[test]
fn a_shutdown_says_unavailable_and_closes_with_1012() {
    let mut bench = Bench::open(4);
    bench.session.shut_down();
    assert_eq!(bench.ended(&ErrorCode::Unavailable, CloseCode::RESTART).reply_to, None);
    let mut bench = Bench::open(4);
    bench.session.end(Refusal::new(ErrorCode::Unavailable, "the store is down"));
    bench.ended(&ErrorCode::Unavailable, CloseCode::TRY_AGAIN);
}

#[test]
fn answers_that_nobody_waits_for_send_nothing() {
    let mut bench = Bench::open(4);
    bench.text(&ping(1));
    assert_eq!(bench.effects().len(), 1);
    bench.session.answer_ack(message(1), AckVerdict::Lost);
    bench.session.answer_ping(message(2), Ok(true));
    assert_eq!(bench.effects(), [], "another kind, another id");
    bench.session.gone();
    bench.session.answer_ping(message(1), Ok(true));
    bench.session.shut_down();
    assert_eq!(bench.effects(), []);
    assert_eq!(bench.session.poll_timeout(), None);
}
