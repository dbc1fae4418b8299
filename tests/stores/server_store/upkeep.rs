//! Guarantees about housekeeping and wake-ups.

use std::time::Duration;

use perilune::server::store::{
    AddBudget, ListDeliveries, Start, StoreError, StoreFigures, Supply, Switch, Wake, Wakes,
};
use perilune_proto::scalar::Sequence;

use super::world::{LEASE, SECOND, World, key, name, names, random, session};

pub(crate) async fn a_sweep_keeps_the_schedule_without_any_session(world: World) {
    let reader = world.reader().await;
    world.write("q", 3).await;
    world.lease(&reader, &[session(1, 3)]).await;
    world.store.sweep().await.expect("a sweep");
    world.pass(LEASE).await;
    let swept = world.store.sweep().await.expect("a sweep");
    assert_eq!((swept.lapsed, swept.expired.len(), swept.more), (3, 0, false));
    let figures = world.show(&reader).await.figures;
    assert_eq!((figures.ready, figures.leased), (3, 0));
    assert_eq!(world.store.sweep().await.expect("a sweep").lapsed, 0);
}

pub(crate) async fn a_sweep_takes_events_for_idle_subscriptions(world: World) {
    let (narrow, wide) = (world.reader_with(|new| new.window = 2).await, world.reader().await);
    let paused = world.reader().await;
    world.store.switch_subscription(key(&paused), Switch::Pause).await.expect("paused");
    let revoked = world.reader_of(world.bearer("leaver", &["q"]).await, |_| ()).await;
    world.store.revoke_credential(name("leaver")).await.expect("revoked");
    world.write("q", 5).await;
    assert_eq!(world.store.sweep().await.expect("a sweep").taken, 2 + 5);
    for (reader, ready) in [(&narrow, 2), (&wide, 5), (&paused, 0), (&revoked, 0)] {
        assert_eq!(world.show(reader).await.figures.ready, ready);
    }
    assert_eq!(world.store.sweep().await.expect("a sweep").taken, 0);
    assert_eq!(world.lease(&wide, &[session(1, 32)]).await.granted.len(), 5);
}

pub(crate) async fn every_lapse_is_told_once_whoever_ended_it(world: World) {
    let told = async || {
        let swept = world.store.sweep().await.expect("a sweep");
        let mut expired: Vec<_> = swept.expired.iter().map(|e| (e.subscription_id, e.count, e.blocked)).collect();
        expired.sort_unstable();
        (swept.lapsed, expired)
    };
    let full = world.reader_with(|new| (new.budget, new.window) = (1, 2)).await;
    let again = world.reader_with(|new| new.budget = 2).await;
    let given = world.reader_with(|new| new.budget = 1).await;
    let refused = world.reader_with(|new| new.budget = 2).await;
    let readers = [&full, &again, &given, &refused];
    world.write("q", 3).await;
    for reader in readers {
        assert_eq!(world.lease(reader, &[session(random(), 2)]).await.granted.len(), 2);
    }
    assert_eq!(told().await, (0, Vec::new()));
    world.pass(LEASE).await;

    // By a question for leases, which tells again of nothing that was told.
    let leases = world.lease(&full, &[session(random(), 2)]).await;
    assert_eq!((leases.granted.len(), leases.supply), (0, Supply::Blocked));
    world.lease(&again, &[session(random(), 1)]).await;
    // By budget for all that are EXPIRED.
    assert_eq!(world.store.add_budget_to_expired(key(&given), 1).await.expect("given"), 2);
    // Undone with the question that found them, and ended by the sweep.
    let open = ListDeliveries { key: key(&refused), states: [].into(), after: None, limit: 1 };
    let delivery_id = world.store.deliveries(open).await.expect("a page").items[0].delivery_id;
    let budget = world.store.add_budget(AddBudget { key: key(&refused), delivery_id, add: 1 }).await;
    assert!(matches!(budget, Err(StoreError::NotExpired)), "{budget:?}");

    let mut expired = vec![(full.id, 2, true), (given.id, 2, false)];
    expired.sort_unstable();
    assert_eq!(told().await, (4, expired));
    world.lease(&full, &[session(random(), 2)]).await;
    assert_eq!(told().await, (0, Vec::new()));
}

pub(crate) async fn a_subscription_that_is_blocked_again_is_told_again(world: World) {
    let reader = world.reader_with(|new| (new.budget, new.window) = (1, 1)).await;
    world.write("q", 1).await;
    for _ in 0..2 {
        let lease = world.lease_one(&reader).await;
        world.pass(LEASE).await;
        world.lease(&reader, &[session(random(), 1)]).await;
        let swept = world.store.sweep().await.expect("a sweep");
        let expired: Vec<_> = swept.expired.iter().map(|e| (e.subscription_id, e.count, e.blocked)).collect();
        assert_eq!(expired, [(reader.id, 1, true)]);
        let given = AddBudget { key: key(&reader), delivery_id: lease.delivery_id, add: 1 };
        world.store.add_budget(given).await.expect("given");
    }
}

