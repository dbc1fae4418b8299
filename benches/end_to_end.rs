//! From publish to acknowledged on PostgreSQL: a real server whose log is in one database, a consumer of capacity 32 whose
//! inbox transaction with one business update is in another, all in this process.
//!
//! `cargo bench --bench end_to_end --all-features`, with `PERILUNE_TEST_POSTGRES_URL`. `EVENTS` (2,000) that wait already
//! are consumed as fast as it goes: events per second, and what a consumer's slot does meanwhile. Then `LIVE` (300) are
//! published one by one, `PAUSE_MS` (10) apart: how long each stage of an event's way takes. A receipt counts when
//! `on_settled` hears of it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use perilune::client::{Client, Credential, SubscriptionId};
use perilune::consumer::{Consumer, ConsumerHandle, EventContext, EventHandler, HandlerResult};
use perilune::inbox::{Inbox, OpenTransaction};
use perilune::proto::ResultEvent;
use perilune::proto::lease::BACKOFF_DEFAULT;
use perilune::proto::limits::{BUDGET_DEFAULT, WINDOW};
use perilune::server::store::{self, CredentialSecret, NewCredential, NewSubscription, Role, Scope, Start, Store};
use perilune::server::{RunningServer, Server, ServerConfig};
use perilune::sql::{PoolSettings, TablePrefix};
use perilune_proto::scalar::{EventId, TaskId};
use sqlx::{Connection as _, PgConnection, Postgres};

const CAPACITY: u8 = 32;
const QUEUE: &str = "reports";

fn setting(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let Ok(url) = std::env::var("PERILUNE_TEST_POSTGRES_URL") else {
        println!("skipped: PERILUNE_TEST_POSTGRES_URL is not set");
        return;
    };
    actix_rt::System::new().block_on(async {
        let platform = Platform::start(&url).await;
        let receiver = Receiver::start(&url).await;
        platform.backlog(&receiver).await;
        platform.live(&receiver).await;
        receiver.drop_tables().await;
        platform.stop(&url).await;
    });
}

/// The moments of one event.
#[derive(Clone, Copy)]
struct Way {
    published: Option<Instant>,
    answered: Option<Instant>,
    begun: Instant,
    ended: Instant,
    settled: Option<Instant>,
}

type Ways = Arc<Mutex<HashMap<EventId, (TaskId, Way)>>>;

/// Sums up one stage: its median and its p99.
fn stage(name: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    if !took.is_empty() {
        println!("  {name:34} median {:>9.2?}, p99 {:>9.2?}", took[took.len() / 2], took[took.len() * 99 / 100]);
    }
}

struct Platform {
    server: RunningServer,
    store: Arc<dyn Store>,
    database: String,
    client: Client,
    secret: CredentialSecret,
    subscription: SubscriptionId,
}

