//! Consumer.md section 3: from delivery to gone.

use perilune_proto::limits::LEASE_TRANSIT_MAX;

use super::*;

fn one_slot() -> Options {
    Options { capacity: 1, ..options() }
}

#[test]
fn a_delivery_with_a_free_slot_starts_its_handler_with_what_is_left_of_the_lease() {
    let mut bench = Bench::up(&options());
    bench.deliver_for(1, 3, 2 * SECOND);
    assert_eq!(bench.starts(), just(1, 3));
    let now = bench.now;
    assert!(matches!(bench.done[..], [Action::Start { lease_ends, .. }] if lease_ends == now + 2 * SECOND));
}

#[test]
fn running_and_committed_events_never_exceed_the_capacity() {
    let mut bench = Bench::up(&Options { capacity: 2, ..options() });
    bench.deliver(1, 1).deliver(2, 1).deliver(3, 1);
    assert_eq!(bench.starts(), []);
    bench.ok(1);
    assert_eq!(bench.starts(), [], "a committed event keeps its slot");
    bench.confirm(1, 1);
    assert_eq!(bench.starts(), just(3, 1));
}

#[test]
fn what_waits_starts_in_the_order_it_came() {
    let mut bench = Bench::up(&one_slot());
    let mut three = Bench::up(&Options { capacity: 3, ..options() });
    three.deliver(1, 1).deliver(2, 1).deliver(3, 1).deliver(6, 1).deliver(4, 1).deliver(5, 1);
    assert_eq!(three.ended(1, HandlerOutcome::Error).starts(), just(6, 1));
    assert_eq!(three.ended(2, HandlerOutcome::Error).starts(), just(4, 1));
    bench.deliver(1, 1).deliver(2, 1);
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), just(2, 1));
}

#[test]
fn one_unread_delivery_too_many_closes_the_connection_and_is_retriable() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).deliver(2, 1);
    assert!(!bench.closed());
    bench.deliver(3, 1);
    assert!(bench.closed());
    bench.end(CauseCode::Closed.into());
    assert_eq!(bench.notices(), [Notice::Disconnected { cause: CauseCode::ReceiveBufferFull.into() }]);
    bench.reconnect();
}

#[test]
fn one_more_takes_the_place_of_a_lease_that_has_just_ended_for_the_platform() {
    let mut bench = Bench::up(&Options { capacity: 2, ..options() });
    bench.deliver(1, 1).deliver(2, 1).deliver_for(3, 1, SECOND).deliver_for(4, 1, SECOND + LEASE_TRANSIT_MAX * 2);
    // The platform's clock began a transit earlier: it has given 3 up, and sends another.
    bench.pass(SECOND - LEASE_TRANSIT_MAX).deliver(5, 1);
    assert!(!bench.closed());
    assert_eq!(bench.notices(), [Notice::LeaseLapsed { event_id: event_id(3), generation: Generation(1) }]);
    // The next one that ends has longer to go.
    bench.deliver(6, 1);
    assert!(bench.closed());
}

#[test]
fn what_waits_survives_its_session_and_makes_room_for_the_next_ones() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).deliver(2, 1).disconnect().reconnect();
    assert_eq!(bench.consumer.stats().waiting, 1);
    bench.deliver(3, 1);
    assert!(!bench.closed(), "the new session has sent one delivery only");
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), just(3, 1));
}

#[test]
fn a_waiting_event_starts_while_the_connection_is_down() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).deliver(2, 1).disconnect();
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), just(2, 1));
}

#[test]
fn error_panic_and_a_gone_handler_never_acknowledge_and_free_the_slot() {
    for outcome in [HandlerOutcome::Error, HandlerOutcome::Panicked, HandlerOutcome::Gone] {
        let mut bench = Bench::up(&one_slot());
        bench.deliver(1, 4).deliver(2, 1).ended(1, outcome);
        assert_eq!(bench.acks(), [], "{outcome:?}");
        let generation = Generation(4);
        assert_eq!(
            bench.notices(),
            [Notice::HandlerFailed { event_id: event_id(1), generation, code: "HANDLER_FAILED" }]
        );
        assert_eq!(bench.starts(), just(2, 1), "not retried in memory, the slot is free");
        assert_eq!(bench.consumer.stats().handler_failures, 1);
    }
}

#[test]
fn a_lease_that_lapses_before_a_slot_is_free_is_gone() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).deliver_for(2, 1, SECOND).pass(SECOND);
    let lapsed = Notice::LeaseLapsed { event_id: event_id(2), generation: Generation(1) };
    assert_eq!(bench.notices(), [lapsed]);
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), []);
}

#[test]
fn an_event_whose_lease_has_just_lapsed_does_not_start_even_if_the_timer_is_late() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).deliver_for(2, 1, SECOND);
    bench.now += SECOND;
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), []);
}

#[test]
fn a_lease_that_lapses_in_a_handler_is_told_once_and_its_ok_is_still_acknowledged() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver_for(1, 1, SECOND).pass(SECOND);
    assert_eq!(bench.signals(), [(1, RunSignal::LeaseLapsed)]);
    assert_eq!(bench.notices(), [Notice::LeaseLapsed { event_id: event_id(1), generation: Generation(1) }]);
    assert!(bench.pass(SECOND).done.is_empty());
    assert_eq!(bench.ok(1).acks(), just(1, 1));
}

