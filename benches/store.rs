//! The server's store on SQLite, in figures of one run.
//!
//! - **shared commits**: 8 sessions lease and acknowledge, 8 reporters report, all waiting for the disk; how many
//!   events a commit carries, beside what the disk does with one commit an event.
//! - **a long log**: leases and their acknowledgements off a log of ten and off a log of `EVENTS` (ten million) in
//!   turn, at its start, its middle and its end; the ratio of each pair says whether length costs anything.
//!
//! `cargo bench --bench store --all-features`; with `EVENTS=1000000` it is done sooner.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perilune::server::store::{
    Confirmation, Confirmed, CredentialId, Credentials as _, Deliveries as _, HostClock, Lease, LeaseRequest,
    NewCredential, NewSubscription, Report, Role, Scope, SecretHash, SessionCredit, SessionRequest, SqliteStore, Start,
    Subscriptions as _, TaskLog as _, Upkeep as _, Verdict,
};
use perilune::sql::DatabaseUrl;
use perilune::sql::url::SqliteUrl;
use perilune_proto::event::Status;
use perilune_proto::json::RawJson;
use perilune_proto::lease::BACKOFF_DEFAULT;
use perilune_proto::scalar::{Sequence, SessionId, SubscriptionId, TaskId};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::mpsc;

const SESSIONS: u128 = 8;
const REPORTERS: usize = 8;
const CAPACITY: u8 = 32;
const UNDER_LOAD: u64 = 20_000;
const SINGLE: usize = 2_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        println!("SQLite itself, one row each: {:.0} commits/s", disk().await);
        let load = shared_commits().await;
        let alone = alone().await;
        println!("8 sessions, 8 reporters: {load}");
        println!("1 session, nobody else:  {alone}");
        let events = std::env::var("EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
        long_log(events).await;
    });
}

/// A run's figures.
struct Figures {
    acknowledged: u64,
    commits: u64,
    took: Duration,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, events, commits) = (self.took.as_secs_f64(), self.acknowledged as f64, self.commits as f64);
        let (per_second, commits_per_second) = (events / seconds, commits / seconds);
        write!(f, "{per_second:.0} acknowledged/s, {commits_per_second:.0} commits/s, ")?;
        write!(f, "{:.1} acknowledged a commit", events / commits)
    }
}

/// A store with one consumer and its subscription.
struct Site {
    store: Arc<SqliteStore>,
    session: SessionRequest,
    credential_id: CredentialId,
}

impl Site {
    async fn open(folder: &Path) -> Self {
        let store = SqliteStore::open(&url(folder), Role::Server, Arc::new(HostClock::new())).await.expect("opened");
        let presented = SecretHash::of("the benchmark's");
        let new = NewCredential {
            name: "bench".parse().expect("a name"),
            queues: ["q".parse().expect("a name")].into(),
            scopes: Scope::ALL.into_iter().collect(),
            secret: presented,
            expires_in: None,
        };
        let credential_id = match store.authenticate(presented).await.expect("an answer") {
            Some(principal) => principal.credential_id,
            None => store.create_credential(new).await.expect("created").credential_id,
        };
        let session = SessionRequest { presented, subscription_id: SubscriptionId::from_u128(0) };
        let mut site = Self { store: Arc::new(store), session, credential_id };
        site.subscribe(Start::Earliest).await;
        site
    }

    async fn subscribe(&mut self, start: Start) {
        let new = NewSubscription {
            credential_id: self.credential_id,
            name: "bench".to_owned(),
            queues: ["q".parse().expect("a name")].into(),
            statuses: BTreeSet::new(),
            operations: BTreeSet::new(),
            start,
            window: 4_096,
            budget: 10,
            backoff: BACKOFF_DEFAULT,
        };
        let record = self.store.create_subscription(new).await.expect("created");
        self.session.subscription_id = record.subscription.subscription_id;
    }

    async fn lease(&self, sessions: Vec<SessionCredit>) -> Vec<Lease> {
        let (subscription_id, lease) = (self.session.subscription_id, Duration::from_secs(30));
        self.store.lease(LeaseRequest { subscription_id, lease, sessions }).await.expect("leases").granted
    }

    async fn confirm(&self, lease: Lease) {
        let Lease { delivery_id, generation, secret, .. } = lease;
        let answer = self.store.confirm(Confirmation { session: self.session, delivery_id, generation, secret }).await;
        assert!(matches!(answer, Ok(Confirmed::Acked { replayed: false, .. })), "{answer:?}");
    }

    async fn report(&self) {
        let report = Report {
            credential_id: self.credential_id,
            queue: "q".parse().expect("a name"),
            task_id: TaskId::from_u128(rand::random()),
            operation: "GenerateReport".parse().expect("a name"),
            status: Status::Succeeded,
            payload: RawJson::parse(&format!("\"{}\"", "x".repeat(1_000)), 61).expect("strict JSON"),
            result: RawJson::null(),
            error: None,
            idempotency: None,
        };
        assert!(matches!(self.store.report(report).await, Ok(Verdict::Written(_))));
    }
}

fn url(folder: &Path) -> SqliteUrl {
    match format!("sqlite:{}", folder.join("bench.db").display()).parse() {
        Ok(DatabaseUrl::Sqlite(url)) => *url,
        other => panic!("{other:?}"),
    }
}

