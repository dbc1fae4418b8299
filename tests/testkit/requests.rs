//! Faults of requests and their answers.

use std::time::Duration;

use perilune::client::{MessageId, NewMessageId as _};
use perilune::testkit::{Platform, Record, RequestFault, Script, Terms, Verdict, sample_event};
use perilune_proto::scalar::{EventId, Generation};
use perilune_proto::wire::ErrorCode;

use crate::run::{LIMIT, calls, dial, ends, hasty, in_system, sessions, survives, survives_a_lost_lease};

fn judged(event_id: EventId, verdict: Verdict) -> Record {
    Record::Judged { event_id, generation: Generation(1), verdict }
}

#[test]
fn a_dropped_answer_is_asked_for_again_and_the_handler_is_not_called_again() {
    in_system(|| async {
        let (platform, event) = survives(Script::new().ack(1, RequestFault::DropAnswer)).await;
        platform.journal().handled_once(event).expect("the proof is kept");
        let replayed = judged(event, Verdict::Replayed);
        let records = platform.journal().records();
        assert!(records.contains(&judged(event, Verdict::Confirmed)) && records.contains(&replayed), "{records:?}");
        assert_eq!((sessions(&platform), calls(&platform)), (2, 1));
    });
}

#[test]
fn connections_can_be_cut_by_hand_and_leases_go_on() {
    in_system(|| async {
        let platform = Platform::start(Script::new()).expect("a free port");
        let connection = dial(&platform, &platform.client()).await;
        platform.publish(sample_event());
        let received = connection.next().await.expect("leased");
        platform.cut_connections();
        connection.next().await.expect_err("cut");
        let connection = dial(&platform, &platform.client()).await;
        connection.ack(MessageId::new(), received.proof()).await.expect("the lease outlives its connection");
    });
}

#[test]
fn a_lost_request_counts_for_nothing_and_is_made_again() {
    in_system(|| async {
        let (platform, event) = survives(Script::new().ack(1, RequestFault::LoseRequest)).await;
        platform.journal().handled_once(event).expect("the proof is kept");
        assert!(!platform.journal().records().contains(&judged(event, Verdict::Replayed)));
        assert_eq!(sessions(&platform), 2);
    });
}

#[test]
fn an_answer_that_is_cut_off_is_none() {
    in_system(|| async {
        for bytes in [0, 1, 100] {
            let (platform, event) = survives(Script::new().ack(1, RequestFault::CutAfter(bytes))).await;
            platform.journal().handled_once(event).expect("the proof is kept");
            assert!(platform.journal().records().contains(&judged(event, Verdict::Replayed)), "{bytes}");
        }
    });
}

#[test]
fn an_answer_that_comes_too_late_or_never_costs_a_session() {
    in_system(|| async {
        for fault in [RequestFault::Delay(LIMIT), RequestFault::GoSilent] {
            let (platform, event) = survives(Script::new().ack(1, fault)).await;
            platform.journal().handled_once(event).expect("the proof is kept");
            assert!(platform.journal().records().contains(&judged(event, Verdict::Replayed)));
            assert_eq!(sessions(&platform), 2);
        }
    });
}

#[test]
fn an_answer_that_is_only_late_costs_nothing() {
    in_system(|| async {
        let late = RequestFault::Delay(Duration::from_millis(30));
        let (platform, _) = survives(Script::new().ack(1, late)).await;
        assert_eq!((sessions(&platform), calls(&platform)), (1, 1));
    });
}

#[test]
fn a_platform_that_reads_nothing_after_its_welcome_is_left() {
    in_system(|| async {
        let (platform, event) = survives(Script::new().register(1, RequestFault::StallReads(LIMIT))).await;
        platform.journal().handled_once(event).expect("the proof is kept");
        assert_eq!(sessions(&platform), 2);
    });
}

#[test]
fn a_registration_may_fail_or_go_unanswered() {
    in_system(|| async {
        for fault in [RequestFault::Fail(ErrorCode::Unavailable), RequestFault::LoseRequest] {
            let (platform, event) = survives(Script::new().register(1, fault)).await;
            platform.journal().handled_once(event).expect("once");
        }
        // A session that counts has its delivery, which goes with it.
        for fault in [RequestFault::GoSilent, RequestFault::CutAfter(9)] {
            let (platform, event) = survives_a_lost_lease(Script::new().register(1, fault)).await;
            platform.journal().handled_once(event).expect("once");
        }
        assert!(ends(Script::new().register(1, RequestFault::Fail(ErrorCode::HistoryGap))).await.is_history_gap());
    });
}

#[test]
fn a_proof_may_be_refused() {
    in_system(|| async {
        let error = ends(Script::new().ack(1, RequestFault::Fail(ErrorCode::Unauthenticated))).await;
        assert!(error.is_unauthenticated(), "{error}");
        ends(Script::new().ack(1, RequestFault::Fail(ErrorCode::ProofInvalid))).await;
        let platform = Platform::start(Script::new().ack(1, RequestFault::Fail(ErrorCode::ProofLost))).expect("a port");
        let connection = dial(&platform, &platform.client()).await;
        platform.publish(sample_event());
        let received = connection.next().await.expect("leased");
        assert!(connection.ack(MessageId::new(), received.proof()).await.expect_err("refused").is_proof_lost());
        connection.ack(MessageId::new(), received.proof()).await.expect("the connection stays, and the proof counts");
    });
}

#[test]
fn a_heartbeat_that_goes_unanswered_costs_a_session() {
    in_system(|| async {
        let terms = Terms { heartbeat_interval_ms: 1_000, ..Terms::default() };
        let script = Script::new().ping(1, RequestFault::DropAnswer);
        let platform = Platform::start_with(script, terms).expect("a free port");
        let consumer = platform.consumer().handler(|_, _| async { Ok(()) }).build().expect("a handler");
        let run = consumer.start().expect("a system");
        let two = |records: &[Record]| {
            records.iter().filter(|record| matches!(record, Record::SessionOpened { .. })).count() == 2
        };
        platform.journal().until("a second session", LIMIT, two).await.expect("it comes back");
        platform.journal().every_fault_played().expect("the heartbeat was refused");
        run.stop();
        run.ended().await.expect("nothing is left");
    });
}

/// What the kit is for: a consumer that bears nothing is found out.
#[test]
fn a_naive_consumer_is_found_out() {
    in_system(|| async {
        let platform = Platform::start(Script::new().ack(1, RequestFault::LoseRequest)).expect("a free port");
        let event = platform.publish(sample_event());
        let handler = platform.watch(perilune::consumer::handler_fn(|_, _| async { Ok(()) }));
        // It forgets its proofs with its connection.
        for _ in 0..2 {
            let connection = dial(&platform, &hasty(&platform)).await;
            let received = connection.next().await.expect("a delivery");
            let generation = received.proof().generation;
            let context = perilune::consumer::EventContext::new(platform.subscription_id(), generation, LIMIT);
            let given = std::sync::Arc::new(received.event().clone());
            perilune::consumer::EventHandler::handle(&handler, given, context).await.expect("handled");
            if connection.ack(MessageId::new(), received.proof()).await.is_err() {
                platform.journal().nothing_unconfirmed().expect_err("the request was lost");
                platform.advance(Duration::from_secs(31));
            }
        }
        platform.journal().nothing_unconfirmed().expect("the second lease is confirmed");
        assert!(platform.journal().handled_once(event).expect_err("twice").expected().contains("2 times"));
    });
}
