//! What is read in one go, against the reader of any order and spacing.

use std::sync::Arc;

use proptest::prelude::*;

use super::server_frame;
use crate::event::{ResultEvent, Snapshot, Status, TaskError};
use crate::json::RawJson;
use crate::proof::EventProof;
use crate::scalar::{
    DeliveryId, EventId, Generation, MessageId, Secret, Sequence, SessionId, SubscriptionId, TaskId, TaskVersion,
    Timestamp,
};
use crate::wire::decode::read_server;
use crate::wire::{Acked, Delivery, ServerFrame, encode_server};

fn time() -> impl Strategy<Value = Timestamp> {
    prop::sample::select(vec!["2026-08-01T10:00:00Z", "2026-08-01T10:00:00.5Z", "2024-02-29T23:59:59.123456789Z"])
        .prop_map(|text| text.parse().expect("a real time"))
}

fn opaque() -> impl Strategy<Value = RawJson> {
    let deep = format!("{}{}", "[".repeat(61), "]".repeat(61));
    let texts =
        ["null", "0", "-1e400", "\"\"", r#""\ud800""#, "true", "[]", r#"{"a":{"a":[ 1 ]},"\u0062":null}"#, &deep];
    prop::sample::select(texts.map(str::to_owned).to_vec()).prop_map(|text| RawJson::parse(&text, 61).expect("strict"))
}

prop_compose! {
    fn delivery()(
        ids in any::<[u128; 5]>(),
        counts in any::<[u64; 3]>(),
        secret in any::<[u8; 32]>(),
        lease_ms in 1..=30_000_u32,
        names in ["[A-Za-z0-9._-]{1,50}", "[A-Za-z0-9._-]{1,12}"],
        status in prop::sample::select(Status::ALL.to_vec()),
        times in [time(), time(), time()],
        values in [opaque(), opaque()],
        error in prop::option::of(["[a-z]{0,9}", "[ -~]{0,9}"]),
    ) -> ServerFrame {
        let [session_id, subscription_id, delivery_id, event_id, task_id] = ids;
        let [generation, sequence, version] = counts;
        let ([queue, operation], [payload, result]) = (names.map(|name| name.parse().expect("a name")), values);
        let event_id = EventId::from_u128(event_id);
        let [occurred_at, created_at, updated_at] = times;
        let snapshot = Snapshot {
            task_id: TaskId::from_u128(task_id), queue, operation, status, version: TaskVersion(version),
            created_at, updated_at, payload, result,
            error: error.map(|[code, message]| TaskError { code, message }),
        };
        let proof = EventProof {
            subscription_id: SubscriptionId::from_u128(subscription_id),
            delivery_id: DeliveryId::from_u128(delivery_id),
            event_id,
            generation: Generation(generation.max(1)),
            secret: Secret::from_bytes(secret),
        };
        let event = ResultEvent { event_id, sequence: Sequence(sequence), occurred_at, snapshot };
        ServerFrame::Delivery(Delivery { session_id: SessionId::from_u128(session_id), proof, lease_ms, event: Arc::new(event) })
    }
}

prop_compose! {
    fn acked()(ids in any::<[u128; 4]>(), generation in 1..=u64::MAX, replayed in any::<bool>()) -> ServerFrame {
        let [session_id, reply_to, delivery_id, event_id] = ids;
        ServerFrame::Acked(Acked {
            session_id: SessionId::from_u128(session_id),
            reply_to: MessageId::from_u128(reply_to),
            delivery_id: DeliveryId::from_u128(delivery_id),
            event_id: EventId::from_u128(event_id),
            generation: Generation(generation),
            replayed,
        })
    }
}

fn frame() -> impl Strategy<Value = ServerFrame> {
    prop_oneof![3 => delivery(), 1 => acked()]
}

/// A frame with some characters removed, replaced or put in.
fn damaged() -> impl Strategy<Value = String> {
    let pieces = vec![
        "",
        "\"",
        "\\",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        " ",
        "0",
        "00",
        "-",
        "a",
        "A",
        "g",
        "Z",
        ".",
        "null",
        "\n",
        "\u{1}",
        "é",
        "\\u0061",
        r#","type":1"#,
        r#","Type":1"#,
        r#","x":{"a":1,"a":2}"#,
    ];
    let damage = (any::<prop::sample::Index>(), 0..3_usize, prop::sample::select(pieces));
    (frame(), prop::collection::vec(damage, 1..3)).prop_map(|(frame, damages)| {
        let mut text: Vec<char> = encode_server(&frame).chars().collect();
        for (place, removed, piece) in damages {
            let at = place.index(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, piece.chars());
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_here_is_read_in_one_go(frame in frame()) {
        let text = encode_server(&frame);
        let escaped = matches!(&frame, ServerFrame::Delivery(delivery)
            if delivery.event.snapshot.error.as_ref().is_some_and(|error| error.message.contains(['"', '\\'])));
        let read = server_frame(&text);
        prop_assert_eq!(read.is_none(), escaped, "{}", text);
        prop_assert_eq!(read.unwrap_or_else(|| read_server(&text).expect("valid")), frame);
    }

    #[test]
    fn what_is_read_in_one_go_is_what_any_reading_finds(text in damaged()) {
        if let Some(frame) = server_frame(&text) {
            prop_assert_eq!(read_server(&text), Ok(frame), "{}", text);
        }
    }
}

#[test]
fn a_frame_over_the_limit_is_not_read() {
    let value = |bytes| format!("\"{}\"", "x".repeat(bytes));
    let frame = |payload: &str| {
        let time = "2026-08-01T10:00:00Z";
        let id = "0".repeat(32);
        format!(
            r#"{{"type":"delivery","session_id":"{id}","delivery":{{"delivery_id":"{id}","subscription_id":"{id}","event_id":"{id}","generation":"1","secret":"{}","lease_ms":1}},"event":{{"event_id":"{id}","sequence":"0","type":"task.started","queue":"q","task_id":"{id}","task_version":"1","occurred_at":"{time}","snapshot":{{"task_id":"{id}","queue":"q","operation":"o","status":"started","version":"1","created_at":"{time}","updated_at":"{time}","payload":{payload},"result":null,"error":null}}}}}}"#,
            "A".repeat(43)
        )
    };
    let bare = frame("").len();
    let longest = frame(&value(524_288 - bare - 2));
    assert_eq!(longest.len(), 524_288);
    assert!(server_frame(&longest).is_some());
    assert!(server_frame(&frame(&value(524_288 - bare - 1))).is_none());
    assert!(server_frame(&frame(&format!("{}{}", "[".repeat(61), "]".repeat(61)))).is_some());
    assert!(server_frame(&frame(&format!("{}{}", "[".repeat(62), "]".repeat(62)))).is_none());
}