impl Platform {
    async fn start(url: &str) -> Self {
        let database = format!("perilune_bench_{}", std::process::id());
        admin(url, format!("CREATE DATABASE {database}")).await;
        let own = format!("{}/{database}", url.rsplit_once('/').expect("a database URL").0);
        let store = store::open(&own.parse().expect("a URL"), Role::Server).await.expect("opened");
        let secret = CredentialSecret::generate();
        let queues = || [QUEUE.parse().expect("a name")].into();
        let credential = NewCredential {
            name: "bench".parse().expect("a name"),
            queues: queues(),
            scopes: Scope::ALL.into_iter().collect(),
            secret: secret.hash(),
            expires_in: None,
        };
        let credential = store.create_credential(credential).await.expect("created");
        let subscription = NewSubscription {
            credential_id: credential.credential_id,
            name: "bench".to_owned(),
            queues: queues(),
            statuses: [].into(),
            operations: [].into(),
            start: Start::Earliest,
            window: *WINDOW.end(),
            budget: BUDGET_DEFAULT,
            backoff: BACKOFF_DEFAULT,
        };
        let subscription = store.create_subscription(subscription).await.expect("created");
        let config = ServerConfig::builder().listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).build().expect("valid");
        let server = Server::start(config, Arc::clone(&store)).await.expect("started");
        let credential = Credential::new(secret.expose()).expect("visible ASCII");
        let client =
            Client::builder(format!("http://{}", server.addr())).credential(credential).build().expect("valid");
        Self { server, store, database, client, secret, subscription: subscription.subscription.subscription_id }
    }

    async fn stop(self, url: &str) {
        self.server.stop().await;
        self.store.close().await.expect("closed");
        admin(url, format!("DROP DATABASE {} WITH (FORCE)", self.database)).await;
    }

    fn consume(&self, receiver: &Receiver) -> ConsumerHandle {
        let (ways, settled) = (Arc::clone(&receiver.ways), receiver.inbox.on_settled());
        let heard = move |receipts: Vec<perilune::consumer::Receipt>| {
            let now = Instant::now();
            let mut ways = ways.lock().expect("no panic");
            for receipt in &receipts {
                if let Some((_, way)) = ways.get_mut(&receipt.event_id) {
                    way.settled = Some(now);
                }
            }
            settled(receipts)
        };
        let consumer = Consumer::builder(self.client.clone(), self.subscription)
            .capacity(CAPACITY)
            .event_handler(receiver.handler())
            .on_settled(heard)
            .build()
            .expect("in range");
        consumer.start().expect("an actix system")
    }

    /// Reports tasks' results in one request.
    async fn publish(&self, tasks: &[TaskId]) {
        let line = |task: &TaskId| {
            format!(
                "{{\"queue\":\"{QUEUE}\",\"task_id\":\"{task}\",\"operation\":\"Bench\",\"status\":\"succeeded\"}}\n"
            )
        };
        let url = format!("http://{}/v1/events:batch", self.server.addr());
        let request =
            awc::Client::default().post(url).timeout(Duration::from_secs(60)).bearer_auth(self.secret.expose());
        let request = request.insert_header(("content-type", "application/x-ndjson"));
        let mut answer = request.send_body(tasks.iter().map(line).collect::<String>()).await.expect("answered");
        assert!(answer.status().is_success(), "{}", answer.status());
        let body = answer.body().limit(16 << 20).await.expect("read");
        assert_eq!(String::from_utf8_lossy(&body).matches("\"status\":201").count(), tasks.len());
    }

    /// As fast as it goes.
    async fn backlog(&self, receiver: &Receiver) {
        let events = setting("EVENTS", 2_000);
        let tasks: Vec<_> = (0..events).map(|_| TaskId::from_u128(rand::random())).collect();
        for part in tasks.chunks(1_000) {
            self.publish(part).await;
        }
        let began = Instant::now();
        let run = self.consume(receiver);
        receiver.until_settled(tasks.len()).await;
        let took = began.elapsed();
        run.stop();
        run.ended().await.expect("a clean stop");
        let rate = events as f64 / took.as_secs_f64();
        println!("{events} events that wait, capacity {CAPACITY}: {rate:.0}/s. A slot, for each event:");
        let ways = receiver.take();
        let mean = |of: &dyn Fn(&Way) -> Duration| {
            ways.values().map(|(_, way)| of(way).as_secs_f64()).sum::<f64>() / ways.len() as f64 * 1_000.0
        };
        let handler = mean(&|way| way.ended - way.begun);
        let receipt = mean(&|way| way.settled.map_or(Duration::ZERO, |settled| settled - way.ended));
        let whole = f64::from(CAPACITY) / rate * 1_000.0;
        println!("  the inbox transaction       {handler:>8.2} ms");
        println!("  from its end to the receipt {receipt:>8.2} ms (one ack in flight a connection)");
        println!("  waiting for a delivery      {:>8.2} ms", (whole - handler - receipt).max(0.0));
    }

    /// One by one.
    async fn live(&self, receiver: &Receiver) {
        let run = self.consume(receiver);
        let (events, pause) = (setting("LIVE", 300), Duration::from_millis(setting("PAUSE_MS", 10)));
        let mut published = HashMap::new();
        for _ in 0..events {
            let task = TaskId::from_u128(rand::random());
            let began = Instant::now();
            self.publish(&[task]).await;
            published.insert(task, (began, Instant::now()));
            tokio::time::sleep(pause).await;
        }
        receiver.until_settled(published.len()).await;
        run.stop();
        run.ended().await.expect("a clean stop");
        let ways = receiver.take().into_values().map(|(task, way)| {
            let (began, answered) = published[&task];
            Way { published: Some(began), answered: Some(answered), ..way }
        });
        let ways: Vec<_> = ways.collect();
        println!("{events} events, one every {pause:?} or so:");
        let between = |from: fn(&Way) -> Option<Instant>, to: fn(&Way) -> Option<Instant>| {
            ways.iter().filter_map(|way| Some(to(way)?.saturating_duration_since(from(way)?))).collect::<Vec<_>>()
        };
        stage("report: request to answer", between(|way| way.published, |way| way.answered));
        stage("request to the handler's beginning", between(|way| way.published, |way| Some(way.begun)));
        stage("the inbox transaction", between(|way| Some(way.begun), |way| Some(way.ended)));
        stage("its end to the receipt", between(|way| Some(way.ended), |way| way.settled));
        stage("request to receipt", between(|way| way.published, |way| way.settled));
    }
}

