//! Consumer.md section 5: a stop in every order.

use super::*;

fn stop(bench: &mut Bench) -> &mut Bench {
    bench.hear(Input::Stop)
}

fn clean(end: EndReason) -> Option<FinishReport> {
    Some(FinishReport { end, committed: vec![], running: vec![] })
}

#[test]
fn an_idle_consumer_closes_waits_for_its_reader_and_ends_without_a_disconnected_notice() {
    let mut bench = Bench::up(&options());
    stop(&mut bench);
    assert!(bench.closed());
    assert_eq!(bench.report(), None);
    bench.disconnect();
    assert_eq!(bench.notices(), [Notice::Stopped]);
    assert_eq!(bench.report(), clean(EndReason::Stopped));
}

#[test]
fn a_stop_while_dialling_gives_the_dial_up() {
    let mut bench = Bench::new(&options());
    stop(&mut bench);
    assert!(bench.closed());
    bench.connect();
    assert!(bench.done.is_empty(), "the dial had succeeded before it heard of the stop");
    assert_eq!(bench.disconnect().report(), clean(EndReason::Stopped));
}

#[test]
fn a_stop_while_backing_off_with_nothing_to_report_ends_at_once() {
    let mut bench = Bench::up(&options());
    bench.disconnect();
    assert_eq!(stop(&mut bench).report(), clean(EndReason::Stopped));
    assert_eq!(bench.consumer.poll_timeout(), None);
}

#[test]
fn a_stop_starts_no_handler_tells_the_running_ones_and_collects_their_results() {
    let mut bench = Bench::up(&Options { capacity: 2, ..options() });
    bench.deliver(1, 1).deliver(2, 1).deliver(3, 1).deliver(1, 2);
    stop(&mut bench);
    assert_eq!(bench.signals(), [(1, RunSignal::Stopping), (2, RunSignal::Stopping)]);
    assert_eq!(bench.deliver(4, 1).starts(), []);
    assert_eq!(bench.ended(1, HandlerOutcome::Error).starts(), [], "neither a successor nor what waited");
    assert!(!bench.closed());
    assert_eq!(bench.ok(2).acks(), just(2, 1));
    assert!(!bench.closed());
    assert!(bench.confirm(2, 1).closed());
    assert_eq!(bench.disconnect().report(), clean(EndReason::Stopped));
    assert_eq!(bench.consumer.stats().ignored_inputs, 0);
}

#[test]
fn a_second_stop_changes_nothing() {
    let mut bench = Bench::up(&Options { shutdown_timeout: 5 * SECOND, ..options() });
    bench.deliver(1, 1);
    stop(&mut bench);
    bench.now += 2 * SECOND;
    assert!(stop(&mut bench).done.is_empty());
    assert_eq!(bench.pass_to_timeout(), Some(Reason::ShutdownDeadline));
    assert!(bench.report().is_some());
    assert!(stop(&mut bench).done.is_empty(), "nor does one after the end");
}

#[test]
fn a_stop_waits_for_an_unanswered_ack_and_reports_again_where_the_connection_drops() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1);
    stop(&mut bench);
    assert!(bench.done.is_empty());
    bench.disconnect();
    assert_eq!(bench.notices().len(), 1, "this is not the clean end of a stop");
    bench.pass_to_timeout();
    assert!(matches!(bench.done[..], [Action::Dial { capacity: 1, .. }]), "only to report");
    assert_eq!(bench.connect().acks(), just(1, 1));
    assert!(bench.confirm(1, 1).closed());
    assert_eq!(bench.disconnect().report(), clean(EndReason::Stopped));
}

#[test]
fn a_stop_while_backing_off_with_a_proof_to_report_still_dials() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1).disconnect();
    assert_eq!(stop(&mut bench).report(), None);
    assert_eq!(bench.reconnect().acks(), just(1, 1));
}

