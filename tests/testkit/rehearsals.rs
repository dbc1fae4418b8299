//! Rehearsals: the same faults in memory, by a clock that nobody waits for.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use perilune::consumer::{CancelReason, HandlerError, handler_fn};
use perilune::proto::consumer::EndReason;
use perilune::proto::scalar::{EventId, Generation};
use perilune::proto::wire::ErrorCode;
use perilune::testkit::{
    DeliveryFault, DialFault, Outcome, Record, Rehearsal, Rehearsed, RequestFault, Script, Terms, Verdict, sample_event,
};

fn paused<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}

/// Plays a script to a handler that ends well.
fn play(script: Script) -> (Rehearsed, EventId) {
    paused(async {
        let mut rehearsal = Rehearsal::new(script).expect("a script");
        let event = rehearsal.publish(sample_event());
        let rehearsed = rehearsal.run(handler_fn(|_, _| async { Ok(()) })).await.expect("a capacity");
        rehearsed.journal().every_fault_played().expect("the fault came");
        (rehearsed, event)
    })
}

fn seconds(rehearsed: &Rehearsed) -> u64 {
    rehearsed.elapsed().as_secs()
}

#[test]
fn nothing_goes_wrong_where_nothing_is_scripted() {
    let (rehearsed, event) = play(Script::new());
    rehearsed.journal().handled_once(event).expect("once");
    rehearsed.journal().acknowledged(event, Generation(1)).expect("the first lease");
    assert_eq!(rehearsed.report().end, EndReason::Stopped);
    assert!(rehearsed.report().is_clean() && seconds(&rehearsed) == 0, "{rehearsed:?}");
}

#[test]
fn every_fault_is_borne_and_costs_its_time_and_no_more() {
    let dial = |fault| Script::new().dial(1, fault);
    let delivery = |fault| Script::new().delivery(1, fault);
    let ack = |fault| Script::new().ack(1, fault);
    let minute = Duration::from_secs(60);
    // What each costs: a redial, the handshake's 8 s, a request's 10 s, a lease's 30 s.
    for (script, least, most) in [
        (dial(DialFault::Refuse(503)), 0, 1),
        (dial(DialFault::Hang), 8, 9),
        (dial(DialFault::CutAfter(10)), 30, 32),
        (delivery(DeliveryFault::Lose), 30, 32),
        (delivery(DeliveryFault::Delay(Duration::from_secs(7))), 7, 8),
        (delivery(DeliveryFault::Duplicate), 0, 1),
        (delivery(DeliveryFault::CutAfter(100)), 30, 32),
        // All of the frame, and then the cut: the proof goes out on the next connection.
        (delivery(DeliveryFault::CutAfter(100_000)), 0, 1),
        (delivery(DeliveryFault::GoSilent), 30, 60),
        (delivery(DeliveryFault::StallReads(minute)), 10, 12),
        (ack(RequestFault::LoseRequest), 0, 1),
        (ack(RequestFault::DropAnswer), 0, 1),
        (ack(RequestFault::Delay(Duration::from_secs(9))), 9, 10),
        (ack(RequestFault::Delay(minute)), 10, 12),
        (ack(RequestFault::CutAfter(20)), 0, 1),
        (ack(RequestFault::GoSilent), 10, 12),
        (Script::new().register(1, RequestFault::Fail(ErrorCode::Unavailable)), 0, 1),
        (Script::new().register(1, RequestFault::GoSilent), 30, 40),
    ] {
        let (rehearsed, event) = play(script.clone());
        rehearsed.journal().nothing_unconfirmed().unwrap_or_else(|unmet| panic!("{script:?}: {unmet}"));
        rehearsed.journal().handled_once(event).unwrap_or_else(|unmet| panic!("{script:?}: {unmet}"));
        assert!((least..=most).contains(&seconds(&rehearsed)), "{script:?} took {:?}", rehearsed.elapsed());
    }
}

#[test]
fn a_proof_that_was_replaced_is_lost_and_its_successor_handled() {
    let (rehearsed, event) = play(Script::new().delivery(1, DeliveryFault::Replace));
    let records = rehearsed.journal().records();
    assert!(records.contains(&Record::Judged { event_id: event, generation: Generation(1), verdict: Verdict::Lost }));
    rehearsed.journal().acknowledged(event, Generation(2)).expect("the second lease");
    rehearsed.journal().handled_once(event).expect_err("it was handled twice");
}

#[test]
fn a_permanent_cause_ends_it() {
    for script in [
        Script::new().dial(1, DialFault::Refuse(403)),
        Script::new().register(1, RequestFault::Fail(ErrorCode::HistoryGap)),
        Script::new().ack(1, RequestFault::Fail(ErrorCode::Unauthenticated)),
    ] {
        let (rehearsed, _) = play(script);
        assert!(matches!(rehearsed.report().end, EndReason::Permanent(_)), "{rehearsed:?}");
        rehearsed.journal().nothing_unconfirmed().expect_err("the event is still open");
    }
}

#[test]
fn a_heartbeat_keeps_a_long_rehearsal_going_and_its_loss_costs_a_session() {
    paused(async {
        let script = Script::new().ping(3, RequestFault::GoSilent);
        let mut rehearsal = Rehearsal::new(script).expect("a script");
        let event = rehearsal.publish(sample_event());
        let slow = handler_fn(|_, _| async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        });
        let rehearsed = rehearsal.run(slow).await.expect("a capacity");
        rehearsed.journal().every_fault_played().expect("three pings");
        let sessions = |record: &&Record| matches!(record, Record::SessionOpened { .. });
        assert_eq!(rehearsed.journal().records().iter().filter(sessions).count(), 2);
        // Its lease lapsed many times, and no second handler began while the first was at work.
        assert!(seconds(&rehearsed) >= 600, "{rehearsed:?}");
        let called = |record: &&Record| matches!(record, Record::HandlerCalled { .. });
        assert!(rehearsed.journal().records().iter().filter(called).count() <= 2, "{rehearsed:?}");
        let _ = event;
    });
}

