//! Frames that do not fit the session.

use perilune_client::{ConnectionErrorKind, MessageId, NewMessageId as _, RequestErrorKind, SubscriptionId};
use perilune_proto::scalar::{DeliveryId, EventId, Generation, SessionId};
use perilune_proto::wire::{self, Acked, Pong, ServerFrame};

use crate::open;
use crate::peer::frames::{self, SESSION, acked, delivery, error, pong, proof};
use crate::peer::{Got, Socket};

/// Has an `ack` and a `ping` in flight, lets the peer send what `script` makes of their ids, and expects
/// a protocol error: both requests fail, the peer hears of it by a close 1002.
async fn breach(script: impl AsyncFnOnce(&mut Socket, wire::Ack, MessageId)) {
    let (connection, mut socket) = open(4).await;
    let proof = proof(1);
    let (acked, pinged, ()) =
        tokio::join!(connection.ack(MessageId::new(), &proof), connection.ping(MessageId::new()), async {
            let ack = socket.ack().await;
            let ping = socket.ping().await;
            script(&mut socket, ack, ping.message_id).await;
            assert_eq!(socket.got().await, Got::Close(Some(1002)));
            drop(socket);
        });
    // At least one has no answer; an answer that came before the breach counts.
    let failed = acked.err().or(pinged.err()).expect("one failed");
    assert_eq!((failed.kind(), failed.code()), (RequestErrorKind::Connection, "PROTOCOL_ERROR"));
    assert!(!failed.is_retriable());
    connection.closed().await;
    assert_eq!(connection.error().expect("ended").kind(), ConnectionErrorKind::Protocol);
}

fn other_session() -> SessionId {
    SessionId::from_u128(1)
}

fn receipt(ack: &wire::Ack) -> Acked {
    let ServerFrame::Acked(receipt) = acked(ack) else { unreachable!("an acked") };
    receipt
}

#[actix_rt::test]
async fn a_frame_of_another_session_is_a_protocol_error() {
    breach(async |socket, _, _| {
        let ServerFrame::Delivery(mut delivery) = delivery(1) else { unreachable!("a delivery") };
        delivery.session_id = other_session();
        socket.send(&ServerFrame::Delivery(delivery)).await;
    })
    .await;
    breach(async |socket, ack, _| {
        socket.send(&ServerFrame::Acked(Acked { session_id: other_session(), ..receipt(&ack) })).await;
    })
    .await;
    breach(async |socket, _, ping| {
        let pong = Pong { session_id: other_session(), reply_to: ping, enabled: true };
        socket.send(&ServerFrame::Pong(pong)).await;
    })
    .await;
    breach(async |socket, ack, _| {
        socket.send(&ServerFrame::Error(frames::early_error("UNAVAILABLE", Some(ack.message_id)))).await;
    })
    .await;
}

#[actix_rt::test]
async fn a_reply_must_name_a_request_in_flight_of_its_kind_once() {
    // Nobody asked.
    breach(async |socket, _, _| socket.send(&pong(MessageId::new())).await).await;
    breach(async |socket, _, _| socket.send(&error("UNAVAILABLE", Some(MessageId::new()))).await).await;
    breach(async |socket, ack, _| {
        socket.send(&ServerFrame::Acked(Acked { reply_to: MessageId::new(), ..receipt(&ack) })).await;
    })
    .await;
    // The other kind.
    breach(async |socket, ack, _| socket.send(&pong(ack.message_id)).await).await;
    breach(async |socket, ack, ping| {
        socket.send(&ServerFrame::Acked(Acked { reply_to: ping, ..receipt(&ack) })).await;
    })
    .await;
    // Twice.
    breach(async |socket, ack, _| {
        socket.acked(&ack).await;
        socket.acked(&ack).await;
    })
    .await;
    breach(async |socket, _, ping| {
        socket.pong(ping).await;
        socket.send(&error("UNAVAILABLE", Some(ping))).await;
    })
    .await;
}

#[actix_rt::test]
async fn a_receipt_for_another_proof_confirms_nothing() {
    breach(async |socket, ack, _| {
        socket.send(&ServerFrame::Acked(Acked { delivery_id: DeliveryId::from_u128(2), ..receipt(&ack) })).await;
    })
    .await;
    breach(async |socket, ack, _| {
        socket.send(&ServerFrame::Acked(Acked { event_id: EventId::from_u128(2), ..receipt(&ack) })).await;
    })
    .await;
    breach(async |socket, ack, _| {
        socket.send(&ServerFrame::Acked(Acked { generation: Generation(2), ..receipt(&ack) })).await;
    })
    .await;
}

