//! Proofs that are reported in turn.

use futures_util::FutureExt as _;
use perilune_client::{Connection, EventProof, MessageId, NewMessageId as _, TurnAnswered};
use perilune_proto::consumer::{AckAnswer, CauseCode, Replay};
use perilune_proto::scalar::SubscriptionId;

use crate::open;
use crate::peer::Socket;
use crate::peer::frames::{error, proof};

const FIRST: AckAnswer = AckAnswer::Confirmed { replay: Replay::First };

/// Takes this many answers, which must come.
async fn taken(connection: &Connection, count: usize) -> Vec<AckAnswer> {
    connection.answered(count, 0).await;
    connection.take_answers().into_iter().map(|answered| answered.answer).collect()
}

async fn confirm(socket: &mut Socket, proof: &EventProof) {
    let ack = socket.ack().await;
    assert_eq!(ack.delivery_id, proof.delivery_id);
    socket.acked(&ack).await;
}

/// Has a ping answered, which must be the next frame.
async fn ping(connection: &Connection, socket: &mut Socket) {
    let (pong, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        let ping = socket.ping().await;
        socket.pong(ping.message_id).await;
    });
    pong.expect("a pong");
}

#[actix_rt::test]
async fn one_is_in_flight_and_the_next_follows_at_its_receipt() {
    let (connection, mut socket) = open(4).await;
    let proofs = [proof(1), proof(2), proof(3)];
    connection.ack_in_turn(proofs.clone());
    assert_eq!(connection.unanswered(), 3);
    let first = socket.ack().await;
    // The next frame is a ping, so the second proof waits for the first one's receipt.
    ping(&connection, &mut socket).await;
    socket.acked(&first).await;
    let second = socket.ack().await;
    assert_eq!((first.delivery_id, second.delivery_id), (proofs[0].delivery_id, proofs[1].delivery_id));
    assert_ne!(first.message_id, second.message_id);
    connection.answered(1, 0).await;
    let [TurnAnswered { event_id, generation, answer, .. }] = &connection.take_answers()[..] else { panic!("one") };
    assert_eq!((*event_id, *generation, answer), (proofs[0].event_id, proofs[0].generation, &FIRST));
    assert_eq!(connection.unanswered(), 2);
}

#[actix_rt::test]
async fn who_waits_is_told_at_enough_answers_or_when_few_are_left() {
    let (connection, mut socket) = open(4).await;
    let proofs: Vec<_> = (1..=4).map(proof).collect();
    connection.ack_in_turn(proofs.clone());
    confirm(&mut socket, &proofs[0]).await;
    let second = socket.ack().await;
    assert!(connection.answered(2, 2).now_or_never().is_none(), "one of two, and three are left");
    socket.acked(&second).await;
    connection.answered(2, 0).await;
    assert_eq!(connection.take_answers().len(), 2);
    confirm(&mut socket, &proofs[2]).await;
    connection.answered(9, 1).await;
    assert_eq!(connection.take_answers().len(), 1);
}

#[actix_rt::test]
async fn a_judgement_of_the_proof_is_followed_by_the_next_and_one_of_the_session_is_not() {
    let (connection, mut socket) = open(4).await;
    connection.ack_in_turn([proof(1), proof(2), proof(3), proof(4)]);
    for code in ["PROOF_LOST", "PROOF_INVALID", "UNAVAILABLE"] {
        let ack = socket.ack().await;
        socket.send(&error(code, Some(ack.message_id))).await;
    }
    let answers = taken(&connection, 3).await;
    assert_eq!(answers[0], AckAnswer::Lost);
    assert!(answers[1..].iter().all(|answer| matches!(answer, AckAnswer::Refused(_))), "{answers:?}");
    assert_eq!(connection.unanswered(), 0, "the fourth was forgotten");
    ping(&connection, &mut socket).await;
}

#[actix_rt::test]
async fn a_proof_of_another_subscription_is_refused_here_and_the_next_one_sent() {
    let (connection, mut socket) = open(4).await;
    let foreign = EventProof { subscription_id: SubscriptionId::from_u128(99), ..proof(1) };
    connection.ack_in_turn([foreign, proof(2)]);
    confirm(&mut socket, &proof(2)).await;
    assert_eq!(taken(&connection, 2).await, [AckAnswer::Refused(CauseCode::Local.into()), FIRST]);
}

#[actix_rt::test]
async fn answers_that_came_before_the_end_can_still_be_taken_and_no_others_come() {
    let (connection, mut socket) = open(4).await;
    let proofs = [proof(1), proof(2)];
    connection.ack_in_turn(proofs.clone());
    confirm(&mut socket, &proofs[0]).await;
    let _second = socket.ack().await;
    socket.close(1012).await;
    connection.closed().await;
    connection.answered(2, 0).await;
    assert_eq!(connection.take_answers().len(), 1);
    connection.ack_in_turn([proof(3)]);
    connection.answered(1, 0).await;
    assert!(connection.take_answers().is_empty());
}
