//! Consumer.md section 4: waits, attempts, health.

use super::*;
use perilune_proto::wire::CloseCode;

const MS: Duration = Duration::from_millis(1);

/// How often a machine has to lose its connection until it waits for its longest.
fn fail_dials(bench: &mut Bench, times: u32) {
    for _ in 0..times {
        let (epoch, cause) = (bench.epoch, lost());
        bench.hear(Input::DialFailed { epoch, cause });
        assert_eq!(bench.pass_to_timeout(), Some(Reason::Reconnect));
        assert!(bench.dialled());
    }
}

fn is_first_wait(bench: &Bench) -> bool {
    (100 * MS..=200 * MS).contains(&bench.wait())
}

#[test]
fn the_very_first_dial_is_immediate_and_asks_for_the_whole_capacity() {
    let bench = Bench::new(&options());
    assert!(matches!(bench.done[..], [Action::Dial { epoch: Epoch(1), capacity: 4 }]), "{:?}", bench.done);
}

#[test]
fn the_first_attempt_after_a_loss_waits_and_further_ones_double() {
    let mut bench = Bench::up(&options());
    bench.disconnect();
    assert!(!bench.dialled());
    for millis in [200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        let wait = bench.wait();
        assert!((millis * MS / 2..=millis * MS).contains(&wait), "{wait:?} of {millis} ms");
        bench.pass(wait - MS);
        assert!(!bench.dialled());
        bench.pass(MS);
        assert!(bench.dialled());
        let (epoch, cause) = (bench.epoch, lost());
        bench.hear(Input::DialFailed { epoch, cause });
    }
}

#[test]
fn waits_of_a_fleet_are_spread() {
    let mut waits = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let template = Bench::new(&options());
        let config = ConsumerConfig::check(&options()).expect("defaults");
        let mut bench = Bench::around(Consumer::new(config, seed, template.now), template.now);
        bench.connect().disconnect();
        waits.insert(bench.wait());
    }
    assert!(waits.len() > 45, "{} different waits", waits.len());
}

#[test]
fn retry_after_raises_the_wait_up_to_30_seconds_and_never_shortens_it() {
    for (asked, waited) in [(7, 7), (30, 30), (3_600, 30)] {
        let mut bench = Bench::up(&options());
        bench.end(error(ErrorCode::RateLimited).with_retry_after(asked * SECOND));
        assert_eq!(bench.wait(), waited * SECOND);
    }
    let mut bench = Bench::up(&options());
    bench.end(error(ErrorCode::RateLimited).with_retry_after(Duration::ZERO));
    assert!(is_first_wait(&bench));
}

#[test]
fn a_receipt_resets_the_attempts_a_replayed_one_too() {
    for replay in [Replay::First, Replay::Replayed] {
        let mut bench = Bench::new(&options());
        fail_dials(&mut bench, 4);
        bench.connect().deliver(1, 1).ok(1).answer(1, 1, AckAnswer::Confirmed { replay });
        bench.disconnect();
        assert!(is_first_wait(&bench), "{replay:?}");
    }
}

#[test]
fn neither_a_connect_nor_a_lost_proof_resets_the_attempts() {
    let mut bench = Bench::new(&options());
    fail_dials(&mut bench, 4);
    bench.connect().deliver(1, 1).ok(1).answer(1, 1, AckAnswer::Lost).disconnect();
    assert!(bench.wait() >= 1_600 * MS, "{:?}", bench.wait());
}

#[test]
fn a_minute_connected_with_nothing_to_confirm_is_healthy() {
    let mut bench = Bench::new(&options());
    fail_dials(&mut bench, 4);
    bench.connect().pass(59 * SECOND);
    assert_eq!(bench.pass_to_timeout(), Some(Reason::Healthy));
    bench.disconnect();
    assert!(is_first_wait(&bench));
}

#[test]
fn a_minute_interrupted_by_a_commit_or_a_loss_is_not_healthy() {
    let mut bench = Bench::new(&options());
    fail_dials(&mut bench, 4);
    bench.connect().deliver(1, 1).pass(50 * SECOND).ok(1).answer(1, 1, AckAnswer::Lost).pass(50 * SECOND).disconnect();
    assert!(bench.wait() >= 1_600 * MS);
    bench.reconnect().pass(59 * SECOND).disconnect();
    assert!(bench.wait() >= 2_500 * MS);
}