#[actix_rt::test]
async fn an_error_about_a_proof_answers_an_ack_only() {
    for code in ["PROOF_LOST", "PROOF_INVALID"] {
        breach(async |socket, _, ping| socket.send(&error(code, Some(ping))).await).await;
        breach(async |socket, _, _| socket.send(&error(code, None)).await).await;
    }
}

#[actix_rt::test]
async fn a_second_welcome_is_a_protocol_error() {
    breach(async |socket, _, ping| {
        let register = wire::Register { message_id: ping, subscription_id: frames::SUBSCRIPTION, capacity: 4 };
        socket.send(&ServerFrame::Welcome(frames::welcome(&register))).await;
    })
    .await;
}

#[actix_rt::test]
async fn a_delivery_of_another_subscription_is_a_protocol_error() {
    breach(async |socket, _, _| {
        let ServerFrame::Delivery(mut delivery) = delivery(1) else { unreachable!("a delivery") };
        delivery.proof.subscription_id = SubscriptionId::from_u128(1);
        socket.send(&ServerFrame::Delivery(delivery)).await;
    })
    .await;
}

#[actix_rt::test]
async fn a_message_that_is_no_strict_frame_is_a_protocol_error() {
    let pong_text = |ping: MessageId| wire::encode_server(&pong(ping));
    breach(async |socket, _, _| socket.text("").await).await;
    breach(async |socket, _, _| socket.text("[]").await).await;
    breach(async |socket, _, _| socket.text(r#"{"type":"ack"}"#).await).await;
    breach(async |socket, _, ping| socket.text(&(pong_text(ping) + "x")).await).await;
    breach(async |socket, _, ping| socket.text(&pong_text(ping).replace("true", "1")).await).await;
    breach(async |socket, _, ping| socket.text(&pong_text(ping).replace('}', r#","enabled":true}"#)).await).await;
    breach(async |socket, _, ping| socket.text(&pong_text(ping).replace('}', r#","Enabled":true}"#)).await).await;
}

#[actix_rt::test]
async fn an_unknown_key_is_ignored() {
    let (connection, mut socket) = open(4).await;
    let (pong, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await.message_id;
        let later = wire::encode_server(&pong(ping)).replace('}', r#","later":{"a":[1e400]}}"#);
        socket.text(&later).await;
    });
    assert!(pong.expect("a pong").enabled);
}

#[actix_rt::test]
async fn an_error_without_a_reply_to_ends_the_session() {
    for (code, retriable) in [
        ("UNAVAILABLE", true),
        ("RATE_LIMITED", true),
        ("UNAUTHENTICATED", false),
        ("HISTORY_GAP", false),
        ("PROTOCOL_ERROR", false),
        ("LATER_CODE", false),
    ] {
        let (connection, mut socket) = open(4).await;
        socket.deliver(1).await;
        socket.send(&error(code, None)).await;
        assert_eq!(socket.got().await, Got::Close(Some(1000)));
        assert!(connection.next().await.is_ok(), "what came before the end is handed out");
        let ended = connection.next().await.expect_err("ended");
        assert_eq!((ended.kind(), ended.code()), (ConnectionErrorKind::Ended, code));
        assert_eq!(ended.is_retriable(), retriable, "{code}");
        assert_eq!(ended.retry_after().expect("stated").as_millis(), 1_500);
        assert!(!format!("{ended} {ended:?}").contains("remote detail"));
    }
}

#[actix_rt::test]
async fn a_close_after_a_refused_request_is_explained_by_it() {
    let (connection, mut socket) = open(4).await;
    let (refused, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await.message_id;
        socket.send(&error("UNAUTHENTICATED", Some(ping))).await;
        socket.close(1008).await;
    });
    assert!(refused.expect_err("revoked").is_unauthenticated());
    let ended = connection.next().await.expect_err("ended");
    assert_eq!((ended.kind(), ended.code()), (ConnectionErrorKind::Ended, "UNAUTHENTICATED"));
}

#[actix_rt::test]
async fn one_delivery_more_than_the_capacity_unread_closes_retriably() {
    let (connection, mut socket) = open(2).await;
    for n in 1..=3 {
        socket.deliver(n).await;
    }
    assert_eq!(socket.got().await, Got::Close(Some(1001)));
    drop(socket);
    // The two that fitted are not lost.
    for n in 1..=2 {
        assert_eq!(connection.next().await.expect("buffered").proof().delivery_id, DeliveryId::from_u128(n));
    }
    let ended = connection.next().await.expect_err("ended");
    assert_eq!((ended.kind(), ended.is_retriable()), (ConnectionErrorKind::ReceiveBufferFull, true));
    assert_eq!(connection.welcome().session_id, SESSION);
}