#[test]
fn a_failing_or_panicking_handler_gets_the_event_again() {
    paused(async {
        let mut rehearsal = Rehearsal::new(Script::new()).expect("a script");
        let event = rehearsal.publish(sample_event());
        let calls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&calls);
        let handler = handler_fn(move |_, context| {
            counted.set(counted.get() + 1);
            let call = counted.get();
            assert_eq!(context.generation().0, call, "each attempt has a lease of its own");
            async move {
                match call {
                    1 => Err(HandlerError::msg("not yet")),
                    2 => panic!("nor now"),
                    _ => Ok(()),
                }
            }
        });
        let rehearsed = rehearsal.run(handler).await.expect("a capacity");
        assert_eq!(calls.get(), 3);
        rehearsed.journal().handled_once(event).expect("the third call");
        rehearsed.journal().acknowledged(event, Generation(3)).expect("the third lease");
        let ended = |outcome, generation| Record::HandlerEnded { event_id: event, generation, outcome };
        let records = rehearsed.journal().records();
        assert!(records.contains(&ended(Outcome::Error, Generation(1))));
        assert!(records.contains(&ended(Outcome::Dropped, Generation(2))));
    });
}

#[test]
fn a_lapsed_lease_is_told_to_the_handler() {
    paused(async {
        let mut rehearsal = Rehearsal::new(Script::new()).expect("a script");
        let event = rehearsal.publish(sample_event());
        let handler = handler_fn(|_, context| async move {
            if context.generation() == Generation(1) {
                assert_eq!(context.cancellation().cancelled().await, CancelReason::LeaseLapsed);
                assert_eq!(context.lease_left(), Duration::ZERO);
            }
            Ok(())
        });
        let rehearsed = rehearsal.run(handler).await.expect("a capacity");
        assert!((30..33).contains(&seconds(&rehearsed)), "{rehearsed:?}");
        let ok = |record: &&Record| matches!(record, Record::HandlerEnded { outcome: Outcome::Ok, .. });
        assert!(rehearsed.journal().records().iter().any(|record| ok(&record)));
        rehearsed.journal().nothing_unconfirmed().expect("confirmed");
        let _ = event;
    });
}

#[test]
fn a_handler_that_never_ends_is_left_at_the_limit() {
    paused(async {
        let mut rehearsal = Rehearsal::new(Script::new()).expect("a script").limit(Duration::from_secs(100));
        let event = rehearsal.publish(sample_event());
        let stuck = handler_fn(|_, _| std::future::pending());
        let rehearsed = rehearsal.run(stuck).await.expect("a capacity");
        // The limit, and the consumer's 30 s for its end.
        assert!((130..132).contains(&seconds(&rehearsed)), "{rehearsed:?}");
        assert_eq!(rehearsed.report().running, [event]);
        rehearsed.journal().nothing_unconfirmed().expect_err("nothing was confirmed");
        rehearsed.journal().handled_once(event).expect_err("it never ended");
    });
}

#[test]
fn many_events_go_through_few_slots() {
    paused(async {
        let terms = Terms { lease_ms: 1_000, ..Terms::default() };
        let mut rehearsal = Rehearsal::with_terms(Script::new(), terms).expect("terms").capacity(2);
        let events: Vec<_> = (0..50).map(|_| rehearsal.publish(sample_event())).collect();
        let (now, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (running, peak) = (Rc::clone(&now), Rc::clone(&most));
        let handler = handler_fn(move |_, _| {
            let (running, peak) = (Rc::clone(&running), Rc::clone(&peak));
            async move {
                running.set(running.get() + 1);
                peak.set(peak.get().max(running.get()));
                tokio::time::sleep(Duration::from_millis(100)).await;
                running.set(running.get() - 1);
                Ok(())
            }
        });
        let rehearsed = rehearsal.run(handler).await.expect("a capacity");
        for event in events {
            rehearsed.journal().handled_once(event).expect("once");
        }
        assert_eq!(most.get(), 2);
    });
}

#[test]
fn what_means_nothing_is_refused() {
    assert!(Rehearsal::new(Script::new().ack(0, RequestFault::DropAnswer)).is_err());
    assert!(Rehearsal::with_terms(Script::new(), Terms { lease_ms: 0, ..Terms::default() }).is_err());
    paused(async {
        let rehearsal = Rehearsal::new(Script::new()).expect("a script").capacity(33);
        let error = rehearsal.run(handler_fn(|_, _| async { Ok(()) })).await.expect_err("too many");
        assert_eq!(error.field, "capacity");
    });
}

#[test]
fn any_duration_may_be_given() {
    for script in [
        Script::new(),
        Script::new().delivery(1, DeliveryFault::Delay(Duration::MAX)),
        Script::new().delivery(1, DeliveryFault::StallReads(Duration::MAX)),
        Script::new().ack(1, RequestFault::Delay(Duration::MAX)),
        Script::new().ack(1, RequestFault::StallReads(Duration::MAX)),
    ] {
        paused(async {
            let mut rehearsal = Rehearsal::new(script).expect("a script").limit(Duration::MAX);
            rehearsal.publish(sample_event());
            let rehearsed = rehearsal.run(handler_fn(|_, _| async { Ok(()) })).await.expect("a capacity");
            rehearsed.journal().every_fault_played().expect("the fault came");
            rehearsed.journal().nothing_unconfirmed().expect("it is borne");
        });
    }
}
