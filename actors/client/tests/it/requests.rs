//! `ack` and `ping`.

use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use perilune_client::{ConnectionErrorKind, MessageId, NewMessageId as _, RequestErrorKind, SubscriptionId};
use perilune_proto::wire::{Acked, ServerFrame};

use crate::peer::frames::{SESSION, acked, delivery_with, error, proof};
use crate::peer::{Got, Peer};
use crate::{impatient, open, open_with};

#[actix_rt::test]
async fn an_ack_sends_the_proof_and_returns_the_receipt() {
    for replayed in [false, true] {
        let (connection, mut socket) = open(4).await;
        let message_id = MessageId::new();
        let proof = proof(1);
        let (receipt, ack) = tokio::join!(connection.ack(message_id, &proof), async {
            let ack = socket.ack().await;
            let ServerFrame::Acked(receipt) = acked(&ack) else { unreachable!("an acked") };
            socket.send(&ServerFrame::Acked(Acked { replayed, ..receipt })).await;
            ack
        });
        assert_eq!((ack.session_id, ack.message_id), (SESSION, message_id));
        assert_eq!(
            (ack.delivery_id, ack.generation, &ack.secret),
            (proof.delivery_id, proof.generation, &proof.secret)
        );
        assert_eq!(receipt.expect("confirmed").replayed, replayed);
    }
}

#[actix_rt::test]
async fn a_ping_returns_whether_the_subscription_is_enabled() {
    let (connection, mut socket) = open(4).await;
    let (pong, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await;
        assert_eq!(ping.session_id, SESSION);
        socket.pong(ping.message_id).await;
    });
    assert!(pong.expect("a pong").enabled);
}

#[actix_rt::test]
async fn a_refused_request_leaves_the_connection() {
    let (connection, mut socket) = open(4).await;
    for (code, kind, retriable) in [
        ("PROOF_LOST", RequestErrorKind::ProofLost, false),
        ("PROOF_INVALID", RequestErrorKind::ProofInvalid, false),
        ("UNAVAILABLE", RequestErrorKind::Refused, true),
        ("PERMISSION_DENIED", RequestErrorKind::Refused, false),
    ] {
        let proof = proof(1);
        let (refused, ()) = tokio::join!(connection.ack(MessageId::new(), &proof), async {
            let ack = socket.ack().await;
            socket.send(&error(code, Some(ack.message_id))).await;
        });
        let refused = refused.expect_err("refused");
        assert_eq!((refused.kind(), refused.code(), refused.is_retriable()), (kind, code, retriable));
        assert_eq!(refused.is_proof_lost(), code == "PROOF_LOST");
    }
    assert!(connection.error().is_none());
}

#[actix_rt::test]
async fn a_proof_of_another_subscription_is_not_sent() {
    let (connection, mut socket) = open(4).await;
    let mut foreign = proof(1);
    foreign.subscription_id = SubscriptionId::from_u128(1);
    let refused = connection.ack(MessageId::new(), &foreign).await.expect_err("refused here");
    assert_eq!(refused.kind(), RequestErrorKind::OtherSubscription);
    // The next frame is another one.
    let (_, _) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await.message_id;
        socket.pong(ping).await;
    });
}

#[actix_rt::test]
async fn the_33rd_request_is_busy_at_once_and_the_connection_stays() {
    let (connection, mut socket) = open(4).await;
    let proof = proof(1);
    let in_flight = join_all((0..32).map(|n| {
        let (connection, proof) = (connection.clone(), proof.clone());
        async move {
            if n % 2 == 0 {
                connection.ping(MessageId::new()).await.map(drop)
            } else {
                connection.ack(MessageId::new(), &proof).await.map(drop)
            }
        }
    }));
    tokio::pin!(in_flight);
    assert!(futures_util::poll!(&mut in_flight).is_pending());
    for _ in 0..2 {
        let busy = connection.ping(MessageId::new()).await.expect_err("busy");
        assert_eq!((busy.kind(), busy.is_retriable()), (RequestErrorKind::Busy, true));
    }
    assert!(connection.error().is_none());
    let ((), answered) = tokio::join!(
        async {
            for n in 0..32 {
                if n % 2 == 0 {
                    let ping = socket.ping().await.message_id;
                    socket.pong(ping).await;
                } else {
                    let ack = socket.ack().await;
                    socket.acked(&ack).await;
                }
            }
        },
        in_flight
    );
    assert_eq!(answered.into_iter().filter(Result::is_ok).count(), 32);
}

