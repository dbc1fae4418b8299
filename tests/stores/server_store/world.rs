//! An empty store, its clock, and short ways to ask it.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perilune::server::store::{
    Confirmation, Confirmed, CredentialId, CredentialSecret, IdempotencyKey, Lease, LeaseRequest, Leases, ManualClock,
    MemoryStore, NewCredential, NewSubscription, Report, Role, Scope, SecretHash, SessionCredit, SessionRequest,
    SqliteStore, Start, Store, SubscriptionKey, SubscriptionRecord, Verdict, WrittenEvent,
};
use perilune::sql::DatabaseUrl;
use perilune::sql::url::SqliteUrl;
use perilune_proto::event::Status;
use perilune_proto::json::RawJson;
use perilune_proto::lease::BACKOFF_DEFAULT;
use perilune_proto::scalar::{Name, SessionId, SubscriptionId, TaskId};
use sha2::{Digest as _, Sha256};

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Longer than any first backoff, shorter than a lease.
pub(crate) const BACKOFF: Duration = Duration::from_secs(2);

type Advance = Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// A store, and what keeps it and moves its clock.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    advance: Advance,
    _kept: Box<dyn Any>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

/// A credential with its presented hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bearer {
    pub(crate) id: CredentialId,
    pub(crate) hash: SecretHash,
}

/// A subscription and who consumes it.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) bearer: Bearer,
    pub(crate) id: SubscriptionId,
}

impl World {
    pub(crate) fn new(store: Arc<dyn Store>, advance: Advance, kept: Box<dyn Any>) -> Self {
        Self { store, advance, _kept: kept }
    }

    /// A clock that a test moves, and the handle to move it.
    pub(crate) fn manual_clock() -> (Arc<ManualClock>, Advance) {
        let clock = Arc::new(ManualClock::new());
        let moved = Arc::clone(&clock);
        let advance: Advance = Box::new(move |by| {
            moved.advance(by);
            Box::pin(std::future::ready(()))
        });
        (clock, advance)
    }

    pub(crate) fn in_memory() -> Self {
        let (clock, advance) = Self::manual_clock();
        Self::new(Arc::new(MemoryStore::new(clock)), advance, Box::new(()))
    }

    /// In a file of a fresh folder.
    pub(crate) async fn in_sqlite() -> Self {
        let (clock, advance) = Self::manual_clock();
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(&sqlite_url(folder.path()), Role::Server, clock).await.expect("a new database");
        Self::new(Arc::new(store), advance, Box::new(folder))
    }

    /// Lets the store's clock go on.
    pub(crate) async fn pass(&self, time: Duration) {
        (self.advance)(time).await;
    }

    /// A credential for `queues` with every scope.
    pub(crate) async fn bearer(&self, credential: &str, queues: &[&str]) -> Bearer {
        let hash = CredentialSecret::generate().hash();
        let record =
            self.store.create_credential(new_credential(credential, queues, hash)).await.expect("a credential");
        Bearer { id: record.credential_id, hash }
    }

    /// A bearer and its subscription to queue `q` from the start, with the contract's defaults.
    pub(crate) async fn reader(&self) -> Reader {
        self.reader_with(|_| ()).await
    }

    pub(crate) async fn reader_with(&self, change: impl FnOnce(&mut NewSubscription)) -> Reader {
        let bearer = self.bearer(&format!("c{:x}", random()), &["q", "r", "s"]).await;
        self.reader_of(bearer, change).await
    }

    pub(crate) async fn reader_of(&self, bearer: Bearer, change: impl FnOnce(&mut NewSubscription)) -> Reader {
        let mut new = NewSubscription {
            credential_id: bearer.id,
            name: "invoices".to_owned(),
            queues: names(&["q"]),
            statuses: BTreeSet::new(),
            operations: BTreeSet::new(),
            start: Start::Earliest,
            window: 256,
            budget: 10,
            backoff: BACKOFF_DEFAULT,
        };
        change(&mut new);
        let record = self.store.create_subscription(new).await.expect("a subscription");
        Reader { bearer, id: record.subscription.subscription_id }
    }

    /// Writes `count` events of new tasks to a queue.
    pub(crate) async fn write(&self, queue: &str, count: usize) -> Vec<WrittenEvent> {
        let reports = (0..count).map(|_| report(queue, new_task(), Status::Succeeded)).collect();
        let verdicts = self.store.report_batch(reports).await.expect("verdicts");
        verdicts.into_iter().map(written).collect()
    }

    pub(crate) async fn lease(&self, reader: &Reader, sessions: &[SessionCredit]) -> Leases {
        let request = LeaseRequest { subscription_id: reader.id, lease: LEASE, sessions: sessions.to_vec() };
        self.store.lease(request).await.expect("leases")
    }

