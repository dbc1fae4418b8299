//! Guarantees about proofs and the sessions that bring them.

use std::time::Duration;

use perilune::server::store::{
    Confirmation, Confirmed, CredentialSecret, DeliveryRecord, DeliveryState, ListDeliveries, NewCredential, Rotation,
    Scope, Standing,
};
use perilune_proto::scalar::{DeliveryId, Generation, Secret, TaskVersion};

use super::world::{
    Bearer, DAY, LEASE, Reader, SECOND, World, acked, confirmation, key, name, new_credential, on_session, random,
    replayed,
};

pub(crate) async fn a_proof_confirms_once_and_is_replayed_after(world: World) {
    let reader = world.reader().await;
    world.write("q", 2).await;
    let lease = world.lease_one(&reader).await;
    assert_eq!(world.confirm(&reader, &lease).await, acked(&lease));
    for _ in 0..3 {
        assert_eq!(world.confirm(&reader, &lease).await, replayed(&lease));
    }
    let figures = world.show(&reader).await.figures;
    assert_eq!((figures.acknowledged, figures.leased), (1, 0));
    world.pass(Duration::from_secs(3_600)).await;
    assert_ne!(world.lease_one(&reader).await.event_id, lease.event_id, "a confirmed event never comes again");
}

pub(crate) async fn a_superseded_proof_is_lost(world: World) {
    let reader = world.reader().await;
    world.write("q", 1).await;
    let first = world.lease_one(&reader).await;
    let second = world.lease_again(&reader, &first).await;
    assert_eq!(world.confirm(&reader, &first).await, Confirmed::Lost);
    assert_eq!(world.show(&reader).await.figures.leased, 1, "the second holder's lease goes on");
    assert_eq!(world.confirm(&reader, &second).await, acked(&second));
    assert_eq!(world.confirm(&reader, &first).await, Confirmed::Lost);
    assert_eq!(world.confirm(&reader, &second).await, replayed(&second));
}

pub(crate) async fn a_wrong_secret_and_a_generation_never_leased_are_invalid(world: World) {
    let reader = world.reader().await;
    world.write("q", 1).await;
    let lease = world.lease_one(&reader).await;
    let with = |generation: u64, secret: &Secret| {
        let secret = secret.clone();
        let generation = Generation(generation);
        world.store.confirm(Confirmation { generation, secret, ..confirmation(&reader, &lease) })
    };
    let wrong = Secret::from_bytes([7; 32]);
    for _ in 0..2 {
        for (generation, secret) in [(1, &wrong), (0, &lease.secret), (2, &lease.secret), (u64::MAX, &lease.secret)] {
            assert_eq!(with(generation, secret).await.expect("a judgement"), Confirmed::Invalid, "{generation}");
        }
        // Before and after it is confirmed.
        world.confirm(&reader, &lease).await;
    }
    assert_eq!(world.confirm(&reader, &lease).await, replayed(&lease));
}

pub(crate) async fn a_proof_confirms_after_its_lease_and_its_budget(world: World) {
    let reader = world.reader_with(|new| new.budget = 1).await;
    world.write("q", 3).await;
    let expired = world.expire(&reader, 2).await;
    world.pass(100 * DAY).await;
    world.store.sweep().await.expect("a sweep");
    assert_eq!(world.confirm(&reader, &expired[0]).await, acked(&expired[0]));
    // Lapsed and swept by nobody.
    let lapsed = world.lease_one(&reader).await;
    world.pass(LEASE + SECOND).await;
    assert_eq!(world.confirm(&reader, &lapsed).await, acked(&lapsed));
    let figures = world.show(&reader).await.figures;
    assert_eq!((figures.expired, figures.leased, figures.ready, figures.acknowledged), (1, 0, 0, 2));
}

pub(crate) async fn a_proof_of_another_subscription_is_lost(world: World) {
    let reader = world.reader().await;
    let other = world.reader_of(reader.bearer, |_| ()).await;
    world.write("q", 1).await;
    let lease = world.lease_one(&reader).await;
    assert_eq!(world.confirm(&other, &lease).await, Confirmed::Lost);
    let unknown = Confirmation { delivery_id: DeliveryId::from_u128(random()), ..confirmation(&reader, &lease) };
    assert_eq!(world.store.confirm(unknown).await.expect("a judgement"), Confirmed::Lost);
    assert_eq!(world.confirm(&reader, &lease).await, acked(&lease));
}

pub(crate) async fn a_confirmed_proof_is_replayed_for_a_day(world: World) {
    let reader = world.reader().await;
    world.write("q", 1).await;
    let lease = world.lease_one(&reader).await;
    world.pass(3 * DAY).await;
    assert_eq!(world.confirm(&reader, &lease).await, acked(&lease));
    world.pass(DAY - SECOND).await;
    world.store.sweep().await.expect("a sweep");
    assert_eq!(world.confirm(&reader, &lease).await, replayed(&lease));
    world.pass(2 * SECOND).await;
    assert_eq!(world.store.sweep().await.expect("a sweep").forgotten, 1);
    assert_eq!(world.confirm(&reader, &lease).await, Confirmed::Lost);
}

