use super::*;

const LEASE: Duration = Duration::from_secs(30);
const START: Moment = Moment(1_000_000);

fn after(seconds: u64) -> Moment {
    START.plus(Duration::from_secs(seconds))
}

fn lapse(delivery: &mut Delivery, now: Moment) -> Option<Lapsed> {
    delivery.lapse(now, &BACKOFF_DEFAULT, &mut Rng::new(1))
}

fn leased(budget: u32) -> Delivery {
    let mut delivery = Delivery::taken(budget, START);
    assert_eq!(delivery.lease(START, LEASE), Some(Generation(1)));
    delivery
}

/// Lets a lease lapse and takes the next one as soon as its backoff allows.
fn lease_again(delivery: &mut Delivery, lapse: Moment) -> Moment {
    let Some(Lapsed::Again { from }) = self::lapse(delivery, lapse) else {
        panic!("no budget left at {delivery:?}");
    };
    assert!(delivery.lease(from, LEASE).is_some());
    from
}

#[test]
fn a_lease_is_over_at_its_very_end_and_not_before() {
    let mut delivery = leased(10);
    assert_eq!(lapse(&mut delivery, Moment(after(30).0 - 1)), None);
    assert!(lapse(&mut delivery, after(30)).is_some());
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
        let Some(Lapsed::Again { from }) = lapse(&mut delivery, sweep) else { panic!("budget is left") };
        assert!((Moment(after(30).0 + 500_000)..=after(31)).contains(&from), "{from:?}");
        assert_eq!(delivery.lease(Moment(from.0 - 1), LEASE), None);
        assert_eq!(delivery.lease(from, LEASE), Some(Generation(2)));
    }
}

#[test]
fn a_delivery_expires_after_exactly_its_budget() {
    let mut delivery = leased(3);
    let second = lease_again(&mut delivery, after(30));
    let third = lease_again(&mut delivery, second.plus(LEASE));
    assert_eq!(delivery.generation(), Generation(3));
    assert_eq!(lapse(&mut delivery, third.plus(LEASE)), Some(Lapsed::Expired));
    assert_eq!(delivery.lease(after(1_000_000), LEASE), None);
    assert!(delivery.is_open());
}

#[test]
fn added_budget_makes_an_expired_delivery_ready_for_so_many_more() {
    let mut delivery = leased(1);
    assert_eq!(delivery.add_budget(2, after(1)), Err(NotExpired));
    lapse(&mut delivery, after(30));
    assert_eq!(delivery.add_budget(2, after(40)), Ok(()));
    assert_eq!(delivery.lease(after(40), LEASE), Some(Generation(2)));
    lease_again(&mut delivery, after(70));
    assert_eq!(lapse(&mut delivery, after(1_000)), Some(Lapsed::Expired));
}

#[test]
fn the_current_generation_confirms_after_its_lapse_and_after_expiry() {
    let mut lapsed = leased(2);
    lapse(&mut lapsed, after(30));
    let mut expired = leased(1);
    lapse(&mut expired, after(30));
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
fn backoff_doubles_with_each_generation_and_draws_from_the_upper_half() {
    let mut rng = Rng::new(5);
    for (generation, seconds) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (65, 300), (u64::MAX, 300)] {
        let longest = Duration::from_secs(seconds);
        for _ in 0..100 {
            let wait = redelivery(START, Generation(generation), &BACKOFF_DEFAULT, &mut rng).since(START);
            assert!((longest / 2..=longest).contains(&wait), "{wait:?} after generation {generation}");
        }
    }
}

#[test]
fn only_a_window_full_of_expired_is_blocked() {
    assert!(is_blocked(4, 4) && !is_blocked(4, 3));
    assert_eq!((window_room(4, 3), window_room(4, 4), window_room(4, 9)), (1, 0, 0));
}
