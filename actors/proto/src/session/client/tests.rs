use std::sync::Arc;

use super::*;
use crate::event::{ResultEvent, Snapshot, Status};
use crate::json::RawJson;
use crate::scalar::{Secret, Sequence, SubscriptionId, TaskId, TaskVersion};
use crate::session::server::{self, AckVerdict, Admission, ServerSession, Terms};
use crate::wire::{decode_server, encode_client};

const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(0x5b);
const SESSION: SessionId = SessionId::from_u128(0x5e);
const REGISTER: MessageId = MessageId::from_u128(0x4e);

/// A clock that only the test moves.
fn epoch() -> Instant {
    use std::sync::OnceLock;
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "one arbitrary moment to count from")]
    *EPOCH.get_or_init(Instant::now)
}

fn registering() -> ClientSession {
    let register = Register { message_id: REGISTER, subscription_id: SUBSCRIPTION, capacity: 2 };
    let deadline = epoch() + limits::HANDSHAKE_TIMEOUT;
    let mut session = ClientSession::open(register, deadline, limits::CONTROL_REQUEST_TIMEOUT);
    assert!(matches!(session.poll_effect(), Some(Effect::Send(ClientFrame::Register(_)))));
    session
}

fn welcome() -> Welcome {
    Welcome {
        reply_to: REGISTER,
        session_id: SESSION,
        subscription_id: SUBSCRIPTION,
        subscription_name: "invoices".to_owned(),
        enabled: true,
        capacity: 2,
        heartbeat_interval_ms: 15_000,
        lease_ms: 30_000,
        server_time: "2026-01-02T03:04:05Z".parse().expect("a time"),
    }
}

fn open() -> ClientSession {
    let mut session = registering();
    session.receive(ServerFrame::Welcome(welcome()));
    assert!(matches!(session.poll_effect(), Some(Effect::Welcomed(_))));
    session
}

fn id(n: u128) -> MessageId {
    MessageId::from_u128(n)
}

fn proof(n: u128) -> EventProof {
    EventProof {
        subscription_id: SUBSCRIPTION,
        delivery_id: DeliveryId::from_u128(n),
        event_id: EventId::from_u128(n),
        generation: Generation(1),
        secret: Secret::from_bytes([7; 32]),
    }
}

fn event(n: u128) -> ResultEvent {
    let time = "2026-01-02T03:04:05Z".parse().expect("a time");
    let snapshot = Snapshot {
        task_id: TaskId::from_u128(n),
        queue: "reports".parse().expect("a name"),
        operation: "GenerateReport".parse().expect("a name"),
        status: Status::Succeeded,
        version: TaskVersion(1),
        created_at: time,
        updated_at: time,
        payload: RawJson::null(),
        result: RawJson::null(),
        error: None,
    };
    ResultEvent { event_id: EventId::from_u128(n), sequence: Sequence(1), occurred_at: time, snapshot }
}

fn delivery(n: u128) -> ServerFrame {
    let delivery = Delivery { session_id: SESSION, proof: proof(n), lease_ms: 30_000, event: Arc::new(event(n)) };
    ServerFrame::Delivery(delivery)
}

fn pong(reply_to: MessageId) -> ServerFrame {
    ServerFrame::Pong(Pong { session_id: SESSION, reply_to, enabled: true })
}

fn error(code: ErrorCode, reply_to: Option<MessageId>) -> ErrorFrame {
    let message = String::new();
    ErrorFrame { session_id: Some(SESSION), reply_to, code, message, retry_after_ms: Some(5) }
}

/// The one effect that is left is an end, of this cause.
fn ended(session: &mut ClientSession) -> EndCause {
    let Some(Effect::End(cause)) = session.poll_effect() else { panic!("not ended") };
    assert!(session.poll_effect().is_none() && session.is_ended() && session.poll_timeout().is_none());
    cause
}

#[test]
fn requests_wait_for_the_welcome() {
    let mut session = registering();
    assert_eq!(session.ping(id(1), epoch()), Err(RequestRefused::NotOpen));
    assert_eq!(session.ack(id(1), &proof(1), epoch()), Err(RequestRefused::NotOpen));
    assert!(session.poll_effect().is_none());
}

#[test]
fn a_missing_welcome_ends_the_session_with_the_handshakes_time() {
    let mut session = registering();
    let due = epoch() + limits::HANDSHAKE_TIMEOUT;
    assert_eq!(session.poll_timeout(), Some((due, Reason::Welcome)));
    session.timed_out(due - Duration::from_nanos(1));
    assert!(session.poll_effect().is_none());
    session.timed_out(due);
    assert_eq!(ended(&mut session), EndCause::HandshakeTimeout);
}

