//! Consumer.md section 4: a crashed actor is replaced, or the run ends with an error.

use super::*;

fn respawned(bench: &Bench) -> Vec<Role> {
    let replaced = |action: &Action| match action {
        Action::Respawn(role) => Some(*role),
        _ => None,
    };
    bench.done.iter().filter_map(replaced).collect()
}

#[test]
fn a_lost_connection_is_a_disconnect() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1).hear(Input::ChildLost(Role::Connection));
    assert_eq!(respawned(&bench), [Role::Connection]);
    let cause = CauseCode::ChildLost(Role::Connection).into();
    assert_eq!(bench.notices(), [Notice::Disconnected { cause }]);
    assert_eq!(bench.reconnect().acks(), just(1, 1));
}

#[test]
fn a_lost_heartbeat_closes_and_redials() {
    let mut bench = Bench::up(&options());
    bench.hear(Input::ChildLost(Role::Heartbeat));
    assert_eq!(respawned(&bench), [Role::Heartbeat]);
    assert!(bench.closed());
    bench.disconnect().reconnect();
    assert!(bench.done.iter().any(|action| matches!(action, Action::StartHeartbeat { .. })));
}

#[test]
fn a_lost_acknowledger_has_its_open_proof_reported_again_but_never_twice_on_one_connection() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1).hear(Input::ChildLost(Role::Acknowledger));
    assert_eq!(respawned(&bench), [Role::Acknowledger]);
    assert_eq!(bench.acks(), []);
    assert!(bench.closed());
    assert_eq!(bench.disconnect().reconnect().acks(), just(1, 1));
}

#[test]
fn a_lost_acknowledger_that_had_nothing_is_merely_replaced() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).hear(Input::ChildLost(Role::Acknowledger));
    assert!(!bench.closed());
    assert_eq!(bench.ok(1).acks(), just(1, 1));
}

#[test]
fn a_lost_pool_fails_what_was_running_and_successors_run_in_the_new_one() {
    let mut bench = Bench::up(&Options { capacity: 2, ..options() });
    bench.deliver(1, 1).deliver(2, 1).deliver(3, 1).deliver(1, 2).hear(Input::ChildLost(Role::HandlerPool));
    assert!(matches!(bench.done[0], Action::Respawn(Role::HandlerPool)), "before anything starts in it");
    assert_eq!(bench.starts(), [(event_id(1), 2), (event_id(3), 1)]);
    assert_eq!(bench.consumer.stats().handler_failures, 2);
    assert_eq!(bench.ok(1).acks(), [], "a run of the old pool is over");
}

#[test]
fn five_crashes_in_a_minute_are_borne_and_the_sixth_ends_the_run_with_an_error() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1);
    for _ in 0..5 {
        bench.hear(Input::ChildLost(Role::Acknowledger));
        assert_eq!(respawned(&bench), [Role::Acknowledger]);
    }
    bench.pass(59 * SECOND).hear(Input::ChildLost(Role::Acknowledger));
    assert_eq!(respawned(&bench), []);
    assert_eq!(bench.signals(), [(1, RunSignal::Stopping)]);
    bench.disconnect().ended(1, HandlerOutcome::Error);
    assert!(bench.report().is_some_and(|report| report.end == EndReason::ChildLost(Role::Acknowledger)));
}

#[test]
fn crashes_older_than_a_minute_are_forgiven() {
    let mut bench = Bench::up(&options());
    for _ in 0..5 {
        bench.hear(Input::ChildLost(Role::Acknowledger)).pass(13 * SECOND);
    }
    bench.hear(Input::ChildLost(Role::Acknowledger));
    assert_eq!(respawned(&bench), [Role::Acknowledger]);
}

#[test]
fn a_lost_shell_loses_runs_and_connection_but_no_proof() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(2, 1).ok(1).hear(Input::ShellLost);
    assert_eq!(respawned(&bench), Role::ALL);
    assert_eq!(bench.consumer.stats().running, 0);
    assert_eq!(bench.reconnect().acks(), just(1, 1));
    assert_eq!(bench.starts(), []);
}

#[test]
fn a_report_that_a_lost_shell_may_have_taken_with_it_is_given_again() {
    let mut bench = Bench::up(&options());
    bench.hear(Input::Stop).disconnect();
    let report = bench.report();
    assert!(report.is_some());
    assert_eq!(bench.hear(Input::ShellLost).report(), report);
}

#[test]
fn a_machine_made_from_the_proofs_of_another_reports_them_after_a_wait() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).deliver(2, 1).ok(2).ok(1);
    let Bench { consumer, now, .. } = bench;
    let config = consumer.config().clone();
    let mut proofs = consumer.into_proofs();
    proofs.push(EventProof { subscription_id: SubscriptionId::from_u128(9), ..proof(3, 1) });
    let mut bench = Bench::around(Consumer::resume(config, 1, now, proofs), now);
    assert!(!bench.dialled());
    assert_eq!(bench.reconnect().acks(), [(event_id(2), 1), (event_id(1), 1)]);
    assert_eq!(bench.confirm(2, 1).acks(), []);
    assert_eq!(bench.deliver(1, 2).starts(), []);
    assert_eq!(bench.confirm(1, 1).acks(), []);
}

#[test]
fn an_ack_that_nobody_answers_ends_its_connection() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1).pass(14 * SECOND);
    assert!(!bench.closed());
    assert_eq!(bench.pass_to_timeout(), Some(Reason::ChildSilent));
    assert!(bench.closed());
    assert_eq!(bench.disconnect().notices(), [Notice::Disconnected { cause: CauseCode::Timeout.into() }]);
    assert_eq!(bench.reconnect().acks(), just(1, 1));
}

#[test]
fn an_answer_at_the_last_moment_still_counts() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1);
    bench.now += 15 * SECOND;
    bench.confirm(1, 1);
    assert!(!bench.closed());
    assert_eq!(bench.consumer.stats().acknowledged, 1);
}

#[test]
fn a_closed_connection_that_does_not_end_is_taken_for_a_crashed_one() {
    let mut bench = Bench::up(&options());
    bench.hear(Input::ChildLost(Role::Heartbeat));
    let stuck = bench.epoch;
    assert_eq!(bench.pass_to_timeout(), Some(Reason::ChildSilent));
    assert_eq!(respawned(&bench), [Role::Connection]);
    bench.reconnect();
    bench.hear(Input::Disconnected { epoch: stuck, cause: lost() });
    assert!(bench.done.is_empty(), "its end is late news by now");
}

#[test]
fn a_stop_does_not_wait_for_ever_for_a_reader_that_does_not_end() {
    let mut bench = Bench::up(&options());
    bench.hear(Input::Stop);
    assert_eq!(bench.report(), None);
    assert_eq!(bench.pass_to_timeout(), Some(Reason::ChildSilent));
    assert!(bench.report().is_some_and(|report| report.is_clean()));
}