pub(crate) async fn the_next_wakeup_is_the_next_lapse(world: World) {
    let reader = world.reader().await;
    let wakeup = async || world.store.next_wakeup().await.expect("an answer");
    assert_eq!(wakeup().await, None);
    world.write("q", 2).await;
    world.store.sweep().await.expect("a sweep");
    assert_eq!(wakeup().await, None, "nothing is leased");
    let first = world.lease_one(&reader).await;
    world.pass(10 * SECOND).await;
    world.lease_one(&reader).await;
    let left = wakeup().await.expect("a lease");
    assert!(left <= 20 * SECOND && left > 15 * SECOND, "{left:?}");
    world.confirm(&reader, &first).await;
    let left = wakeup().await.expect("a lease");
    assert!(left <= LEASE && left > 25 * SECOND, "{left:?}");
    world.pass(LEASE + SECOND).await;
    assert_eq!(wakeup().await, Some(Duration::ZERO), "it is overdue");
    world.store.sweep().await.expect("a sweep");
    assert_eq!(wakeup().await, None);
}

/// The next wakes up to `last`, which must come.
async fn until(wakes: &mut Wakes, last: &Wake) -> Vec<Wake> {
    let mut seen = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(10), wakes.next()).await;
        let wake = next.unwrap_or_else(|_| panic!("{last:?} did not come, only {seen:?}")).expect("open");
        let found = wake == *last;
        seen.push(wake);
        if found {
            return seen;
        }
    }
}

pub(crate) async fn whatever_may_let_a_lease_succeed_wakes(world: World) {
    let reader = world.reader_with(|new| new.budget = 1).await;
    let mut wakes = world.store.wakes();
    let (this, stopped) = (Wake::Subscription(reader.id), Wake::Stopped(reader.id));
    world.write("q", 3).await;
    until(&mut wakes, &Wake::Queue(name("q"))).await;
    world.write("r", 1).await;
    let seen = until(&mut wakes, &Wake::Queue(name("r"))).await;
    assert!(!seen.contains(&this), "{seen:?}");

    let lease = world.lease_one(&reader).await;
    world.confirm(&reader, &lease).await;
    until(&mut wakes, &this).await;
    world.expire(&reader, 1).await;
    until(&mut wakes, &this).await;
    world.store.add_budget_to_expired(key(&reader), 1).await.expect("given");
    until(&mut wakes, &this).await;
    world.store.switch_subscription(key(&reader), Switch::Pause).await.expect("paused");
    until(&mut wakes, &stopped).await;
    world.store.switch_subscription(key(&reader), Switch::Resume).await.expect("resumed");
    until(&mut wakes, &this).await;
    world.store.seek_subscription(key(&reader), Start::Earliest).await.expect("sought");
    until(&mut wakes, &this).await;
    world.store.delete_subscription(key(&reader)).await.expect("deleted");
    until(&mut wakes, &stopped).await;
}

pub(crate) async fn the_figures_count_everything(world: World) {
    let nothing = StoreFigures {
        head: Sequence(0),
        events: 0,
        subscriptions: 0,
        in_progress: 0,
        expired: 0,
        acknowledged: 0,
        blocked: Vec::new(),
    };
    assert_eq!(world.store.figures().await.expect("figures"), nothing);
    let blocked = world.reader_with(|new| (new.budget, new.window) = (1, 1)).await;
    let other = world.reader_with(|new| new.queues = names(&["q", "r"])).await;
    world.write("q", 2).await;
    world.write("r", 1).await;
    world.expire(&blocked, 1).await;
    let lease = world.lease_one(&other).await;
    world.confirm(&other, &lease).await;
    assert_eq!(
        world.store.figures().await.expect("figures"),
        StoreFigures {
            head: Sequence(3),
            events: 3,
            subscriptions: 2,
            // The sweep within `expire` took all three for the other.
            in_progress: 2,
            expired: 1,
            acknowledged: 1,
            blocked: vec![blocked.id],
        }
    );
}

pub(crate) async fn a_closed_store_answers_nothing(world: World) {
    let mut wakes = world.store.wakes();
    world.store.probe().await.expect("it answers");
    let last =
        world.store.report(super::world::report("q", super::world::new_task(), perilune_proto::event::Status::Started));
    let (last, closed) = futures_util::future::join(last, world.store.close()).await;
    closed.expect("closed");
    last.expect("what was begun is answered");
    assert_eq!(wakes.next().await, Some(Wake::Queue(name("q"))));
    assert_eq!(wakes.next().await, None);
    let answers = [
        world.store.probe().await.err(),
        world.store.sweep().await.err(),
        world.store.figures().await.err(),
        world.store.close().await.err(),
    ];
    for answer in answers {
        assert!(matches!(answer, Some(StoreError::Closed)), "{answer:?}");
    }
}
