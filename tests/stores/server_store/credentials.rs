//! Guarantees about credentials.

use perilune::server::store::{CredentialSecret, NewCredential, Resource, Rotation, Scope, StoreError};

use super::world::{DAY, SECOND, World, name, names, new_credential};

pub(crate) async fn a_credential_authenticates_until_it_is_revoked(world: World) {
    let (secret, other) = (CredentialSecret::generate(), CredentialSecret::generate());
    let new = NewCredential {
        scopes: [Scope::Report, Scope::Manage].into_iter().collect(),
        ..new_credential("worker", &["a", "b"], secret.hash())
    };
    let record = world.store.create_credential(new).await.expect("created");
    assert_eq!(world.store.authenticate(other.hash()).await.expect("an answer"), None);
    let principal = world.store.authenticate(secret.hash()).await.expect("an answer").expect("known");
    assert_eq!(principal.credential_id, record.credential_id);
    assert_eq!((principal.name, principal.queues), (name("worker"), names(&["a", "b"])));
    let scopes: Vec<_> = principal.scopes.iter().collect();
    assert_eq!((scopes, principal.expires_at), (vec![Scope::Report, Scope::Manage], None));

    let revoked = world.store.revoke_credential(name("worker")).await.expect("revoked");
    assert!(revoked.revoked_at.is_some());
    assert_eq!(world.store.authenticate(secret.hash()).await.expect("an answer"), None);
    assert_eq!(world.store.credentials().await.expect("a list"), [revoked]);
}

pub(crate) async fn a_name_is_taken_until_its_credential_is_revoked(world: World) {
    let new = |secret: &CredentialSecret| new_credential("worker", &["q"], secret.hash());
    let (first, second) = (CredentialSecret::generate(), CredentialSecret::generate());
    world.store.create_credential(new(&first)).await.expect("created");
    let twice = world.store.create_credential(new(&second)).await;
    assert!(matches!(twice, Err(StoreError::NameTaken)), "{twice:?}");
    assert_eq!(world.store.authenticate(second.hash()).await.expect("an answer"), None);

    world.store.revoke_credential(name("worker")).await.expect("revoked");
    let successor = world.store.create_credential(new(&second)).await.expect("created");
    let known = world.store.authenticate(second.hash()).await.expect("an answer").expect("known");
    assert_eq!(known.credential_id, successor.credential_id);
    assert_eq!(world.store.credentials().await.expect("a list").len(), 2);
}

pub(crate) async fn both_secrets_work_until_the_overlap_ends(world: World) {
    let secrets: Vec<_> = (0..3).map(|_| CredentialSecret::generate()).collect();
    let created = world.store.create_credential(new_credential("worker", &["q"], secrets[0].hash())).await;
    let created = created.expect("created");
    let rotate = |to: usize| {
        let rotation = Rotation { name: name("worker"), secret: secrets[to].hash(), overlap: DAY };
        world.store.rotate_credential(rotation)
    };
    let works = async |which: usize| {
        let known = world.store.authenticate(secrets[which].hash()).await.expect("an answer");
        known.map(|principal| principal.credential_id) == Some(created.credential_id)
    };
    assert!(rotate(1).await.expect("rotated").overlap_until.is_some());
    assert!(works(0).await && works(1).await);

    // A second rotation within the overlap does not lengthen it.
    world.pass(DAY / 2).await;
    rotate(2).await.expect("rotated");
    world.pass(DAY / 2 - SECOND).await;
    assert!(works(0).await && works(1).await && works(2).await);
    world.pass(SECOND).await;
    assert!(!works(0).await && works(1).await && works(2).await);
    world.pass(DAY / 2).await;
    assert!(!works(1).await && works(2).await);
    let shown = world.store.credentials().await.expect("a list").remove(0);
    assert_eq!(shown.overlap_until, None);

    world.store.revoke_credential(name("worker")).await.expect("revoked");
    assert!(!works(2).await);
}

pub(crate) async fn an_expired_credential_is_nobody(world: World) {
    let secret = CredentialSecret::generate();
    let new = NewCredential { expires_in: Some(DAY), ..new_credential("worker", &["q"], secret.hash()) };
    let record = world.store.create_credential(new).await.expect("created");
    world.pass(DAY - SECOND).await;
    let principal = world.store.authenticate(secret.hash()).await.expect("an answer").expect("known");
    assert_eq!(principal.expires_at, record.expires_at);
    assert!(record.expires_at.is_some());
    world.pass(SECOND).await;
    assert_eq!(world.store.authenticate(secret.hash()).await.expect("an answer"), None);
}

pub(crate) async fn a_rotation_of_nobody_changes_nothing(world: World) {
    let secret = CredentialSecret::generate();
    let rotation = Rotation { name: name("nobody"), secret: secret.hash(), overlap: DAY };
    let refused = world.store.rotate_credential(rotation).await;
    assert!(matches!(refused, Err(StoreError::NotFound(Resource::Credential))), "{refused:?}");
    let refused = world.store.revoke_credential(name("nobody")).await;
    assert!(matches!(refused, Err(StoreError::NotFound(Resource::Credential))), "{refused:?}");
    assert_eq!(world.store.authenticate(secret.hash()).await.expect("an answer"), None);
    assert_eq!(world.store.credentials().await.expect("a list"), []);
}
