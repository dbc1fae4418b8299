//! Any input in any state: no panic, no busy timer, no secret in print, the same run from the same seed.

use super::*;
use perilune_proto::rng::Rng;

fn any_input(rng: &mut Rng, epoch: Epoch) -> Input {
    let epoch = Epoch((epoch.0 + 1).saturating_sub(rng.below(3)));
    let n = rng.within(&(1..=6));
    let generation = rng.within(&(1..=4));
    let causes = [lost(), error(ErrorCode::RateLimited).with_retry_after(SECOND), error(ErrorCode::HistoryGap)];
    let cause = causes[usize::from(rng.chance(30)) + usize::from(rng.chance(2))].clone();
    match rng.below(20) {
        0..=3 => Input::Connected { epoch, heartbeat_interval: BEAT, enabled: Enabled::Enabled },
        4 => Input::DialFailed { epoch, cause },
        5 => Input::Disconnected { epoch, cause },
        6..=9 => {
            let lease = rng.duration_within(&(Duration::from_millis(1)..=LEASE));
            Input::Delivered { epoch, delivery: Delivered { proof: proof(n, generation), event: event(n), lease } }
        }
        10..=12 => {
            let answers = [AckAnswer::Confirmed { replay: Replay::First }, AckAnswer::Lost, AckAnswer::Refused(cause)];
            let [confirmed, lost, refused] = answers;
            let answer = [confirmed, lost, refused][usize::try_from(rng.below(3)).expect("small")].clone();
            Input::AckAnswered { epoch, event_id: event_id(n), generation: Generation(generation), answer }
        }
        13 => Input::PingAnswered { epoch, answer: PingAnswer::Pong(Enabled::Paused) },
        14..=16 => {
            let outcomes = [HandlerOutcome::Ok, HandlerOutcome::Error, HandlerOutcome::Panicked, HandlerOutcome::Gone];
            let outcome = outcomes[usize::try_from(rng.below(4)).expect("small")];
            Input::HandlerEnded { run: RunId(rng.within(&(1..=12))), outcome }
        }
        17 if rng.chance(20) => Input::ChildLost(Role::ALL[usize::try_from(rng.below(4)).expect("small")]),
        17 if rng.chance(10) => Input::ShellLost,
        18 if rng.chance(5) => Input::Stop,
        _ => Input::TimedOut,
    }
}

/// One hostile run; `told` hears of everything that happens.
fn run(seed: u64, origin: Instant, mut told: impl FnMut(&dyn std::fmt::Debug)) {
    let mut rng = Rng::new(seed);
    let config = ConsumerConfig::check(&options()).expect("defaults");
    let mut bench = Bench::around(Consumer::new(config, seed, origin), origin);
    for _ in 0..200 {
        bench.now += rng.duration_within(&(Duration::ZERO..=SECOND));
        let input = any_input(&mut rng, bench.epoch);
        told(&input);
        bench.hear(input);
        let stats = *bench.consumer.stats();
        assert!(stats.running + stats.committed <= 4 && stats.waiting <= 4 && stats.successors <= 4, "{stats:?}");
        let now = bench.now;
        assert!(bench.consumer.poll_timeout().is_none_or(|(at, _)| at > now), "a timer that is due at once");
        told(&(&bench.done, &bench.consumer));
    }
}

fn printed(seed: u64, origin: Instant) -> String {
    let mut text = String::new();
    run(seed, origin, |value| text += &format!("{value:?}\n"));
    text
}

#[test]
fn no_input_in_any_state_breaks_a_bound_or_the_timer() {
    let origin = Bench::new(&options()).now;
    for seed in 0..300 {
        run(seed, origin, |_| ());
    }
}

#[test]
fn a_seed_replays_a_run_exactly() {
    let origin = Bench::new(&options()).now;
    assert_eq!(printed(7, origin), printed(7, origin));
    assert_ne!(printed(7, origin), printed(8, origin));
}

#[test]
fn nothing_that_is_printed_shows_a_secret_or_a_payload() {
    let printed = printed(3, Bench::new(&options()).now);
    assert!(printed.contains("[redacted]"));
    for hidden in ["confidential", "[1, 1, 1", "[2, 2, 2"] {
        assert!(!printed.contains(hidden), "{hidden}");
    }
}

#[test]
fn a_machine_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Consumer>();
    is_send::<Action>();
    is_send::<Input>();
}

#[test]
fn a_clock_that_steps_back_is_borne() {
    let mut bench = Bench::up(&options());
    bench.deliver(1, 1).ok(1).confirm(1, 1).disconnect();
    bench.now = bench.now.checked_sub(SECOND).expect("a second of the past");
    bench.hear(Input::TimedOut).hear(Input::ChildLost(Role::Heartbeat)).hear(Input::Stop);
    assert!(bench.report().is_some());
}

#[test]
fn a_dropped_notice_is_only_counted_even_after_the_end() {
    let mut bench = Bench::up(&options());
    bench.hear(Input::Stop).disconnect().hear(Input::NoticesDropped(1));
    assert_eq!(bench.consumer.stats().dropped_notices, 1);
}

#[test]
fn a_delivery_of_another_subscription_is_ignored() {
    let mut bench = Bench::up(&options());
    let alien = EventProof { subscription_id: SubscriptionId::from_u128(9), ..proof(1, 1) };
    let epoch = bench.epoch;
    bench.hear(Input::Delivered { epoch, delivery: Delivered { proof: alien, event: event(1), lease: LEASE } });
    bench.hear(Input::Delivered { epoch, delivery: Delivered { proof: proof(1, 1), event: event(2), lease: LEASE } });
    assert_eq!(bench.starts(), []);
    assert_eq!(bench.consumer.stats().ignored_inputs, 2);
}
