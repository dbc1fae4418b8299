//! Guarantees about what the log forgets.

use perilune::server::store::{Confirmed, PastCursors, Retention, Standing, Start, Supply, Verdict};
use perilune_proto::event::Status;
use perilune_proto::scalar::Sequence;

use super::world::{
    DAY, LEASE, SECOND, World, acked, key, keyed, name, names, new_task, on_session, report, session, written,
};

const KEEP_ALL: Retention = Retention { max_age: None, max_events: None, past_cursors: PastCursors::Keep };

/// Retains until there is no more to forget; says how much went.
async fn retain(world: &World, retention: Retention) -> u64 {
    let mut forgotten = 0;
    loop {
        let retained = world.store.retain(retention).await.expect("retained");
        assert!(retained.forgotten <= 500, "one call forgets a bounded number");
        forgotten += retained.forgotten;
        if !retained.more {
            return forgotten;
        }
    }
}

async fn events(world: &World) -> u64 {
    world.store.figures().await.expect("figures").events
}

pub(crate) async fn events_go_by_count_and_by_age(world: World) {
    world.write("q", 600).await;
    world.write("r", 600).await;
    assert_eq!(retain(&world, KEEP_ALL).await, 0);
    assert_eq!(retain(&world, Retention { max_events: Some(1_200), ..KEEP_ALL }).await, 0);
    assert_eq!(retain(&world, Retention { max_events: Some(10), ..KEEP_ALL }).await, 1_190);
    assert_eq!(events(&world).await, 10);
    world.pass(DAY).await;
    world.write("q", 5).await;
    assert_eq!(retain(&world, Retention { max_age: Some(2 * DAY), ..KEEP_ALL }).await, 0);
    assert_eq!(retain(&world, Retention { max_age: Some(DAY - SECOND), ..KEEP_ALL }).await, 10);
    let figures = world.store.figures().await.expect("figures");
    assert_eq!((figures.events, figures.head), (5, Sequence(1_205)));
    assert_eq!(retain(&world, Retention { max_events: Some(0), ..KEEP_ALL }).await, 5);
    let next = world.write("q", 1).await;
    assert_eq!(next[0].sequence, Sequence(1_206), "an empty log goes on where it was");
}

pub(crate) async fn a_lagging_subscription_keeps_the_log(world: World) {
    let reader = world.reader().await;
    let leaver = world.reader_of(world.bearer("leaver", &["q"]).await, |_| ()).await;
    world.write("q", 4).await;
    world.write("r", 4).await;
    let taken = world.lease(&reader, &[session(1, 2)]).await.granted;
    let none = Retention { max_events: Some(0), ..KEEP_ALL };
    assert_eq!(retain(&world, none).await, 4, "what nobody reads goes, what the slowest reader wants stays");
    world.store.revoke_credential(name("leaver")).await.expect("revoked");
    assert_eq!(retain(&world, none).await, 2, "a revoked credential's subscription keeps nothing");
    assert_eq!(world.show(&leaver).await.figures.lag, 2);
    // A paused one does.
    let pause = perilune::server::store::Switch::Pause;
    world.store.switch_subscription(key(&reader), pause).await.expect("paused");
    assert_eq!(retain(&world, none).await, 0);
    assert_eq!(world.confirm(&reader, &taken[0]).await, acked(&taken[0]));
    world.store.delete_subscription(key(&reader)).await.expect("deleted");
    assert_eq!(retain(&world, none).await, 2);
}

pub(crate) async fn told_so_retention_leaves_a_gap_that_a_seek_mends(world: World) {
    let (reader, other) = (world.reader().await, world.reader_with(|new| new.queues = names(&["r"])).await);
    world.write("q", 4).await;
    let lease = world.lease_one(&reader).await;
    let told = Retention { max_events: Some(1), past_cursors: PastCursors::Forget, ..KEEP_ALL };
    assert_eq!(retain(&world, told).await, 3);
    assert_eq!(world.store.standing(on_session(&reader)).await.expect("an answer"), Standing::HistoryGap);
    assert_eq!(world.lease(&reader, &[session(2, 1)]).await.supply, Supply::HistoryGap);
    assert_eq!(world.store.sweep().await.expect("a sweep").taken, 0);
    assert!(matches!(world.store.standing(on_session(&other)).await.expect("an answer"), Standing::Active(_)));
    assert_eq!(world.confirm(&reader, &lease).await, acked(&lease), "what was delivered still confirms");

    for (to, sequence, taken) in [
        (Start::Sequence(Sequence(3)), 2, None),
        (Start::Sequence(Sequence(4)), 3, Some(1)),
        (Start::Latest, 4, Some(0)),
    ] {
        let figures = world.store.seek_subscription(key(&reader), to).await.expect("sought").figures;
        assert_eq!(figures.cursor, Sequence(sequence));
        let leases = world.lease(&reader, &[session(2, 1)]).await;
        let found = (leases.supply != Supply::HistoryGap).then_some(leases.granted.len());
        assert_eq!(found, taken, "{to:?}");
    }
}

pub(crate) async fn earliest_is_the_oldest_event_left(world: World) {
    // Two queues with their oldest events at different places.
    world.write("q", 3).await;
    world.write("r", 3).await;
    let holder = world.reader_with(|new| (new.queues, new.start) = (names(&["r"]), Start::Sequence(Sequence(6)))).await;
    let retention = Retention { max_events: Some(0), ..KEEP_ALL };
    assert_eq!(retain(&world, retention).await, 5);
    world.write("q", 1).await;
    let reader = world.reader_with(|new| new.queues = names(&["q", "r"])).await;
    assert_eq!(world.show(&reader).await.figures.lag, 2);
    let leases = world.lease(&reader, &[session(1, 32)]).await;
    assert_eq!((leases.granted.len(), leases.supply), (2, Supply::Flowing));
    world.store.delete_subscription(key(&holder)).await.expect("deleted");
}

pub(crate) async fn what_is_still_needed_of_a_forgotten_event_stays(world: World) {
    let reader = world.reader_with(|new| new.budget = 3).await;
    let task_id = new_task();
    written(world.store.report(report("q", task_id, Status::Started)).await.expect("a verdict"));
    let event = written(world.store.report(keyed(task_id, Status::Failed, "k1", "body")).await.expect("a verdict"));
    let shown = world.store.task(task_id).await.expect("an answer");
    let granted = world.lease(&reader, &[session(1, 2)]).await.granted;
    assert_eq!(retain(&world, Retention { max_events: Some(0), ..KEEP_ALL }).await, 2);
    assert_eq!(events(&world).await, 0);

    assert_eq!(world.store.task(task_id).await.expect("an answer"), shown);
    let again = world.store.report(keyed(task_id, Status::Failed, "k1", "body")).await.expect("a verdict");
    assert_eq!(again, Verdict::Seen(event.clone()));
    assert_eq!(world.store.report(report("q", task_id, Status::Started)).await.expect("a verdict"), Verdict::Terminal);
    assert_eq!(world.confirm(&reader, &granted[0]).await, acked(&granted[0]));
    let second = world.lease_again(&reader, &granted[1]).await;
    assert_eq!(second.event_json, event.json);
    assert_eq!(world.confirm(&reader, &granted[1]).await, Confirmed::Lost);
    world.pass(LEASE).await;
    assert_eq!(world.confirm(&reader, &second).await, acked(&second));
}
