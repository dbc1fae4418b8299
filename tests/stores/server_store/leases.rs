//! Guarantees about leases, windows, budgets and credit.

use std::collections::BTreeMap;
use std::time::Duration;

use perilune::server::store::{
    AddBudget, Confirmed, CredentialSecret, DeliveryState, Lease, LeaseRequest, ListDeliveries, NewCredential, Report,
    StoreError, Supply, Switch,
};
use perilune_proto::event::Status;
use perilune_proto::scalar::{DeliveryId, Generation};
use perilune_proto::wire::decode_event;

use super::world::{
    BACKOFF, Bearer, LEASE, Reader, SECOND, World, acked, key, name, names, new_credential, new_task, random, report,
    session,
};

fn sequences(leases: &[Lease]) -> Vec<u64> {
    leases.iter().map(|lease| decode_event(&lease.event_json).expect("an event").sequence.0).collect()
}

pub(crate) async fn only_wanted_events_are_delivered(world: World) {
    let reader = world
        .reader_with(|new| {
            new.queues = names(&["q", "r"]);
            new.statuses = [Status::Succeeded, Status::NeedsReview].into();
            new.operations = names(&["A", "B"]);
        })
        .await;
    let mut wanted = Vec::new();
    for queue in ["q", "r", "s"] {
        for operation in ["A", "B", "C"] {
            for status in Status::ALL {
                let report = Report { operation: name(operation), ..report(queue, new_task(), status) };
                let event = super::world::written(world.store.report(report).await.expect("a verdict"));
                let passes = matches!(status, Status::Succeeded | Status::NeedsReview);
                if queue != "s" && operation != "C" && passes {
                    wanted.push(event.sequence.0);
                }
            }
        }
    }
    let leases = world.lease(&reader, &[session(1, 32)]).await;
    assert_eq!(sequences(&leases.granted), wanted);
    let figures = world.show(&reader).await.figures;
    assert_eq!((figures.lag, figures.leased), (0, 8));
}

pub(crate) async fn rare_events_are_found_behind_many_others(world: World) {
    let reader = world.reader_with(|new| new.statuses = [Status::Failed].into()).await;
    world.write("q", 1_000).await;
    world.write("q", 1_000).await;
    world.write("q", 500).await;
    world.store.report(report("q", new_task(), Status::Failed)).await.expect("a verdict");
    let mut calls = 0;
    let granted = loop {
        calls += 1;
        let leases = world.lease(&reader, &[session(1, 1)]).await;
        let figures = world.show(&reader).await.figures;
        assert_eq!(figures.cursor.0 + figures.lag, 2_501, "the cursor keeps what was passed over");
        if !leases.granted.is_empty() {
            break leases.granted;
        }
        assert_eq!(leases.again_in, Some(Duration::ZERO), "there is more to look at");
    };
    assert_eq!(sequences(&granted), [2_501]);
    assert!((2..=4).contains(&calls), "one call looks at a bounded part: {calls} calls");
}

pub(crate) async fn several_queues_are_read_in_the_logs_order(world: World) {
    let reader = world.reader_with(|new| new.queues = names(&["q", "r", "s"])).await;
    for queue in ["r", "q", "q", "other", "s", "r", "q", "s", "s", "r"] {
        world.write(queue, 1).await;
    }
    let mut seen = Vec::new();
    for _ in 0..5 {
        let granted = world.lease(&reader, &[session(random(), 2)]).await.granted;
        assert!(granted.len() <= 2);
        seen.extend(sequences(&granted));
    }
    assert_eq!(seen, [1, 2, 3, 5, 6, 7, 8, 9, 10]);
}

pub(crate) async fn a_full_window_stops_its_own_subscription_alone(world: World) {
    let narrow = world.reader_with(|new| new.window = 2).await;
    let wide = world.reader().await;
    world.write("q", 4).await;
    let first = world.lease(&narrow, &[session(1, 32)]).await.granted;
    assert_eq!(sequences(&first), [1, 2]);
    assert_eq!(world.lease(&narrow, &[session(2, 32)]).await.granted.len(), 0);
    assert_eq!(world.show(&narrow).await.figures.lag, 2);
    assert_eq!(world.lease(&wide, &[session(3, 32)]).await.granted.len(), 4);

    world.confirm(&narrow, &first[1]).await;
    assert_eq!(sequences(&world.lease(&narrow, &[session(2, 32)]).await.granted), [3]);
    assert_eq!(world.lease(&narrow, &[session(2, 32)]).await.granted.len(), 0);
}

