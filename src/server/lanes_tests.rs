use perilune_proto::scalar::{DeliveryId, EventId, Generation, Secret};
use perilune_proto::wire::ErrorCode;

use super::*;

const SUBSCRIPTION: SubscriptionId = SubscriptionId::from_u128(1);

fn queues(names: &[&str]) -> BTreeSet<Name> {
    names.iter().map(|name| name.parse().expect("a name")).collect()
}

fn credit(session: u128) -> SessionCredit {
    SessionCredit { session_id: SessionId::from_u128(session), capacity: 4 }
}

fn join(lanes: &Lanes, session: u128) -> Result<Seated, LaneFull> {
    lanes.join(SUBSCRIPTION, &queues(&["reports"]), credit(session), |_| ())
}

fn grant(session: u128, bytes: usize) -> Grant {
    let lease = Lease {
        session_id: SessionId::from_u128(session),
        delivery_id: DeliveryId::from_u128(7),
        event_id: EventId::from_u128(8),
        generation: Generation(1),
        secret: Secret::from_bytes([0; 32]),
        event_json: "x".repeat(bytes).into(),
    };
    Grant { lease, began: Instant::now() }
}

fn has_news(lane: &Lane) -> bool {
    use futures_util::FutureExt as _;
    lane.news().now_or_never().is_some()
}

#[test]
fn sessions_are_found_oldest_first_and_one_more_than_the_limit_is_refused() {
    let lanes = Lanes::new(2);
    let first = join(&lanes, 9).expect("room");
    let _second = join(&lanes, 3).expect("room");
    assert_eq!(join(&lanes, 5).err(), Some(LaneFull));
    assert_eq!(lanes.sessions(SUBSCRIPTION), 2);
    assert_eq!(first.lane.look(), Found::Sessions(vec![credit(9), credit(3)]));
}

#[test]
fn a_lane_is_opened_once_and_closes_with_its_last_session() {
    let lanes = Lanes::new(2);
    let mut opened = 0;
    let first = lanes.join(SUBSCRIPTION, &queues(&["a"]), credit(1), |lane| {
        opened += 1;
        assert_eq!(lane.look(), Found::Sessions(vec![credit(1)]), "a dispatcher may look at once");
    });
    let first = first.expect("room");
    let second = lanes.join(SUBSCRIPTION, &queues(&["a"]), credit(2), |_| opened += 1).expect("room");
    assert_eq!(opened, 1);
    let lane = Arc::clone(&first.lane);
    lanes.leave(&first);
    lanes.leave(&second);
    assert_eq!(lane.look(), Found::Closed);
    assert_eq!(lanes.sessions(SUBSCRIPTION), 0);
    assert!(lanes.table.lock().expect("not poisoned").by_queue.is_empty());
}

#[test]
fn news_of_a_queue_reach_the_lanes_that_read_it() {
    let lanes = Lanes::new(2);
    let seated = join(&lanes, 1).expect("room");
    assert!(has_news(&seated.lane), "somebody sat down");
    lanes.wake(&Wake::Queue("other".parse().expect("a name")));
    assert!(!has_news(&seated.lane));
    lanes.wake(&Wake::Queue("reports".parse().expect("a name")));
    assert!(has_news(&seated.lane));
    lanes.wake(&Wake::Subscription(SUBSCRIPTION));
    assert!(has_news(&seated.lane));
    lanes.wake(&Wake::Everything);
    assert!(has_news(&seated.lane));
}

#[test]
fn a_session_with_too_much_waiting_is_passed_over() {
    let lanes = Lanes::new(2);
    let mut slow = join(&lanes, 1).expect("room");
    let _fast = join(&lanes, 2).expect("room");
    slow.lane.hand(grant(1, 600_000)).expect("handed");
    assert_eq!(slow.lane.look(), Found::Sessions(vec![credit(2)]));
    let taken = slow.grants.try_recv().expect("a grant");
    slow.backlog.remove(taken.lease.event_json.len());
    assert_eq!(slow.lane.look(), Found::Sessions(vec![credit(1), credit(2)]));
}

#[test]
fn a_stopped_subscription_is_asked_about_even_if_nobody_can_take_anything() {
    let lanes = Lanes::new(2);
    let seated = join(&lanes, 1).expect("room");
    seated.lane.hand(grant(1, 600_000)).expect("handed");
    assert_eq!(seated.lane.look(), Found::Nothing);
    lanes.wake(&Wake::Stopped(SUBSCRIPTION));
    assert_eq!(seated.lane.look(), Found::Sessions(Vec::new()));
    assert_eq!(seated.lane.look(), Found::Nothing);
}

#[test]
fn a_question_that_the_store_did_not_answer_is_asked_again() {
    let lanes = Lanes::new(2);
    let seated = join(&lanes, 1).expect("room");
    seated.lane.hand(grant(1, 600_000)).expect("handed");
    lanes.wake(&Wake::Stopped(SUBSCRIPTION));
    assert_eq!(seated.lane.look(), Found::Sessions(Vec::new()));
    seated.lane.was_not_answered();
    assert_eq!(seated.lane.look(), Found::Sessions(Vec::new()));
}

#[test]
fn a_lease_of_a_session_that_left_is_given_back() {
    let lanes = Lanes::new(2);
    let seated = join(&lanes, 1).expect("room");
    assert_eq!(seated.lane.hand(grant(2, 1)).expect_err("nobody").lease.session_id, SessionId::from_u128(2));
}

#[test]
fn ending_a_lane_tells_each_of_its_sessions_why() {
    let lanes = Lanes::new(2);
    let seated = join(&lanes, 1).expect("room");
    seated.lane.end(&Refusal::new(ErrorCode::HistoryGap, "gone"));
    assert_eq!(seated.end.borrow().as_ref().map(|refusal| refusal.code.clone()), Some(ErrorCode::HistoryGap));
    assert_eq!(seated.lane.look(), Found::Nothing);
}
