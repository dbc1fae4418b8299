//! Consumer.md section 3: oldest first, one in flight, reported again after a loss.

use super::*;

#[test]
fn each_proof_is_handed_over_once_in_the_order_of_commitment() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(2, 1).deliver(3, 1);
    assert_eq!(bench.ok(2).acks(), just(2, 1));
    assert_eq!(bench.ok(3).acks(), just(3, 1));
    assert_eq!(bench.confirm(2, 1).acks(), []);
    assert_eq!(bench.ok(1).acks(), just(1, 1));
    assert_eq!(bench.answer(3, 1, AckAnswer::Lost).acks(), []);
    assert_eq!(bench.confirm(1, 1).acks(), []);
    assert_eq!(bench.consumer.stats().acknowledged, 2);
}

#[test]
fn one_ack_is_in_flight_on_a_connection() {
    let mut queue = AckQueue::default();
    (1..=3).for_each(|n| queue.push(proof(n, 1)));
    assert_eq!(queue.send_next(), Some(proof(1, 1)));
    assert_eq!(queue.send_next(), None, "the first is not answered");
    assert_eq!(queue.answered(&AckAnswer::Lost), Some((event_id(1), Generation(1))));
    assert_eq!(queue.send_next(), Some(proof(2, 1)));
    assert_eq!(queue.len(), 2);
    let invalid = AckAnswer::Refused(error(ErrorCode::ProofInvalid));
    assert_eq!(queue.answered(&invalid), Some((event_id(2), Generation(1))));
    assert_eq!(queue.send_next(), Some(proof(3, 1)), "the others are still reported");
}

#[test]
fn nothing_is_sent_after_an_answer_that_judges_the_session() {
    let mut queue = AckQueue::default();
    queue.push(proof(1, 1));
    queue.push(proof(2, 1));
    assert_eq!(queue.send_next(), Some(proof(1, 1)));
    let unavailable = AckAnswer::Refused(error(ErrorCode::Unavailable));
    assert_eq!(queue.answered(&unavailable), Some((event_id(1), Generation(1))));
    queue.push(proof(3, 1));
    assert_eq!(queue.send_next(), None);
    assert!(queue.is_empty());
}

#[test]
fn a_receipt_is_counted_and_noticed_with_whether_it_is_a_replay() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1).answer(1, 1, AckAnswer::Confirmed { replay: Replay::Replayed });
    let (event_id, generation, replayed) = (event_id(1), Generation(1), Replay::Replayed);
    assert_eq!(bench.notices(), [Notice::Acknowledged { event_id, generation, replayed }]);
    let mut counted = Stats::default();
    (counted.started, counted.acknowledged) = (1, 1);
    assert_eq!(*bench.consumer.stats(), counted);
}

#[test]
fn an_unanswered_proof_is_reported_again_on_the_next_session_without_the_handler() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(2, 1).ok(1).ok(2).disconnect();
    assert_eq!(bench.acks(), []);
    bench.reconnect();
    assert_eq!(bench.acks(), [(event_id(1), 1), (event_id(2), 1)], "both, whether sent before or not");
    assert_eq!(bench.starts(), []);
    assert_eq!(bench.deliver(1, 2).starts(), [], "nothing new is handled for it before it is settled");
    assert_eq!(bench.confirm(1, 1).acks(), []);
}

#[test]
fn a_proof_committed_while_the_connection_is_down_is_reported_on_the_next() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).disconnect();
    assert_eq!(bench.ok(1).acks(), []);
    assert_eq!(bench.reconnect().acks(), just(1, 1));
}

#[test]
fn an_answer_to_something_else_settles_nothing() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 2).deliver(2, 1).ok(1).ok(2);
    bench.confirm(1, 1).confirm(2, 1).confirm(9, 1);
    let late = Epoch(bench.epoch.0 - 1);
    let answer = AckAnswer::Confirmed { replay: Replay::First };
    bench.hear(Input::AckAnswered { epoch: late, event_id: event_id(1), generation: Generation(2), answer });
    assert_eq!(bench.consumer.stats().acknowledged, 0);
    assert_eq!(bench.consumer.stats().ignored_inputs, 4);
    assert_eq!(bench.confirm(1, 2).consumer.stats().acknowledged, 1);
    assert_eq!(bench.confirm(1, 2).consumer.stats().acknowledged, 1, "one receipt settles once");
}

#[test]
fn an_answer_that_comes_while_the_connection_closes_still_settles() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1);
    let epoch = bench.epoch;
    bench.hear(Input::ChildLost(Role::Heartbeat));
    assert!(bench.closed());
    let (event_id, generation) = (event_id(1), Generation(1));
    let answer = AckAnswer::Confirmed { replay: Replay::First };
    bench.hear(Input::AckAnswered { epoch, event_id, generation, answer });
    assert_eq!(bench.consumer.stats().acknowledged, 1);
    assert_eq!(bench.disconnect().reconnect().acks(), []);
}

#[test]
fn proof_invalid_is_permanent_but_the_other_proofs_are_still_reported() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(2, 1).ok(1);
    assert_eq!(bench.ok(2).acks(), just(2, 1));
    let cause = error(ErrorCode::ProofInvalid);
    bench.answer(1, 1, AckAnswer::Refused(cause.clone()));
    assert!(!bench.closed());
    assert_eq!(bench.acks(), [], "the second is on its way already");
    bench.confirm(2, 1);
    assert!(bench.closed());
    bench.disconnect();
    let report = bench.report().expect("nothing is left to report");
    assert_eq!(
        report,
        FinishReport { end: EndReason::Permanent(cause), committed: vec![event_id(1)], running: vec![] }
    );
}

#[test]
fn unavailable_as_the_reply_to_an_ack_reconnects_and_reports_again() {
    let mut bench = Bench::up(&options());
    let cause = error(ErrorCode::Unavailable).with_retry_after(9 * SECOND);
    bench.deliver(1, 1).ok(1).answer(1, 1, AckAnswer::Refused(cause.clone()));
    assert!(bench.closed());
    bench.end(CauseCode::Closed.into());
    assert_eq!(bench.notices(), [Notice::Disconnected { cause }]);
    assert_eq!(bench.wait(), 9 * SECOND);
    assert_eq!(bench.reconnect().acks(), just(1, 1));
}

#[test]
fn a_permanent_reply_to_an_ack_closes_and_leaves_the_proof_unconfirmed() {
    let mut bench = Bench::up(&options());
    let cause = error(ErrorCode::Unauthenticated);
    bench.deliver(1, 1).ok(1).answer(1, 1, AckAnswer::Refused(cause.clone()));
    assert!(bench.closed());
    bench.disconnect();
    let report = bench.report().expect("no connection is made again");
    assert_eq!(
        report,
        FinishReport { end: EndReason::Permanent(cause), committed: vec![event_id(1)], running: vec![] }
    );
}