#[actix_rt::test]
async fn a_message_id_in_flight_may_not_be_used_again_until_it_is_answered() {
    let (connection, mut socket) = open(4).await;
    let id = MessageId::new();
    let (first, again, ()) =
        tokio::join!(connection.ping(id), async { connection.ping(id).await.expect_err("in use").kind() }, async {
            let ping = socket.ping().await.message_id;
            socket.pong(ping).await;
        });
    assert_eq!((first.is_ok(), again), (true, RequestErrorKind::MessageIdInUse));
    let (later, ()) = tokio::join!(connection.ping(id), async {
        let ping = socket.ping().await.message_id;
        socket.pong(ping).await;
    });
    assert!(later.is_ok());
}

#[actix_rt::test]
async fn a_request_out_of_its_time_closes_the_connection_with_1001() {
    let peer = Peer::plain().await;
    let (connection, mut socket) = open_with(&peer, impatient(), 4).await;
    let begun = Instant::now();
    let (unanswered, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        socket.ping().await;
        assert_eq!(socket.got().await, Got::Close(Some(1001)));
        drop(socket);
    });
    assert!(begun.elapsed() >= impatient().request);
    let unanswered = unanswered.expect_err("no answer");
    assert_eq!((unanswered.kind(), unanswered.is_retriable()), (RequestErrorKind::Connection, true));
    assert_eq!(connection.error().expect("ended").kind(), ConnectionErrorKind::Timeout);
}

#[actix_rt::test]
async fn a_slow_ack_delays_no_reading() {
    let (connection, mut socket) = open(4).await;
    let proof = proof(9);
    let reader = connection.clone();
    let (receipt, ()) = tokio::join!(connection.ack(MessageId::new(), &proof), async {
        let ack = socket.ack().await;
        // The receipt waits until two deliveries have been read.
        for n in 1..=2 {
            socket.deliver(n).await;
            reader.next().await.expect("a delivery");
        }
        socket.acked(&ack).await;
    });
    assert!(receipt.is_ok());
}

#[actix_rt::test]
async fn a_dropped_request_keeps_its_place_and_its_late_answer_harms_nothing() {
    let (connection, mut socket) = open(4).await;
    assert!(connection.ping(MessageId::new()).now_or_never().is_none());
    let first = socket.ping().await.message_id;
    socket.pong(first).await;
    let (pong, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await.message_id;
        socket.pong(ping).await;
    });
    assert!(pong.is_ok());
}

#[actix_rt::test]
async fn requests_fail_with_the_connections_end() {
    let (connection, mut socket) = open(4).await;
    let (failed, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        socket.ping().await;
        socket.close(1012).await;
    });
    let failed = failed.expect_err("ended");
    assert_eq!((failed.kind(), failed.code()), (RequestErrorKind::Connection, "CLOSE_1012"));
    let later = connection.ping(MessageId::new()).await.expect_err("ended");
    assert_eq!((later.kind(), later.code()), (RequestErrorKind::Connection, "CLOSE_1012"));
}

#[actix_rt::test]
async fn large_deliveries_and_acks_pass_each_other() {
    let (connection, mut socket) = open(1).await;
    let payload = format!("\"{}\"", "x".repeat(500_000));
    let payload = perilune_proto::RawJson::parse(&payload, 1).expect("json");
    let (received, ()) = tokio::join!(
        async {
            let mut bytes = 0;
            for _ in 0..20 {
                let received = connection.next().await.expect("a delivery");
                bytes += received.event().snapshot.payload.as_str().len();
                connection.ack(MessageId::new(), received.proof()).await.expect("confirmed");
            }
            bytes
        },
        async {
            for n in 1..=20 {
                socket.send(&delivery_with(n, payload.clone())).await;
                let ack = socket.ack().await;
                socket.acked(&ack).await;
            }
        }
    );
    assert_eq!(received, 20 * 500_002);
}