pub(crate) async fn a_confirmed_delivery_is_listed_for_as_long_where_it_is_asked_for(world: World) {
    let (reader, other) = (world.reader().await, world.reader().await);
    world.write("q", 3).await;
    let lease = world.lease_one(&reader).await;
    world.confirm(&reader, &lease).await;
    let elsewhere = world.lease_one(&other).await;
    world.confirm(&other, &elsewhere).await;
    let open = world.lease_one(&reader).await;

    let acknowledged = listed(&world, &reader, &[DeliveryState::Acknowledged]).await;
    assert_eq!(acknowledged.iter().map(|record| record.delivery_id).collect::<Vec<_>>(), [lease.delivery_id]);
    assert_eq!(acknowledged[0].state, DeliveryState::Acknowledged);
    assert_eq!(acknowledged[0].event.expect("in the log").task_version, TaskVersion(1));
    let states = |found: Vec<DeliveryRecord>| found.into_iter().map(|record| record.state).collect::<Vec<_>>();
    assert!(!states(listed(&world, &reader, &[]).await).contains(&DeliveryState::Acknowledged), "open ones by default");
    let every = listed(&world, &reader, &DeliveryState::ALL).await;
    for id in [lease.delivery_id, open.delivery_id] {
        assert_eq!(every.iter().filter(|record| record.delivery_id == id).count(), 1, "each once");
    }
    world.pass(DAY - SECOND).await;
    world.store.sweep().await.expect("swept");
    assert_eq!(listed(&world, &reader, &[DeliveryState::Acknowledged]).await.len(), 1);
    world.pass(SECOND * 2).await;
    world.store.sweep().await.expect("swept");
    assert_eq!(listed(&world, &reader, &[DeliveryState::Acknowledged]).await.len(), 0);
}

/// Every page's deliveries.
async fn listed(world: &World, reader: &Reader, states: &[DeliveryState]) -> Vec<DeliveryRecord> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let list = ListDeliveries { key: key(reader), states: states.iter().copied().collect(), after, limit: 1 };
        let page = world.store.deliveries(list).await.expect("a page");
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

pub(crate) async fn one_of_two_simultaneous_proofs_confirms(world: World) {
    let reader = world.reader().await;
    world.write("q", 1).await;
    let lease = world.lease_one(&reader).await;
    let sent = (0..16).map(|_| world.store.confirm(confirmation(&reader, &lease)));
    let answers = futures_util::future::join_all(sent).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("a judgement")).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == acked(&lease)).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == replayed(&lease)).count(), 15);
    assert_eq!(world.show(&reader).await.figures.acknowledged, 1);
}

pub(crate) async fn a_revoked_or_unfit_credential_confirms_nothing(world: World) {
    let bearer = world.bearer("worker", &["q"]).await;
    let reader = world.reader_of(bearer, |_| ()).await;
    world.write("q", 1).await;
    let lease = world.lease_one(&reader).await;

    let unfit = CredentialSecret::generate();
    let scopes = [Scope::Report, Scope::Manage].into_iter().collect();
    let new = NewCredential { scopes, ..new_credential("unfit", &["q"], unfit.hash()) };
    let unfit =
        Bearer { id: world.store.create_credential(new).await.expect("created").credential_id, hash: unfit.hash() };
    let stranger = world.bearer("stranger", &["q"]).await;
    let by = |bearer| Reader { bearer, ..reader.clone() };
    assert_eq!(world.confirm(&by(unfit), &lease).await, Confirmed::PermissionDenied);
    assert_eq!(world.confirm(&by(stranger), &lease).await, Confirmed::NotFound);
    let nobody = Bearer { hash: CredentialSecret::generate().hash(), ..bearer };
    assert_eq!(world.confirm(&by(nobody), &lease).await, Confirmed::Unauthenticated);

    world.store.revoke_credential(name("worker")).await.expect("revoked");
    assert_eq!(world.confirm(&reader, &lease).await, Confirmed::Unauthenticated);
}

pub(crate) async fn a_session_stands_as_its_credential_does(world: World) {
    let bearer = world.bearer("worker", &["q"]).await;
    let reader = world.reader_of(bearer, |_| ()).await;
    let standing = async |bearer| {
        let request = on_session(&Reader { bearer, ..reader.clone() });
        world.store.standing(request).await.expect("an answer")
    };
    assert!(matches!(standing(bearer).await, Standing::Active(_)));
    // A rotated secret keeps its sessions until the overlap ends, the new one at once.
    let new = Bearer { hash: CredentialSecret::generate().hash(), ..bearer };
    assert_eq!(standing(new).await, Standing::Unauthenticated);
    let rotation = Rotation { name: name("worker"), secret: new.hash, overlap: DAY };
    world.store.rotate_credential(rotation).await.expect("rotated");
    assert!(matches!(standing(bearer).await, Standing::Active(_)));
    assert!(matches!(standing(new).await, Standing::Active(_)));
    world.pass(DAY).await;
    assert_eq!(standing(bearer).await, Standing::Unauthenticated);
    assert!(matches!(standing(new).await, Standing::Active(_)));
    world.store.revoke_credential(name("worker")).await.expect("revoked");
    assert_eq!(standing(new).await, Standing::Unauthenticated);

    let reporter = CredentialSecret::generate().hash();
    let scopes = [Scope::Report].into_iter().collect();
    let new = NewCredential { scopes, ..new_credential("reporter", &["q"], reporter) };
    let id = world.store.create_credential(new).await.expect("created").credential_id;
    assert_eq!(standing(Bearer { id, hash: reporter }).await, Standing::PermissionDenied);
}