#[test]
fn a_stop_dials_for_a_running_handler_only_once_it_has_said_ok() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).disconnect();
    stop(&mut bench);
    bench.pass(10 * SECOND);
    assert!(!bench.dialled(), "new leases would be lost for nothing");
    assert!(bench.ok(1).dialled());
    assert_eq!(bench.connect().acks(), just(1, 1));
}

#[test]
fn a_lost_proof_ends_a_stop_as_well_as_a_confirmed_one() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(1, 2).ok(1);
    stop(&mut bench);
    bench.answer(1, 1, AckAnswer::Lost);
    assert_eq!(bench.starts(), []);
    assert_eq!(bench.disconnect().report(), clean(EndReason::Stopped));
}

#[test]
fn at_the_deadline_the_report_names_what_is_unconfirmed_and_what_still_runs() {
    let mut bench = Bench::up(&Options { shutdown_timeout: SECOND, ..options() });
    bench.deliver(1, 1).deliver(2, 1).deliver(3, 1).deliver(4, 1).ok(3).ok(1);
    bench.ended(4, HandlerOutcome::Error);
    stop(&mut bench).pass(SECOND);
    let report = bench.report().expect("the time is up");
    assert_eq!(report.committed, [event_id(3), event_id(1)]);
    assert_eq!(report.running, [event_id(2)]);
    assert_eq!(report.unconfirmed().collect::<Vec<_>>(), [event_id(3), event_id(1), event_id(2)]);
    assert_eq!(report.end, EndReason::Stopped);
    assert!(bench.closed(), "the socket is not left behind");
    let stats = bench.consumer.stats();
    assert_eq!((stats.running, stats.committed, stats.waiting, stats.successors), (0, 0, 0, 0));
}

#[test]
fn the_heartbeat_goes_on_to_the_end_of_a_stop() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1);
    let rests = |bench: &Bench| bench.done.iter().any(|action| matches!(action, Action::StopHeartbeat { .. }));
    assert!(!rests(stop(&mut bench)));
    assert!(!rests(bench.ok(1)));
    assert!(rests(bench.confirm(1, 1)));
}

#[test]
fn after_a_permanent_error_running_handlers_are_told_and_awaited_and_no_connection_is_made() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(2, 1);
    let cause = error(ErrorCode::Unauthenticated);
    bench.end(cause.clone());
    assert_eq!(bench.signals(), [(1, RunSignal::Stopping), (2, RunSignal::Stopping)]);
    assert_eq!(bench.report(), None);
    bench.ok(1).pass(20 * SECOND);
    assert!(!bench.dialled());
    bench.pass(10 * SECOND);
    let report = bench.report().expect("the time is up");
    assert_eq!(report.end, EndReason::Permanent(cause));
    assert_eq!((report.committed, report.running), (vec![event_id(1)], vec![event_id(2)]));
}

#[test]
fn after_a_permanent_error_the_last_handler_ends_the_run_before_the_deadline() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).end(error(ErrorCode::HistoryGap)).ok(1);
    let report = bench.report().expect("nothing is left to wait for");
    assert_eq!((report.committed, report.running), (vec![event_id(1)], vec![]));
}

#[test]
fn a_permanent_error_in_a_stop_is_named_only_if_something_is_left() {
    let cause = error(ErrorCode::Unauthenticated);
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1);
    stop(&mut bench).end(cause.clone()).ended(1, HandlerOutcome::Error);
    assert_eq!(bench.report(), clean(EndReason::Stopped));

    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1);
    stop(&mut bench).end(cause.clone());
    assert!(bench.report().is_some_and(|report| report.end == EndReason::Permanent(cause)));
}

#[test]
fn after_the_end_nothing_has_an_effect() {
    let mut bench = Bench::up(&options());
    stop(&mut bench).disconnect();
    assert!(bench.deliver(1, 1).done.is_empty());
    assert!(bench.connect().done.is_empty());
    assert!(bench.hear(Input::ChildLost(Role::Connection)).done.is_empty());
    assert!(bench.pass(600 * SECOND).done.is_empty());
}
