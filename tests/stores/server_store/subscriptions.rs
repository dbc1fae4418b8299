//! Guarantees about subscriptions.

use std::time::Duration;

use perilune::server::store::{
    Confirmed, ListSubscriptions, Resource, SessionCredit, Standing, Start, StoreError, Supply, Switch,
};
use perilune_proto::backoff::Backoff;
use perilune_proto::event::Status;
use perilune_proto::scalar::Sequence;

use super::world::{LEASE, Reader, World, acked, key, names, on_session, random, replayed, session};

pub(crate) async fn a_subscription_shows_its_settings(world: World) {
    let backoff = Backoff::new(Duration::from_millis(1_500), Duration::from_secs(60));
    let reader = world
        .reader_with(|new| {
            new.name = "Rechnungen \u{1f4c4}\n".to_owned();
            new.queues = names(&["q", "r"]);
            new.statuses = [Status::Accepted, Status::NeedsReview].into();
            new.operations = names(&["GenerateReport", "x.y-z_1"]);
            (new.window, new.budget, new.backoff) = (4_096, 3, backoff);
        })
        .await;
    let shown = world.show(&reader).await;
    let subscription = &shown.subscription;
    assert_eq!((subscription.subscription_id, subscription.credential_id), (reader.id, reader.bearer.id));
    assert_eq!((&*subscription.name, subscription.enabled), ("Rechnungen \u{1f4c4}\n", true));
    assert_eq!(subscription.queues, names(&["q", "r"]));
    assert_eq!(subscription.statuses, [Status::Accepted, Status::NeedsReview].into());
    assert_eq!(subscription.operations, names(&["GenerateReport", "x.y-z_1"]));
    assert_eq!((subscription.window, subscription.budget, subscription.backoff), (4_096, 3, backoff));
    let standing = world.store.standing(on_session(&reader)).await.expect("an answer");
    assert_eq!(standing, Standing::Active(Box::new(shown.subscription)));
}

pub(crate) async fn a_subscription_begins_where_it_says(world: World) {
    world.write("q", 3).await;
    let from = |start| world.reader_with(move |new| new.start = start);
    let starts = [
        (Start::Latest, 3, [4].as_slice()),
        (Start::Earliest, 0, &[1, 2, 3, 4]),
        (Start::Sequence(Sequence(2)), 1, &[2, 3, 4]),
        (Start::Sequence(Sequence(0)), 0, &[1, 2, 3, 4]),
        (Start::Sequence(Sequence(1)), 0, &[1, 2, 3, 4]),
    ];
    let mut readers = Vec::new();
    for (start, cursor, sequences) in starts {
        let reader = from(start).await;
        assert_eq!(world.show(&reader).await.figures.cursor, Sequence(cursor), "{start:?}");
        readers.push((reader, sequences, start));
    }
    let never = from(Start::Sequence(Sequence(u64::MAX))).await;
    world.write("q", 1).await;
    for (reader, sequences, start) in readers {
        assert_eq!(leased_sequences(&world, &reader).await, sequences, "{start:?}");
    }
    assert_eq!(leased_sequences(&world, &never).await.len(), 0);
}

/// Leases whatever there is and names its places in the log.
async fn leased_sequences(world: &World, reader: &Reader) -> Vec<u64> {
    let granted = world.lease(reader, &[session(random(), 32)]).await.granted;
    let event = |json| perilune_proto::wire::decode_event(json).expect("an event");
    granted.iter().map(|lease| event(&lease.event_json).sequence.0).collect()
}

pub(crate) async fn a_list_has_ones_own_in_pages(world: World) {
    let (bearer, other) = (world.bearer("one", &["q"]).await, world.bearer("two", &["q"]).await);
    let mut own = Vec::new();
    for _ in 0..5 {
        own.push(world.reader_of(bearer, |_| ()).await.id);
        world.reader_of(other, |_| ()).await;
    }
    own.sort();
    let page = |after| world.store.subscriptions(ListSubscriptions { credential_id: bearer.id, after, limit: 2 });
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = page(after).await.expect("a page");
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|record| record.subscription.subscription_id));
        after = page.next;
        if after.is_none() {
            break;
        }
        assert_eq!(after, seen.last().copied());
    }
    assert_eq!(seen, own);
}

pub(crate) async fn another_credentials_subscription_is_not_there(world: World) {
    let reader = world.reader().await;
    let stranger = Reader { bearer: world.bearer("stranger", &["q"]).await, id: reader.id };
    let nobody = Reader { id: perilune_proto::scalar::SubscriptionId::from_u128(random()), ..reader.clone() };
    for reader in [stranger, nobody] {
        let key = key(&reader);
        let answers = [
            world.store.subscription(key).await.err(),
            world.store.switch_subscription(key, Switch::Pause).await.err(),
            world.store.seek_subscription(key, Start::Latest).await.err(),
            world.store.delete_subscription(key).await.err(),
            world.store.add_budget_to_expired(key, 1).await.err(),
        ];
        for answer in answers {
            assert!(matches!(answer, Some(StoreError::NotFound(Resource::Subscription))), "{answer:?}");
        }
        assert_eq!(world.store.standing(on_session(&reader)).await.expect("an answer"), Standing::NotFound);
    }
    assert!(world.show(&reader).await.subscription.enabled);
}

