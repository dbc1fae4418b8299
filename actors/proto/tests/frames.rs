//! Frames there and back: whatever is written is read as the same frame, and whatever is read is JSON
//! to everybody else.

use std::sync::Arc;

use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, MessageId, Name, Secret, Sequence, SessionId, SubscriptionId, TaskId, TaskVersion,
    Timestamp,
};
use perilune_proto::wire::{
    Ack, Acked, ClientFrame, Delivery, ErrorCode, ErrorFrame, Ping, Pong, Register, ServerFrame, Welcome,
    decode_client, decode_event, decode_server, encode_client, encode_delivery, encode_event, encode_server,
    message_text,
};
use perilune_proto::{EventProof, RawJson, ResultEvent, Snapshot, Status, TaskError};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    "[A-Za-z0-9._-]{1,128}".prop_map(|text| text.parse().expect("of its alphabet"))
}

fn time() -> impl Strategy<Value = Timestamp> {
    let date = (0..10_000_u32, 1..13_u32, 1..29_u32);
    let clock = (0..24_u32, 0..60_u32, 0..60_u32, "(\\.[0-9]{1,9})?");
    (date, clock).prop_map(|((year, month, day), (hour, minute, second, fraction))| {
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z");
        text.parse().expect("a real time")
    })
}

fn opaque() -> impl Strategy<Value = RawJson> {
    prop_oneof![
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?",
        Just(r#"{ "a" : [1e400, "\ud800\/", {"A": "\u0000"}] , "é":9007199254740993}"#.to_owned()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("a string")),
        prop::collection::btree_map("[a-z]{0,9}", any::<i64>(), 0..40)
            .prop_map(|map| serde_json::to_string(&map).expect("a map")),
    ]
    .prop_map(|text| RawJson::parse(&text, 61).expect("strict"))
}

prop_compose! {
    fn snapshot()(
        ids in any::<(u128, u64)>(),
        queue in name(),
        operation in name(),
        status in prop::sample::select(Status::ALL.to_vec()),
        created_at in time(),
        updated_at in time(),
        payload in opaque(),
        result in opaque(),
        error in prop::option::of(any::<(String, String)>()),
    ) -> Snapshot {
        let error = error.map(|(code, message)| TaskError { code, message });
        let (task_id, version) = (TaskId::from_u128(ids.0), TaskVersion(ids.1));
        Snapshot { task_id, queue, operation, status, version, created_at, updated_at, payload, result, error }
    }
}

prop_compose! {
    fn event()(id in any::<u128>(), sequence in any::<u64>(), occurred_at in time(), snapshot in snapshot()) -> ResultEvent {
        ResultEvent { event_id: EventId::from_u128(id), sequence: Sequence(sequence), occurred_at, snapshot }
    }
}

prop_compose! {
    fn delivery()(
        ids in any::<(u128, u128, u128)>(),
        generation in 1..=u64::MAX,
        secret in any::<[u8; 32]>(),
        lease_ms in 1..=30_000_u32,
        event in event(),
    ) -> Delivery {
        let proof = EventProof {
            subscription_id: SubscriptionId::from_u128(ids.0),
            delivery_id: DeliveryId::from_u128(ids.1),
            event_id: event.event_id,
            generation: Generation(generation),
            secret: Secret::from_bytes(secret),
        };
        Delivery { session_id: SessionId::from_u128(ids.2), proof, lease_ms, event: Arc::new(event) }
    }
}

fn client_frame() -> impl Strategy<Value = ClientFrame> {
    let register = (any::<(u128, u128)>(), 1..=32_u8).prop_map(|((message_id, subscription_id), capacity)| {
        let (message_id, subscription_id) =
            (MessageId::from_u128(message_id), SubscriptionId::from_u128(subscription_id));
        ClientFrame::Register(Register { message_id, subscription_id, capacity })
    });
    let ack =
        any::<(u128, u128, u128, u64, [u8; 32])>().prop_map(|(session, message, delivery, generation, secret)| {
            ClientFrame::Ack(Ack {
                session_id: SessionId::from_u128(session),
                message_id: MessageId::from_u128(message),
                delivery_id: DeliveryId::from_u128(delivery),
                generation: Generation(generation),
                secret: Secret::from_bytes(secret),
            })
        });
    let ping = any::<(u128, u128)>().prop_map(|(session, message)| {
        let (session_id, message_id) = (SessionId::from_u128(session), MessageId::from_u128(message));
        ClientFrame::Ping(Ping { session_id, message_id })
    });
    prop_oneof![register, ack, ping]
}

prop_compose! {
    fn welcome()(
        ids in any::<(u128, u128, u128)>(),
        subscription_name in "\\PC{1,128}",
        enabled in any::<bool>(),
        capacity in 1..=32_u8,
        heartbeat_interval_ms in 1_000..=15_000_u32,
        lease_ms in 1_000..=30_000_u32,
        server_time in time(),
    ) -> Welcome {
        Welcome {
            reply_to: MessageId::from_u128(ids.0),
            session_id: SessionId::from_u128(ids.1),
            subscription_id: SubscriptionId::from_u128(ids.2),
            subscription_name, enabled, capacity, heartbeat_interval_ms, lease_ms, server_time,
        }
    }
}

prop_compose! {
    fn error()(
        session in prop::option::of(any::<u128>()),
        reply in prop::option::of(any::<u128>()),
        code in prop_oneof![Just("PROOF_LOST".to_owned()), any::<String>()],
        message in any::<String>(),
        retry_after_ms in prop::option::of(0..=3_600_000_u32),
    ) -> ErrorFrame {
        ErrorFrame {
            session_id: session.map(SessionId::from_u128),
            reply_to: reply.map(MessageId::from_u128),
            code: ErrorCode::from_wire(&code),
            message, retry_after_ms,
        }
    }
}

fn server_frame() -> impl Strategy<Value = ServerFrame> {
    let acked =
        (any::<(u128, u128, u128, u128)>(), 1..=u64::MAX, any::<bool>()).prop_map(|(ids, generation, replayed)| {
            ServerFrame::Acked(Acked {
                session_id: SessionId::from_u128(ids.0),
                reply_to: MessageId::from_u128(ids.1),
                delivery_id: DeliveryId::from_u128(ids.2),
                event_id: EventId::from_u128(ids.3),
                generation: Generation(generation),
                replayed,
            })
        });
    let pong = any::<(u128, u128, bool)>().prop_map(|(session, reply, enabled)| {
        let (session_id, reply_to) = (SessionId::from_u128(session), MessageId::from_u128(reply));
        ServerFrame::Pong(Pong { session_id, reply_to, enabled })
    });
    prop_oneof![
        welcome().prop_map(ServerFrame::Welcome),
        delivery().prop_map(ServerFrame::Delivery),
        acked,
        pong,
        error().prop_map(ServerFrame::Error),
    ]
}

/// A valid frame's text with one piece of it replaced, doubled or dropped.
fn damaged(text: &str, at: prop::sample::Index, piece: &str, dropped: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = at.index(characters.len() + 1);
    let rest = characters.iter().skip((at + dropped).min(characters.len()));
    characters[..at].iter().copied().chain(piece.chars()).chain(rest.copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_clients_frame_comes_back_as_it_was(frame in client_frame()) {
        let text = encode_client(&frame);
        prop_assert_eq!(decode_client(&text), Ok(frame), "{}", text);
        prop_assert!(decode_server(&text).is_err());
    }

    #[test]
    fn a_servers_frame_comes_back_as_it_was(frame in server_frame()) {
        let text = encode_server(&frame);
        prop_assert_eq!(decode_server(&text), Ok(frame), "{}", text);
        prop_assert!(decode_client(&text).is_err());
        prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
    }

    #[test]
    fn an_event_that_is_stored_as_text_is_delivered_as_it_was_frozen(delivery in delivery()) {
        let stored = encode_event(&delivery.event);
        prop_assert_eq!(decode_event(&stored), Ok((*delivery.event).clone()));
        let sent = encode_delivery(delivery.session_id, &delivery.proof, delivery.lease_ms, &stored);
        prop_assert_eq!(decode_server(&sent), Ok(ServerFrame::Delivery(delivery)));
    }

    #[test]
    fn what_is_damaged_is_refused_or_still_a_frame(
        frame in server_frame(),
        at in any::<prop::sample::Index>(),
        piece in prop::sample::select(vec!["", "\"", "{", "}", ",", ":", "0", "null", "\\", "\\u0061", " ", "A", "-", "é"]),
        dropped in 0..3_usize,
    ) {
        let text = damaged(&encode_server(&frame), at, piece, dropped);
        if let Ok(frame) = decode_server(&text) {
            prop_assert_eq!(decode_server(&encode_server(&frame)), Ok(frame));
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(text) = message_text(&bytes) {
            let _ = (decode_client(text), decode_server(text), decode_event(text));
        }
    }

    #[test]
    fn an_error_never_repeats_what_the_message_says(frame in server_frame(), at in any::<prop::sample::Index>()) {
        let secret = "SECRETTEXT";
        let text = damaged(&encode_server(&frame), at, secret, 0);
        if let Err(error) = decode_server(&text) {
            prop_assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
        }
    }
}