async fn admin(url: &str, sql: String) {
    let mut on = PgConnection::connect(url).await.expect("the database answers");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut on).await.expect("done");
}

struct Receiver {
    inbox: Inbox<Postgres>,
    prefix: TablePrefix,
    ways: Ways,
}

impl Receiver {
    async fn start(url: &str) -> Self {
        let prefix: TablePrefix = format!("e{}_", std::process::id()).parse().expect("a prefix");
        let settings = PoolSettings { max_connections: u32::from(CAPACITY) + 2, ..PoolSettings::default() };
        let pool = <Postgres as perilune::sql::Engine>::open(&url.parse().expect("a URL"), &settings).await;
        let inbox = Inbox::with_prefix(pool.expect("the database answers"), "bench", &prefix).expect("a name");
        inbox.migrate().await.expect("migrated");
        let receiver = Self { inbox, prefix, ways: Ways::default() };
        receiver.run("CREATE TABLE {p}account (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL)").await;
        receiver.run("INSERT INTO {p}account SELECT n, 0 FROM generate_series(0, 999) AS n").await;
        receiver
    }

    async fn run(&self, sql: &str) {
        let sql = sql.replace("{p}", self.prefix.as_str());
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(self.inbox.pool()).await.expect("done");
    }

    async fn drop_tables(&self) {
        for table in ["account", "inbox", "inbox_pruner", "migrations"] {
            self.run(&format!("DROP TABLE {{p}}{table}")).await;
        }
    }

    fn handler(&self) -> impl EventHandler + Send + Sync {
        let update = format!("UPDATE {}account SET n = n + 1 WHERE id = $1", self.prefix);
        let work = move |_: Arc<ResultEvent>, mut tx: OpenTransaction<Postgres>| {
            let update = update.clone();
            async move {
                let account = rand::random_range(0..1_000_i64);
                sqlx::query(sqlx::AssertSqlSafe(update)).bind(account).execute(&mut **tx).await.map(drop)
            }
        };
        Timed { handler: self.inbox.handler(work), ways: Arc::clone(&self.ways) }
    }

    async fn until_settled(&self, events: usize) {
        let count = || self.ways.lock().expect("no panic").values().filter(|(_, way)| way.settled.is_some()).count();
        while count() < events {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn take(&self) -> HashMap<EventId, (TaskId, Way)> {
        std::mem::take(&mut *self.ways.lock().expect("no panic"))
    }
}

/// Notes when a handler begins and ends.
struct Timed<H> {
    handler: H,
    ways: Ways,
}

impl<H: EventHandler> EventHandler for Timed<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let begun = Instant::now();
        let handled = self.handler.handle(Arc::clone(&event), context).await;
        let way = Way { published: None, answered: None, begun, ended: Instant::now(), settled: None };
        self.ways.lock().expect("no panic").insert(event.event_id, (event.task_id(), way));
        handled
    }
}
