//! Faults of deliveries.

use std::time::{Duration, Instant};

use perilune::client::{EventRegistration, MessageId, NewMessageId as _};
use perilune::testkit::{DeliveryFault, Platform, Record, Script, Terms, sample_event};
use perilune_proto::scalar::Generation;

use crate::run::{LIMIT, calls, dial, hasty, in_system, sessions, survives};

fn with(fault: DeliveryFault) -> Script {
    Script::new().delivery(1, fault)
}

#[test]
fn a_lost_delivery_comes_again_when_its_lease_has_lapsed() {
    in_system(|| async {
        let platform = Platform::start(with(DeliveryFault::Lose)).expect("a free port");
        let connection = dial(&platform, &platform.client()).await;
        let event = platform.publish(sample_event());
        let leased = Record::Delivered { event_id: event, generation: Generation(1) };
        platform.journal().until("a lease", LIMIT, |records| records.contains(&leased)).await.expect("leased");
        platform.advance(Duration::from_secs(31));
        let received = connection.next().await.expect("the second lease");
        assert_eq!(received.proof().generation, Generation(2));
    });
}

#[test]
fn a_clock_that_is_put_forward_frees_the_sessions_credit() {
    in_system(|| async {
        let platform = Platform::start(Script::new()).expect("a free port");
        let registration = EventRegistration { subscription_id: platform.subscription_id(), capacity: 1 };
        let connection = platform.client().dial_events(registration).await.expect("a session");
        let event = platform.publish(sample_event());
        for generation in 1..=10 {
            let received = connection.next().await.expect("leased again");
            assert_eq!((received.event().event_id, received.proof().generation), (event, Generation(generation)));
            platform.advance(Duration::from_secs(31));
        }
    });
}

#[test]
fn a_lease_lapses_by_time_too() {
    in_system(|| async {
        let terms = Terms { lease_ms: 1_000, ..Terms::default() };
        let platform = Platform::start_with(with(DeliveryFault::Lose), terms).expect("a free port");
        let connection = dial(&platform, &platform.client()).await;
        platform.publish(sample_event());
        let received = connection.next().await.expect("the second lease");
        assert_eq!(received.proof().generation, Generation(2));
    });
}

#[test]
fn a_delayed_delivery_arrives_no_earlier_and_what_follows_behind_it() {
    in_system(|| async {
        let delay = Duration::from_millis(150);
        let platform = Platform::start(with(DeliveryFault::Delay(delay))).expect("a free port");
        let connection = dial(&platform, &platform.client()).await;
        let begun = Instant::now();
        let (first, second) = (platform.publish(sample_event()), platform.publish(sample_event()));
        assert_eq!(connection.next().await.expect("late").event().event_id, first);
        assert!(begun.elapsed() >= delay);
        assert_eq!(connection.next().await.expect("behind it").event().event_id, second);
    });
}

#[test]
fn a_duplicate_is_the_same_delivery_and_handled_once() {
    in_system(|| async {
        let platform = Platform::start(with(DeliveryFault::Duplicate)).expect("a free port");
        let connection = dial(&platform, &platform.client()).await;
        platform.publish(sample_event());
        let first = connection.next().await.expect("one");
        assert_eq!(connection.next().await.expect("another").proof(), first.proof());
        let (platform, event) = survives(with(DeliveryFault::Duplicate)).await;
        platform.journal().handled_once(event).expect("a replay is dropped");
        assert_eq!(calls(&platform), 1);
    });
}

#[test]
fn a_lapsed_lease_is_followed_by_the_next_generation() {
    in_system(|| async {
        let platform = Platform::start(with(DeliveryFault::Lapse)).expect("a free port");
        let connection = dial(&platform, &platform.client()).await;
        let event = platform.publish(sample_event());
        let first = connection.next().await.expect("the first lease");
        assert_eq!(first.proof().generation, Generation(1));
        let second = connection.next().await.expect("the second lease");
        assert_eq!(second.proof().generation, Generation(2));
        let lost = connection.ack(MessageId::new(), first.proof()).await.expect_err("superseded");
        assert!(lost.is_proof_lost());
        connection.ack(MessageId::new(), second.proof()).await.expect("confirmed");
        platform.journal().acknowledged(event, Generation(1)).expect_err("it was superseded");
        platform.journal().acknowledged(event, Generation(2)).expect("confirmed");
    });
}

#[test]
fn a_replaced_generation_proves_nothing_any_more() {
    in_system(|| async {
        let (platform, event) = survives(with(DeliveryFault::Replace)).await;
        platform.journal().acknowledged(event, Generation(2)).expect("the second lease confirms");
        let lost = platform.journal().acknowledged(event, Generation(1)).expect_err("the first one does not");
        assert!(lost.to_string().contains("Lost"), "{lost}");
        // Its proof is lost, so its successor had its turn.
        platform.journal().handled_once(event).expect_err("it was handled twice");
        assert_eq!(calls(&platform), 2);
    });
}

#[test]
fn a_delivery_that_is_cut_off_comes_again_on_the_next_session() {
    in_system(|| async {
        for bytes in [0, 1, 300] {
            let platform = Platform::start(with(DeliveryFault::CutAfter(bytes))).expect("a free port");
            let connection = dial(&platform, &platform.client()).await;
            platform.publish(sample_event());
            connection.next().await.expect_err("cut off");
            platform.advance(Duration::from_secs(31));
            let connection = dial(&platform, &platform.client()).await;
            assert_eq!(connection.next().await.expect("again").proof().generation, Generation(2));
        }
    });
}

#[test]
fn a_silent_platform_is_left_by_whoever_asks_it() {
    in_system(|| async {
        let platform = Platform::start(with(DeliveryFault::GoSilent)).expect("a free port");
        let connection = dial(&platform, &hasty(&platform)).await;
        platform.publish(sample_event());
        connection.ping(MessageId::new()).await.expect_err("nothing is said any more");
        let connection = dial(&platform, &platform.client()).await;
        connection.ping(MessageId::new()).await.expect("another connection is answered");
    });
}

#[test]
fn a_platform_that_reads_nothing_hears_the_proof_on_the_next_session() {
    in_system(|| async {
        let (platform, event) = survives(with(DeliveryFault::StallReads(LIMIT))).await;
        assert_eq!(sessions(&platform), 2);
        platform.journal().handled_once(event).expect("the proof outlives its connection");
        platform.journal().acknowledged(event, Generation(1)).expect("the first lease");
    });
}

#[test]
fn a_paused_subscription_leases_nothing_and_still_confirms() {
    in_system(|| async {
        let platform = Platform::start(Script::new()).expect("a free port");
        let connection = dial(&platform, &platform.client()).await;
        platform.publish(sample_event());
        let received = connection.next().await.expect("leased");
        platform.pause();
        let later = platform.publish(sample_event());
        assert!(!connection.ping(MessageId::new()).await.expect("a pong").enabled);
        connection.ack(MessageId::new(), received.proof()).await.expect("confirmed");
        let leased = |record: &Record| matches!(record, Record::Delivered { event_id, .. } if *event_id == later);
        assert!(!platform.journal().records().iter().any(leased));
        platform.resume();
        assert_eq!(connection.next().await.expect("leased").event().event_id, later);
    });
}