#[test]
fn the_oldest_request_sets_the_deadline_and_its_reply_lifts_it() {
    let mut session = open();
    assert_eq!(session.poll_timeout(), None);
    let second = Duration::from_secs(1);
    session.ping(id(1), epoch()).expect("sent");
    session.ping(id(2), epoch() + second).expect("sent");
    let due = epoch() + limits::CONTROL_REQUEST_TIMEOUT;
    assert_eq!(session.poll_timeout(), Some((due, Reason::Reply)));
    session.receive(pong(id(1)));
    assert_eq!(session.poll_timeout(), Some((due + second, Reason::Reply)));
    while session.poll_effect().is_some() {}
    session.timed_out(due + second);
    assert_eq!(ended(&mut session), EndCause::RequestTimeout);
}

#[test]
fn the_33rd_request_is_busy_until_a_place_is_free() {
    let mut session = open();
    for n in 0..32 {
        session.ping(id(n), epoch()).expect("a place");
    }
    assert_eq!(session.ping(id(32), epoch()), Err(RequestRefused::Busy));
    session.receive(pong(id(7)));
    assert_eq!(session.ack(id(7), &proof(1), epoch()), Ok(()), "an answered id may be used again");
    assert_eq!(session.ping(id(33), epoch()), Err(RequestRefused::Busy));
    assert!(!session.is_ended());
}

#[test]
fn a_failed_check_has_no_effect_besides_the_end() {
    let receipt = Acked {
        session_id: SESSION,
        reply_to: id(1),
        delivery_id: DeliveryId::from_u128(1),
        event_id: EventId::from_u128(1),
        generation: Generation(1),
        replayed: false,
    };
    let wrong = [
        (Acked { session_id: SessionId::from_u128(1), ..receipt.clone() }, Breach::Session),
        (Acked { reply_to: id(2), ..receipt.clone() }, Breach::Reply),
        (Acked { delivery_id: DeliveryId::from_u128(2), ..receipt.clone() }, Breach::Receipt),
        (Acked { event_id: EventId::from_u128(2), ..receipt.clone() }, Breach::Receipt),
        (Acked { generation: Generation(2), ..receipt.clone() }, Breach::Receipt),
    ];
    for (receipt, breach) in wrong {
        let mut session = open();
        session.ack(id(1), &proof(1), epoch()).expect("sent");
        let _ = session.poll_effect();
        session.receive(ServerFrame::Acked(receipt.clone()));
        session.receive(pong(id(1)));
        assert_eq!(ended(&mut session), EndCause::Breach(breach), "{receipt:?}");
    }
}

#[test]
fn an_error_needs_this_session_after_the_welcome_and_none_before() {
    let mut session = open();
    session.receive(ServerFrame::Error(ErrorFrame { session_id: None, ..error(ErrorCode::Unavailable, None) }));
    assert_eq!(ended(&mut session), EndCause::Breach(Breach::Session));
    let mut session = registering();
    session.receive(ServerFrame::Error(error(ErrorCode::Unavailable, Some(REGISTER))));
    assert_eq!(ended(&mut session), EndCause::Breach(Breach::Session));
    let mut session = registering();
    session.receive(ServerFrame::Error(ErrorFrame { session_id: None, ..error(ErrorCode::HistoryGap, None) }));
    let refusal = Refusal { code: ErrorCode::HistoryGap, retry_after: Some(Duration::from_millis(5)) };
    assert_eq!(ended(&mut session), EndCause::Refused(refusal));
}

#[test]
fn a_refused_request_explains_the_close_that_fits_it_and_no_other() {
    let cases = [
        (ErrorCode::Unauthenticated, 1008, true),
        (ErrorCode::Unavailable, 1013, true),
        (ErrorCode::Unavailable, 1012, true),
        (ErrorCode::ProtocolError, 1002, true),
        (ErrorCode::RateLimited, 1012, false),
        (ErrorCode::Unauthenticated, 1001, false),
        (ErrorCode::ProofInvalid, 1008, false),
    ];
    for (code, close, explained) in cases {
        let mut session = open();
        session.ack(id(1), &proof(1), epoch()).expect("sent");
        session.receive(ServerFrame::Error(error(code.clone(), Some(id(1)))));
        while session.poll_effect().is_some() {}
        session.peer_closed(CloseCode(close));
        match ended(&mut session) {
            EndCause::Refused(refusal) => assert!(explained && refusal.code == code, "{code} {close}"),
            cause => assert!(!explained && cause == EndCause::PeerClosed(CloseCode(close)), "{code} {close}"),
        }
    }
}