#[test]
fn late_news_of_an_older_connection_has_no_effect() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1).disconnect().reconnect();
    let old = Epoch(bench.epoch.0 - 1);
    let delivery = Delivered { proof: proof(2, 1), event: event(2), lease: LEASE };
    bench.hear(Input::Delivered { epoch: old, delivery });
    assert!(bench.done.is_empty());
    bench.hear(Input::Disconnected { epoch: old, cause: error(ErrorCode::Unauthenticated) });
    assert!(bench.done.is_empty());
    bench.hear(Input::PingAnswered { epoch: old, answer: PingAnswer::Refused(error(ErrorCode::Unauthenticated)) });
    assert!(bench.done.is_empty());
    assert_eq!(bench.consumer.stats().ignored_inputs, 3);
}

#[test]
fn the_next_dial_waits_for_the_end_of_the_old_reader() {
    let mut bench = Bench::up(&Options { capacity: 1, ..options() });
    bench.deliver(1, 1).deliver(2, 1).deliver(3, 1);
    assert!(bench.closed());
    bench.pass(20 * SECOND);
    assert!(!bench.dialled());
    bench.disconnect().pass(SECOND);
    assert!(bench.dialled());
}

#[test]
fn the_heartbeat_takes_its_interval_from_the_welcome_and_rests_with_the_connection() {
    let mut bench = Bench::new(&options());
    let epoch = bench.epoch;
    let heartbeat_interval = 3 * SECOND;
    bench.hear(Input::Connected { epoch, heartbeat_interval, enabled: Enabled::Paused });
    let beats = |action: &Action| matches!(action, Action::StartHeartbeat { epoch: Epoch(1), interval } if *interval == heartbeat_interval);
    assert!(bench.done.iter().any(beats));
    assert_eq!(bench.consumer.link_state(), LinkState::Up(Enabled::Paused));
    bench.disconnect();
    assert!(bench.done.iter().any(|action| matches!(action, Action::StopHeartbeat { epoch: Epoch(1) })));
    assert_eq!(bench.consumer.link_state(), LinkState::Down);
}

#[test]
fn a_pong_tells_whether_the_subscription_is_paused() {
    let mut bench = Bench::up(&options());
    let epoch = bench.epoch;
    bench.hear(Input::PingAnswered { epoch, answer: PingAnswer::Pong(Enabled::Paused) });
    assert_eq!(bench.consumer.link_state(), LinkState::Up(Enabled::Paused));
    bench.hear(Input::PingAnswered { epoch, answer: PingAnswer::Refused(error(ErrorCode::Unavailable)) });
    assert!(bench.closed());
}

#[test]
fn permanent_causes_stop_the_consumer_without_another_dial() {
    let permanent = [
        error(ErrorCode::Unauthenticated),
        error(ErrorCode::PermissionDenied),
        error(ErrorCode::SubscriptionNotFound),
        error(ErrorCode::HistoryGap),
        error(ErrorCode::ProtocolError),
        error(ErrorCode::from_wire("SOMETHING_NEW")),
        CauseCode::Close(CloseCode(1008)).into(),
        CauseCode::Close(CloseCode(4321)).into(),
        CauseCode::Http { status: 403, code: None }.into(),
        CauseCode::Protocol.into(),
    ];
    for cause in permanent {
        let mut bench = Bench::up(&options());
        bench.end(cause.clone());
        assert_eq!(bench.notices(), [Notice::Disconnected { cause: cause.clone() }, Notice::Stopped]);
        let report = bench.report().expect("nothing runs");
        assert_eq!(report, FinishReport { end: EndReason::Permanent(cause), committed: vec![], running: vec![] });
        assert_eq!(bench.consumer.poll_timeout(), None);
    }
}

#[test]
fn a_failed_dial_is_counted_but_is_no_disconnect() {
    let mut bench = Bench::new(&options());
    fail_dials(&mut bench, 2);
    assert_eq!(bench.notices(), []);
    assert_eq!(bench.consumer.stats().dials_failed, 2);
    assert_eq!(bench.consumer.stats().reconnects, 0);
    bench.connect().disconnect().reconnect();
    assert_eq!(bench.consumer.stats().reconnects, 1);
}