    /// Leases one delivery to a session that has nothing else.
    pub(crate) async fn lease_one(&self, reader: &Reader) -> Lease {
        let mut granted = self.lease(reader, &[session(random(), 1)]).await.granted;
        assert_eq!(granted.len(), 1, "one delivery is there to lease");
        granted.remove(0)
    }

    /// Lets a delivery's lease lapse and leases it again.
    pub(crate) async fn lease_again(&self, reader: &Reader, lapsed: &Lease) -> Lease {
        self.pass(LEASE).await;
        self.store.sweep().await.expect("a sweep");
        // The longest backoff that there is.
        self.pass(Duration::from_secs(300)).await;
        let lease = self.lease_one(reader).await;
        assert_eq!(lease.delivery_id, lapsed.delivery_id);
        lease
    }

    pub(crate) async fn confirm(&self, reader: &Reader, lease: &Lease) -> Confirmed {
        self.store.confirm(confirmation(reader, lease)).await.expect("a judgement")
    }

    pub(crate) async fn show(&self, reader: &Reader) -> SubscriptionRecord {
        self.store.subscription(key(reader)).await.expect("the subscription")
    }

    /// Lets the only lease of a subscription with a budget of one lapse: EXPIRED.
    pub(crate) async fn expire(&self, reader: &Reader, count: u8) -> Vec<Lease> {
        let granted = self.lease(reader, &[session(random(), count)]).await.granted;
        assert_eq!(granted.len(), usize::from(count));
        self.pass(LEASE).await;
        self.store.sweep().await.expect("a sweep");
        granted
    }
}

/// The database's URL in a folder.
pub(crate) fn sqlite_url(folder: &std::path::Path) -> SqliteUrl {
    let url = format!("sqlite:{}", folder.join("perilune.db").display());
    match url.parse().expect("a URL") {
        DatabaseUrl::Sqlite(url) => *url,
        _ => panic!("{url} is another engine's"),
    }
}

pub(crate) fn random() -> u128 {
    rand::random()
}

pub(crate) fn new_task() -> TaskId {
    TaskId::from_u128(random())
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a valid name")
}

pub(crate) fn names(texts: &[&str]) -> BTreeSet<Name> {
    texts.iter().map(|text| name(text)).collect()
}

pub(crate) fn new_credential(credential: &str, queues: &[&str], secret: SecretHash) -> NewCredential {
    let scopes = Scope::ALL.into_iter().collect();
    NewCredential { name: name(credential), queues: names(queues), scopes, secret, expires_in: None }
}

pub(crate) fn session(id: u128, capacity: u8) -> SessionCredit {
    SessionCredit { session_id: SessionId::from_u128(id), capacity }
}

pub(crate) fn key(reader: &Reader) -> SubscriptionKey {
    SubscriptionKey { credential_id: reader.bearer.id, subscription_id: reader.id }
}

pub(crate) fn on_session(reader: &Reader) -> SessionRequest {
    SessionRequest { presented: reader.bearer.hash, subscription_id: reader.id }
}

pub(crate) fn confirmation(reader: &Reader, lease: &Lease) -> Confirmation {
    Confirmation {
        session: on_session(reader),
        delivery_id: lease.delivery_id,
        generation: lease.generation,
        secret: lease.secret.clone(),
    }
}

pub(crate) fn report(queue: &str, task_id: TaskId, status: Status) -> Report {
    Report {
        credential_id: CredentialId::from_u128(1),
        queue: name(queue),
        task_id,
        operation: name("GenerateReport"),
        status,
        payload: RawJson::null(),
        result: RawJson::null(),
        error: None,
        idempotency: None,
    }
}

/// A report under an idempotency key with the hash of a body.
pub(crate) fn keyed(task_id: TaskId, status: Status, key: &str, body: &str) -> Report {
    let body_sha256 = Sha256::digest(body).into();
    let idempotency = Some(IdempotencyKey { key: key.to_owned(), body_sha256 });
    Report { idempotency, ..report("q", task_id, status) }
}

pub(crate) fn written(verdict: Verdict) -> WrittenEvent {
    match verdict {
        Verdict::Written(event) => event,
        other => panic!("not written but {other:?}"),
    }
}

pub(crate) fn acked(lease: &Lease) -> Confirmed {
    Confirmed::Acked { event_id: lease.event_id, replayed: false }
}

pub(crate) fn replayed(lease: &Lease) -> Confirmed {
    Confirmed::Acked { event_id: lease.event_id, replayed: true }
}