#[test]
fn as_many_deliveries_as_the_capacity_may_be_unread() {
    let mut session = open();
    session.receive(delivery(1));
    session.receive(delivery(2));
    session.delivery_read();
    session.receive(delivery(3));
    let deliveries = std::iter::from_fn(|| session.poll_effect()).filter(|e| matches!(e, Effect::Deliver(_))).count();
    assert_eq!(deliveries, 3);
    session.receive(delivery(4));
    assert_eq!(ended(&mut session), EndCause::ReceiveBufferFull);
}

#[test]
fn the_close_code_tells_the_kind_of_breach() {
    use crate::wire::FrameError;
    for (breach, code) in [
        (Breach::Frame(FrameError::TooLong), 1009),
        (Breach::Frame(FrameError::Binary), 1003),
        (Breach::Frame(FrameError::NotUtf8), 1007),
        (Breach::Framing, 1002),
        (Breach::Receipt, 1002),
    ] {
        assert_eq!(EndCause::Breach(breach).close_code(), CloseCode(code));
    }
    assert_eq!(EndCause::RequestTimeout.close_code(), CloseCode(1001));
    assert_eq!(EndCause::PeerClosed(CloseCode(4000)).close_code(), CloseCode(4000));
}

/// Passes everything that one end has to say to the other, as text, until both are silent.
fn settle(client: &mut ClientSession, server: &mut ServerSession, answers: &mut Vec<Answer>, delivered: &mut u32) {
    loop {
        let mut quiet = true;
        while let Some(effect) = client.poll_effect() {
            quiet = false;
            match effect {
                Effect::Send(frame) => server.text(&encode_client(&frame), epoch()),
                Effect::Deliver(_) => *delivered += 1,
                Effect::Answered(_, answer) => answers.push(answer),
                Effect::Welcomed(_) => {}
                Effect::End(cause) => panic!("{cause:?}"),
            }
        }
        while let Some(effect) = server.poll_effect() {
            quiet = false;
            match effect {
                server::Effect::Register(_) => {
                    let server_time = welcome().server_time;
                    let subscription_name = "invoices".to_owned();
                    server.accept(
                        Admission { session_id: SESSION, subscription_name, enabled: true, server_time },
                        epoch(),
                    );
                }
                server::Effect::Confirm(ack) => {
                    let event_id = EventId::from_bytes(*ack.delivery_id.as_bytes());
                    server.answer_ack(ack.message_id, AckVerdict::Confirmed { event_id, replayed: false });
                }
                server::Effect::Check { message_id } => server.answer_ping(message_id, Ok(true)),
                server::Effect::Send(text) => client.receive(decode_server(&text).expect("a frame")),
                server::Effect::Close(code) => panic!("{code}"),
            }
        }
        if quiet {
            return;
        }
    }
}

#[test]
fn both_ends_agree_on_a_whole_session() {
    let register = Register { message_id: REGISTER, subscription_id: SUBSCRIPTION, capacity: 2 };
    let mut client = ClientSession::open(register, epoch() + Duration::from_secs(8), Duration::from_secs(10));
    let mut server = ServerSession::new(Terms::default(), epoch());
    let (mut answers, mut delivered) = (Vec::new(), 0);
    settle(&mut client, &mut server, &mut answers, &mut delivered);
    for n in 1..=20 {
        server.deliver(&proof(n), 30_000, &crate::wire::encode_event(&event(n)), epoch()).expect("credit");
        settle(&mut client, &mut server, &mut answers, &mut delivered);
        client.delivery_read();
        client.ack(id(n), &proof(n), epoch()).expect("sent");
        client.ping(id(100 + n), epoch()).expect("sent");
        settle(&mut client, &mut server, &mut answers, &mut delivered);
    }
    assert_eq!((delivered, answers.len()), (20, 40));
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Acked(_) | Answer::Pong(_))));
}

#[test]
fn a_request_may_have_any_time() {
    let register = Register { message_id: REGISTER, subscription_id: SUBSCRIPTION, capacity: 2 };
    let mut session = ClientSession::open(register, epoch() + limits::HANDSHAKE_TIMEOUT, Duration::MAX);
    session.receive(ServerFrame::Welcome(welcome()));
    session.ping(id(2), epoch()).expect("sent");
}