pub(crate) async fn pause_and_resume_hold_however_often(world: World) {
    let reader = world.reader().await;
    for to in [Switch::Pause, Switch::Pause, Switch::Resume, Switch::Resume, Switch::Pause] {
        let shown = world.store.switch_subscription(key(&reader), to).await.expect("switched");
        assert_eq!(shown.subscription.enabled, to == Switch::Resume);
        assert_eq!(world.show(&reader).await, shown);
    }
}

pub(crate) async fn seek_starts_afresh_with_new_deliveries(world: World) {
    let reader = world.reader().await;
    world.write("q", 3).await;
    let first = world.lease(&reader, &[session(1, 2)]).await.granted;
    assert_eq!(world.confirm(&reader, &first[0]).await, acked(&first[0]));

    let sought = world.store.seek_subscription(key(&reader), Start::Earliest).await.expect("sought").figures;
    assert_eq!((sought.cursor, sought.lag, sought.acknowledged), (Sequence(0), 3, 1));
    assert_eq!((sought.ready, sought.leased, sought.expired), (0, 0, 0));
    assert_eq!(world.confirm(&reader, &first[1]).await, Confirmed::Lost);
    assert_eq!(world.confirm(&reader, &first[0]).await, replayed(&first[0]));

    // The dropped lease holds none of the session's credit.
    let again = world.lease(&reader, &[session(1, 3)]).await.granted;
    let events = |leases: &[perilune::server::store::Lease]| leases.iter().map(|l| l.event_id).collect::<Vec<_>>();
    assert_eq!(again.len(), 3);
    assert_eq!(events(&again)[..2], events(&first));
    assert!(again.iter().all(|new| first.iter().all(|old| old.delivery_id != new.delivery_id)));
    assert_eq!(world.confirm(&reader, &again[0]).await, acked(&again[0]));

    let sought = world.store.seek_subscription(key(&reader), Start::Latest).await.expect("sought").figures;
    assert_eq!((sought.cursor, sought.lag, sought.leased), (Sequence(3), 0, 0));
    assert_eq!(world.lease(&reader, &[session(1, 3)]).await.granted.len(), 0);
}

pub(crate) async fn a_deleted_subscription_is_gone(world: World) {
    let reader = world.reader().await;
    world.write("q", 1).await;
    let lease = world.lease_one(&reader).await;
    world.store.delete_subscription(key(&reader)).await.expect("deleted");
    assert_eq!(world.lease(&reader, &[session(1, 1)]).await.supply, Supply::Gone);
    assert_eq!(world.confirm(&reader, &lease).await, Confirmed::NotFound);
    assert_eq!(world.store.standing(on_session(&reader)).await.expect("an answer"), Standing::NotFound);
    assert!(matches!(world.store.delete_subscription(key(&reader)).await, Err(StoreError::NotFound(_))));
    // Another of the same bearer does not inherit its deliveries.
    let other = world.reader_of(reader.bearer, |_| ()).await;
    assert_eq!(world.confirm(&other, &lease).await, Confirmed::Lost);
}

pub(crate) async fn figures_follow_every_step(world: World) {
    let reader = world.reader_with(|new| new.budget = 1).await;
    let one: [SessionCredit; 1] = [session(1, 2)];
    let shown = async || {
        let f = world.show(&reader).await.figures;
        (f.cursor.0, f.lag, f.ready, f.leased, f.expired, f.acknowledged)
    };
    assert_eq!(shown().await, (0, 0, 0, 0, 0, 0));
    world.write("q", 3).await;
    world.write("r", 2).await;
    assert_eq!(shown().await, (0, 3, 0, 0, 0, 0));
    let granted = world.lease(&reader, &one).await.granted;
    assert_eq!(shown().await, (2, 1, 0, 2, 0, 0));
    world.confirm(&reader, &granted[0]).await;
    assert_eq!(shown().await, (2, 1, 0, 1, 0, 1));
    // A lapse shows at once, swept or not.
    world.pass(LEASE).await;
    assert_eq!(shown().await, (2, 1, 0, 0, 1, 1));
    world.store.sweep().await.expect("a sweep");
    let (cursor, lag, ready, ..) = shown().await;
    assert!(cursor >= 3 && (lag, ready) == (0, 1), "the sweep took the third: {cursor} {lag} {ready}");
    world.confirm(&reader, &granted[1]).await;
    assert_eq!(world.show(&reader).await.figures.expired, 0);
}