pub(crate) async fn free_credit_decides_and_ties_go_to_the_older(world: World) {
    let reader = world.reader().await;
    world.write("q", 20).await;
    let share = |leases: &[Lease]| -> Vec<u128> {
        leases.iter().map(|lease| u128::from_be_bytes(*lease.session_id.as_bytes())).collect()
    };
    let three = [session(7, 1), session(8, 3), session(9, 2)];
    let granted = world.lease(&reader, &three).await.granted;
    assert_eq!(share(&granted), [8, 8, 9, 7, 8, 9]);

    // What they hold counts, whatever the request says: the next goes to whoever confirmed.
    assert_eq!(world.confirm(&reader, &granted[2]).await, acked(&granted[2]));
    assert_eq!(share(&world.lease(&reader, &three).await.granted), [9]);
    assert_eq!(share(&world.lease(&reader, &[session(5, 2), session(6, 2)]).await.granted), [5, 6, 5, 6]);
}

pub(crate) async fn no_session_ever_has_more_than_its_capacity(world: World) {
    let reader = world.reader().await;
    world.write("q", 100).await;
    let sessions: Vec<_> = (0..3_u8).map(|n| session(u128::from(n) + 1, n + 1)).collect();
    let mut held: BTreeMap<_, Vec<Lease>> = BTreeMap::new();
    for round in 0..40_usize {
        for lease in world.lease(&reader, &sessions).await.granted {
            held.entry(lease.session_id).or_default().push(lease);
        }
        for wanted in &sessions {
            let count = held.get(&wanted.session_id).map_or(0, Vec::len);
            assert!(count <= usize::from(wanted.capacity), "round {round}: {count} on {wanted:?}");
        }
        let place = round % sessions.len();
        if let Some(leases) = held.get_mut(&sessions[place].session_id) {
            for lease in leases.drain(..1.min(leases.len())) {
                assert_eq!(world.confirm(&reader, &lease).await, acked(&lease));
            }
        }
    }
    // A lapse frees credit too, by itself.
    world.pass(LEASE).await;
    let again = world.lease(&reader, &sessions).await.granted;
    assert_eq!(again.len(), 6);
}

pub(crate) async fn a_live_lease_is_never_taken(world: World) {
    let reader = world.reader().await;
    world.write("q", 1).await;
    world.lease_one(&reader).await;
    world.pass(LEASE - Duration::from_millis(1)).await;
    world.store.sweep().await.expect("a sweep");
    assert_eq!(world.lease(&reader, &[session(2, 32)]).await.granted.len(), 0);
    assert_eq!(world.show(&reader).await.figures.leased, 1);
}

pub(crate) async fn a_lapsed_delivery_comes_again_after_its_backoff(world: World) {
    let reader = world.reader().await;
    world.write("q", 1).await;
    let first = world.lease_one(&reader).await;
    assert_eq!(first.generation, Generation(1));
    world.pass(LEASE).await;
    // Less than half of the first interval of a second.
    world.pass(Duration::from_millis(400)).await;
    assert_eq!(world.lease(&reader, &[session(2, 32)]).await.granted.len(), 0);
    world.pass(BACKOFF).await;
    let second = world.lease_one(&reader).await;
    assert_eq!((second.delivery_id, second.generation), (first.delivery_id, Generation(2)));
    assert_eq!((second.event_id, &second.event_json), (first.event_id, &first.event_json));
    assert!(second.secret != first.secret);
}