#[test]
fn a_newer_generation_of_a_held_event_starts_no_second_handler() {
    let mut bench = Bench::up(&options());
    assert_eq!(bench.deliver(1, 1).deliver(1, 2).starts(), []);
    assert_eq!(bench.ok(1).deliver(1, 3).starts(), []);
    assert_eq!(bench.consumer.stats().successors, 1);
}

#[test]
fn a_confirmed_proof_takes_its_successor_with_it() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(1, 2).ok(1).confirm(1, 1);
    assert_eq!(bench.starts(), []);
    assert_eq!(bench.consumer.stats().successors, 0);
}

#[test]
fn a_lost_proof_gives_its_successor_the_turn_and_a_failed_handler_too() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).deliver(2, 1).deliver(1, 2).deliver(1, 3).ok(1).answer(1, 1, AckAnswer::Lost);
    assert_eq!(bench.starts(), just(1, 3), "the newest, before anything that waits");
    bench.deliver(1, 4).ended(2, HandlerOutcome::Error);
    assert_eq!(bench.starts(), just(1, 4));
    assert_eq!(bench.ok(3).acks(), just(1, 4), "under the proof it was handled for");
}

#[test]
fn a_lost_proof_without_a_successor_is_forgotten() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).ok(1).answer(1, 1, AckAnswer::Lost);
    assert_eq!(bench.notices(), [Notice::ProofLost { event_id: event_id(1), generation: Generation(1) }]);
    let mut counted = Stats::default();
    (counted.started, counted.proofs_lost) = (1, 1);
    assert_eq!(*bench.consumer.stats(), counted);
    assert_eq!(bench.deliver(1, 2).starts(), just(1, 2));
}

#[test]
fn a_successor_whose_lease_lapses_while_it_waits_is_gone() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver_for(1, 2, SECOND).pass(SECOND);
    assert_eq!(bench.notices(), [Notice::LeaseLapsed { event_id: event_id(1), generation: Generation(2) }]);
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), []);
}

#[test]
fn replays_and_older_generations_are_dropped_wherever_the_event_is() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 5).deliver(1, 5).deliver(1, 4);
    assert_eq!(bench.consumer.stats().successors, 0);
    bench.deliver(1, 7).deliver(1, 6);
    bench.deliver(2, 2).deliver(2, 2).deliver(2, 1);
    assert_eq!(bench.consumer.stats().waiting, 1);
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), just(1, 7));
    assert_eq!(bench.ended(2, HandlerOutcome::Error).starts(), just(2, 2));
    assert_eq!(bench.consumer.stats().stale_deliveries, 5);
}

#[test]
fn a_newer_generation_takes_the_place_of_one_that_waits() {
    let mut bench = Bench::up(&one_slot());
    bench.deliver(1, 1).deliver(2, 1).deliver(2, 2);
    assert_eq!(bench.consumer.stats().waiting, 1);
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), just(2, 2));
}

#[test]
fn a_delivery_under_a_new_id_is_newer_whatever_its_generation() {
    let mut bench = Bench::up(&options());
    let afresh = EventProof { delivery_id: DeliveryId::from_u128(99), ..proof(1, 1) };
    bench.deliver(1, 5).ok(1);
    let (epoch, delivery) = (bench.epoch, Delivered { proof: afresh, event: event(1), lease: LEASE });
    bench.hear(Input::Delivered { epoch, delivery }).answer(1, 5, AckAnswer::Lost);
    assert_eq!(bench.starts(), just(1, 1));
}

#[test]
fn no_handler_starts_that_could_exceed_max_events_and_the_run_stops_after_its_last_receipt() {
    let max_events = std::num::NonZeroU64::new(2);
    let mut bench = Bench::up(&Options { max_events, ..options() });
    assert_eq!(bench.deliver(1, 1).starts(), just(1, 1));
    assert_eq!(bench.deliver(2, 1).starts(), just(2, 1));
    assert_eq!(bench.deliver(3, 1).starts(), []);
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), just(3, 1), "a failed one makes room");
    bench.ok(2).answer(2, 1, AckAnswer::Lost).deliver(4, 1);
    assert_eq!(bench.starts(), just(4, 1), "a lost proof is no receipt");
    bench.ok(3).confirm(3, 1).ok(4);
    assert_eq!(bench.report(), None);
    bench.confirm(4, 1).disconnect();
    assert!(bench.report().is_some_and(|report| report.is_clean() && report.end == EndReason::MaxEvents));
}

#[test]
fn a_successor_runs_in_its_predecessors_slot_under_max_events() {
    let max_events = std::num::NonZeroU64::new(1);
    let mut bench = Bench::up(&Options { max_events, ..options() });
    bench.deliver(1, 1).deliver(1, 2).ended(1, HandlerOutcome::Error);
    assert_eq!(bench.starts(), just(1, 2));
}
