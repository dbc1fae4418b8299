use super::*;

const LEASE: Duration = Duration::from_secs(30);
const START: Moment = Moment(1_000_000);

fn after(seconds: u64) -> Moment {
    START.plus(Duration::from_secs(seconds))
}

fn leased(budget: u32) -> Delivery {
    let mut delivery = Delivery::taken(budget, START);
    assert_eq!(delivery.lease(START, LEASE), Some(Generation(1)));
    delivery
}

/// Lets a lease lapse and takes the next one as soon as its backoff allows.
fn lease_again(delivery: &mut Delivery, lapse: Moment) -> Moment {
    let Some(Lapsed::Again { from }) = delivery.lapse(lapse, &Backoff::default(), 0) else {
        panic!("no budget left at {delivery:?}");
    };
    assert!(delivery.lease(from, LEASE).is_some());
    from
}

#[test]
fn a_lease_is_over_at_its_very_end_and_not_before() {
    let mut delivery = leased(10);
    assert_eq!(delivery.lapse(Moment(after(30).0 - 1), &Backoff::default(), 0), None);
    assert!(delivery.lapse(after(30), &Backoff::default(), 0).is_some());
}

#[test]
fn a_live_lease_is_never_taken() {
    let mut delivery = leased(10);
    assert_eq!(delivery.lease(after(29), LEASE), None);
    assert_eq!(delivery.lease(after(90), LEASE), None, "a lapse must be drawn first");
}

#[test]
fn backoff_runs_from_the_lapse_whenever_it_is_swept() {
    for sweep in [after(30), after(3_000)] {
        let mut delivery = leased(10);
        let lapsed = delivery.lapse(sweep, &Backoff::default(), u64::MAX);
        assert_eq!(lapsed, Some(Lapsed::Again { from: after(31) }));
        assert_eq!(delivery.lease(Moment(after(31).0 - 1), LEASE), None);
        assert_eq!(delivery.lease(after(31), LEASE), Some(Generation(2)));
    }
}

#[test]
fn a_delivery_expires_after_exactly_its_budget() {
    let mut delivery = leased(3);
    let second = lease_again(&mut delivery, after(30));
    let third = lease_again(&mut delivery, second.plus(LEASE));
    assert_eq!(delivery.generation(), Generation(3));
    assert_eq!(delivery.lapse(third.plus(LEASE), &Backoff::default(), 0), Some(Lapsed::Expired));
    assert_eq!(delivery.lease(after(1_000_000), LEASE), None);
    assert!(delivery.is_open());
}

#[test]
fn added_budget_makes_an_expired_delivery_ready_for_so_many_more() {
    let mut delivery = leased(1);
    assert_eq!(delivery.add_budget(2, after(1)), Err(NotExpired));
    delivery.lapse(after(30), &Backoff::default(), 0);
    assert_eq!(delivery.add_budget(2, after(40)), Ok(()));
    assert_eq!(delivery.lease(after(40), LEASE), Some(Generation(2)));
    lease_again(&mut delivery, after(70));
    assert_eq!(delivery.lapse(after(1_000), &Backoff::default(), 0), Some(Lapsed::Expired));
}

#[test]
fn the_current_generation_confirms_after_its_lapse_and_after_expiry() {
    let mut lapsed = leased(2);
    lapsed.lapse(after(30), &Backoff::default(), 0);
    let mut expired = leased(1);
    expired.lapse(after(30), &Backoff::default(), 0);
    for mut delivery in [leased(2), lapsed, expired] {
        assert_eq!(delivery.confirm(Generation(1), SecretMatch::Same, after(90)), Judgement::Confirms);
        assert!(!delivery.is_open());
        assert_eq!(delivery.confirm(Generation(1), SecretMatch::Same, after(91)), Judgement::Replays);
        assert_eq!(delivery.phase(), Phase::Confirmed { at: after(90) });
    }
}

#[test]
fn a_superseded_generation_is_lost_and_changes_nothing() {
    let mut delivery = leased(10);
    lease_again(&mut delivery, after(30));
    let before = delivery;
    for secret in [SecretMatch::Same, SecretMatch::Different] {
        assert_eq!(delivery.confirm(Generation(1), secret, after(40)), Judgement::Lost);
    }
    assert_eq!(delivery, before);
    assert_eq!(delivery.confirm(Generation(2), SecretMatch::Same, after(40)), Judgement::Confirms);
    assert_eq!(delivery.confirm(Generation(1), SecretMatch::Same, after(41)), Judgement::Lost);
}

#[test]
fn a_wrong_secret_or_a_generation_never_leased_is_invalid() {
    let mut fresh = Delivery::taken(10, START);
    for generation in [0, 1, u64::MAX] {
        assert_eq!(fresh.confirm(Generation(generation), SecretMatch::Same, START), Judgement::Invalid);
    }
    let mut delivery = leased(10);
    assert_eq!(delivery.confirm(Generation(1), SecretMatch::Different, START), Judgement::Invalid);
    assert_eq!(delivery.confirm(Generation(2), SecretMatch::Same, START), Judgement::Invalid);
    assert_eq!(delivery.confirm(Generation(0), SecretMatch::Same, START), Judgement::Invalid);
    assert!(delivery.is_open());
    assert_eq!(delivery.confirm(Generation(1), SecretMatch::Same, START), Judgement::Confirms);
    assert_eq!(delivery.confirm(Generation(1), SecretMatch::Different, START), Judgement::Invalid);
}

#[test]
fn backoff_doubles_up_to_its_end_and_draws_from_the_upper_half() {
    let backoff = Backoff::default();
    for (generation, seconds) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (64, 300), (65, 300), (u64::MAX, 300)] {
        let longest = Duration::from_secs(seconds);
        assert_eq!(backoff.after(Generation(generation), u64::MAX), longest, "{generation}");
        assert_eq!(backoff.after(Generation(generation), 0), longest / 2, "{generation}");
    }
    let steady = Backoff { min: Duration::ZERO, max: Duration::ZERO };
    assert_eq!(steady.after(Generation(5), u64::MAX), Duration::ZERO);
}

#[test]
fn draws_are_spread_evenly_over_the_upper_half() {
    let backoff = Backoff { min: Duration::from_secs(8), max: Duration::from_secs(8) };
    let draws: Vec<_> = (0..1_000_u64).map(|n| backoff.after(Generation(1), n * (u64::MAX / 1_000))).collect();
    let low = draws.iter().filter(|wait| **wait < Duration::from_secs(6)).count();
    assert!((480..=520).contains(&low), "{low} of 1,000 in the lower half of [4 s, 8 s]");
    assert!(draws.iter().all(|wait| (Duration::from_secs(4)..=Duration::from_secs(8)).contains(wait)));
}

#[test]
fn only_a_window_full_of_expired_is_blocked() {
    assert!(is_blocked(4, 4) && !is_blocked(4, 3));
    assert_eq!((window_room(4, 3), window_room(4, 4), window_room(4, 9)), (1, 0, 0));
}