pub(crate) async fn a_delivery_expires_after_exactly_its_budget(world: World) {
    let reader = world.reader_with(|new| new.budget = 3).await;
    world.write("q", 1).await;
    let mut lease = world.lease_one(&reader).await;
    for generation in 2..=3 {
        lease = world.lease_again(&reader, &lease).await;
        assert_eq!(lease.generation, Generation(generation));
    }
    world.pass(LEASE).await;
    let swept = world.store.sweep().await.expect("a sweep");
    let expired: Vec<_> = swept.expired.iter().map(|e| (e.subscription_id, e.count, e.blocked)).collect();
    assert_eq!((swept.lapsed, expired), (0, vec![(reader.id, 1, false)]));
    world.pass(Duration::from_secs(1_000_000)).await;
    assert_eq!(world.lease(&reader, &[session(9, 32)]).await.granted.len(), 0);
    let listed = deliveries(&world, &reader, &[DeliveryState::Expired]).await;
    assert_eq!(listed, [(lease.delivery_id, DeliveryState::Expired, 3, 3)]);
}

async fn deliveries(
    world: &World,
    reader: &Reader,
    states: &[DeliveryState],
) -> Vec<(DeliveryId, DeliveryState, u64, u64)> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let states = states.iter().copied().collect();
        let page = world.store.deliveries(ListDeliveries { key: key(reader), states, after, limit: 2 }).await;
        let page = page.expect("a page");
        found.extend(page.items.iter().map(|d| (d.delivery_id, d.state, d.generation.0, d.budget)));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

pub(crate) async fn added_budget_makes_expired_deliveries_ready(world: World) {
    let reader = world.reader_with(|new| (new.budget, new.window) = (1, 5)).await;
    world.write("q", 6).await;
    let expired = world.expire(&reader, 4).await;
    let live = world.lease_one(&reader).await;
    let add = |delivery_id, add| world.store.add_budget(AddBudget { key: key(&reader), delivery_id, add });

    let given = add(expired[1].delivery_id, 2).await.expect("given");
    assert_eq!((given.state, given.generation, given.budget), (DeliveryState::Ready, Generation(1), 3));
    for refused in [expired[1].delivery_id, live.delivery_id] {
        assert!(matches!(add(refused, 1).await, Err(StoreError::NotExpired)));
    }
    let unknown = add(DeliveryId::from_u128(random()), 1).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))), "{unknown:?}");
    assert_eq!(deliveries(&world, &reader, &[DeliveryState::Expired]).await.len(), 3);
    assert_eq!(deliveries(&world, &reader, &[]).await.len(), 5);

    assert_eq!(world.store.add_budget_to_expired(key(&reader), 7).await.expect("given"), 3);
    assert_eq!(world.store.add_budget_to_expired(key(&reader), 7).await.expect("given"), 0);
    let mut budgets: Vec<_> = deliveries(&world, &reader, &[DeliveryState::Ready]).await;
    budgets.sort_by_key(|delivery| delivery.3);
    assert_eq!(budgets.iter().map(|delivery| delivery.3).collect::<Vec<_>>(), [3, 8, 8, 8]);
    let again = world.lease(&reader, &[session(random(), 32)]).await.granted;
    assert!(again.len() == 4 && again.iter().all(|lease| lease.generation == Generation(2)));
}

pub(crate) async fn a_paused_subscription_leases_nothing_and_uses_no_budget(world: World) {
    let reader = world.reader().await;
    world.write("q", 2).await;
    let lease = world.lease_one(&reader).await;
    world.store.switch_subscription(key(&reader), Switch::Pause).await.expect("paused");
    let cursor = world.show(&reader).await.figures.cursor;
    for _ in 0..5 {
        world.pass(Duration::from_secs(400)).await;
        world.store.sweep().await.expect("a sweep");
        let leases = world.lease(&reader, &[session(2, 32)]).await;
        assert_eq!((leases.granted.len(), leases.supply), (0, Supply::Paused));
    }
    let figures = world.show(&reader).await.figures;
    assert_eq!((figures.ready, figures.leased, figures.expired, figures.cursor), (1, 0, 0, cursor));
    assert_eq!(world.confirm(&reader, &lease).await, acked(&lease), "what was delivered still confirms");

    world.store.switch_subscription(key(&reader), Switch::Resume).await.expect("resumed");
    let leases = world.lease(&reader, &[session(2, 32)]).await;
    assert_eq!((sequences(&leases.granted), leases.supply), (vec![2], Supply::Flowing));
}