/// What SQLite does on this disk with nothing around it: commits of one row each second.
async fn disk() -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let Site { store, .. } = Site::open(folder.path()).await;
    store.close().await.expect("closed");
    let mut connection = url(folder.path()).options.connect().await.expect("connected");
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE plain (x)";
    sqlx::raw_sql(pragmas).execute(&mut connection).await.expect("made");
    let begun = Instant::now();
    for _ in 0..SINGLE {
        sqlx::raw_sql("INSERT INTO plain VALUES (1)").execute(&mut connection).await.expect("committed");
    }
    SINGLE as f64 / begun.elapsed().as_secs_f64()
}

/// Reports, leases and acknowledges at once, as sessions do: one acknowledgement in flight each.
async fn shared_commits() -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Arc::new(Site::open(folder.path()).await);
    let left = Arc::new(AtomicU64::new(UNDER_LOAD));
    let (before, begun) = (site.store.commits(), Instant::now());
    for _ in 0..REPORTERS {
        let (site, left) = (Arc::clone(&site), Arc::clone(&left));
        tokio::spawn(async move {
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
                site.report().await;
            }
        });
    }
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut inboxes = Vec::new();
    for _ in 0..SESSIONS {
        let (inbox, mut deliveries) = mpsc::channel::<Lease>(usize::from(CAPACITY));
        let (site, acknowledged) = (Arc::clone(&site), Arc::clone(&acknowledged));
        tokio::spawn(async move {
            while let Some(lease) = deliveries.recv().await {
                site.confirm(lease).await;
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        });
        inboxes.push(inbox);
    }
    let sessions = || (0..SESSIONS).map(|n| SessionCredit { session_id: SessionId::from_u128(n), capacity: CAPACITY });
    let mut wakes = site.store.wakes();
    while acknowledged.load(Ordering::SeqCst) < UNDER_LOAD {
        for lease in site.lease(sessions().collect()).await {
            let place = usize::from(lease.session_id.as_bytes()[15]);
            inboxes[place].send(lease).await.expect("a session");
        }
        let _news = tokio::time::timeout(Duration::from_millis(20), wakes.next()).await;
    }
    Figures { acknowledged: UNDER_LOAD, commits: site.store.commits() - before, took: begun.elapsed() }
}

/// The same events one after the other, with nobody to share a commit with.
async fn alone() -> Figures {
    let folder = tempfile::tempdir().expect("a folder");
    let site = Site::open(folder.path()).await;
    let (before, begun) = (site.store.commits(), Instant::now());
    for n in 0..SINGLE {
        site.report().await;
        let session = SessionCredit { session_id: SessionId::from_u128(n as u128), capacity: 1 };
        for lease in site.lease(vec![session]).await {
            site.confirm(lease).await;
        }
    }
    Figures { acknowledged: SINGLE as u64, commits: site.store.commits() - before, took: begun.elapsed() }
}

/// Leases off a short log and off a long one in turn, so that the disk's moods meet both.
async fn long_log(events: u64) {
    let (near, far) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut short = Site::open(near.path()).await;
    let long = Site::open(far.path()).await;
    for site in [&short, &long] {
        for _ in 0..10 {
            site.report().await;
        }
    }
    long.store.close().await.expect("closed");
    let begun = Instant::now();
    fill(far.path(), events).await;
    println!("a log of {events} events was made in {:.0} s", begun.elapsed().as_secs_f64());

    let mut long = Site::open(far.path()).await;
    for (place, start) in [("start", 1), ("middle", events / 2), ("end", events - 10)] {
        let (mut ratios, mut times) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let off_short = lease_of(&mut short, Start::Sequence(Sequence(1))).await;
            let off_long = lease_of(&mut long, Start::Sequence(Sequence(start))).await;
            ratios.push(off_long.as_secs_f64() / off_short.as_secs_f64());
            times.push(off_long);
        }
        ratios.sort_by(f64::total_cmp);
        times.sort();
        let (ratio, time) = (ratios[ratios.len() / 2], times[times.len() / 2]);
        println!("lease and acknowledgement at its {place}: {time:?}, {ratio:.2} of that off a log of ten");
    }
    let begun = Instant::now();
    let figures = long.store.figures().await.expect("figures");
    println!("figures of {} events: {:?}", figures.events, begun.elapsed());
}

/// The time of five leases and their acknowledgements, one by one, for a fresh subscription.
async fn lease_of(site: &mut Site, start: Start) -> Duration {
    site.subscribe(start).await;
    let begun = Instant::now();
    for n in 0..5 {
        let session = SessionCredit { session_id: SessionId::from_u128(n), capacity: 1 };
        let lease = site.lease(vec![session]).await.pop().expect("an event");
        site.confirm(lease).await;
    }
    begun.elapsed()
}

/// Writes events by SQL, as many as are missing from the log.
async fn fill(folder: &Path, events: u64) {
    let mut connection = url(folder).options.connect().await.expect("connected");
    let sql = format!(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;
         WITH RECURSIVE n (i) AS (SELECT 11 UNION ALL SELECT i + 1 FROM n WHERE i < {events})
         INSERT INTO event SELECT i, queue_id, i, 3, 1, 1767225600000000 + i, randomblob(16),
             randomblob(16), 'GenerateReport', '{{\"event_id\":\"\",\"snapshot\":{{\"payload\":' || i || '}}}}'
         FROM n, queue;
         UPDATE queue SET head = {events}, events = {events};
         PRAGMA wal_checkpoint(TRUNCATE)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.expect("filled");
    connection.close().await.expect("closed");
}