pub(crate) async fn a_window_of_expired_deliveries_is_said_to_be_blocked(world: World) {
    let reader = world.reader_with(|new| (new.budget, new.window) = (1, 2)).await;
    world.write("q", 3).await;
    let expired = world.expire(&reader, 2).await;
    let leases = world.lease(&reader, &[session(1, 32)]).await;
    assert_eq!((leases.granted.len(), leases.supply), (0, Supply::Blocked));
    assert!(world.show(&reader).await.is_blocked());
    assert_eq!(world.store.figures().await.expect("figures").blocked, [reader.id]);

    assert_eq!(world.confirm(&reader, &expired[0]).await, acked(&expired[0]));
    let leases = world.lease(&reader, &[session(1, 32)]).await;
    assert_eq!((sequences(&leases.granted), leases.supply), (vec![3], Supply::Flowing));
    assert_eq!(world.store.figures().await.expect("figures").blocked, []);
}

pub(crate) async fn nothing_is_leased_for_a_credential_that_is_nobodys_any_more(world: World) {
    let leaver = world.reader_of(world.bearer("leaver", &["q"]).await, |_| ()).await;
    let secret = CredentialSecret::generate().hash();
    let guest = NewCredential { expires_in: Some(LEASE), ..new_credential("guest", &["q"], secret) };
    let id = world.store.create_credential(guest).await.expect("created").credential_id;
    let guest = world.reader_of(Bearer { id, hash: secret }, |_| ()).await;
    world.write("q", 2).await;
    let held = world.lease_one(&leaver).await;
    world.lease_one(&guest).await;
    world.store.revoke_credential(name("leaver")).await.expect("revoked");
    let leases = world.lease(&leaver, &[session(1, 32)]).await;
    assert_eq!((leases.granted.len(), leases.supply, leases.again_in), (0, Supply::Unauthenticated, None));
    assert_eq!(world.confirm(&leaver, &held).await, Confirmed::Unauthenticated);
    world.pass(LEASE).await;
    let leases = world.lease(&guest, &[session(1, 32)]).await;
    assert_eq!((leases.granted.len(), leases.supply), (0, Supply::Unauthenticated));
}

pub(crate) async fn one_call_grants_a_bounded_number_and_says_so(world: World) {
    let reader = world.reader_with(|new| new.window = 4_096).await;
    world.write("q", 200).await;
    let sessions: Vec<_> = (1..=8).map(|n| session(n, 32)).collect();
    let mut seen = Vec::new();
    let mut calls = 0;
    loop {
        let leases = world.lease(&reader, &sessions).await;
        assert!(leases.granted.len() <= 64, "{}", leases.granted.len());
        seen.extend(sequences(&leases.granted));
        calls += 1;
        if leases.again_in != Some(Duration::ZERO) {
            break;
        }
    }
    assert_eq!((seen, calls), ((1..=200).collect(), 4));
}

pub(crate) async fn the_next_chance_is_named(world: World) {
    let reader = world.reader().await;
    let again = async |capacity| world.lease(&reader, &[session(1, capacity)]).await.again_in;
    assert_eq!(again(1).await, None, "only an event changes anything");
    world.write("q", 1).await;
    // Engines whose clock goes on by itself are allowed their second.
    let about = |found: Option<Duration>, expected: Duration| {
        let found = found.expect("a time");
        assert!(found <= expected && found + SECOND >= expected, "{found:?} is not about {expected:?}");
    };
    about(again(1).await, LEASE);
    world.pass(LEASE - 2 * SECOND).await;
    about(again(1).await, 2 * SECOND);
    about(again(2).await, 2 * SECOND);
    world.pass(2 * SECOND).await;
    about(again(1).await, SECOND);
    world.pass(SECOND).await;
    about(again(1).await, LEASE);
    let nobody = LeaseRequest { subscription_id: reader.id, lease: LEASE, sessions: Vec::new() };
    about(world.store.lease(nobody).await.expect("leases").again_in, LEASE);
}
