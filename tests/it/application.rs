//! An application's own database with operations in it, and its status resource.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use actix_web::{App, HttpServer, web};
use perilune::inbox::Store;
use perilune::outcome::protect::{Key, KeyId, KeyRing};
use perilune::outcome::status::{StatusResource, Unauthenticated};
use perilune::outcome::{
    AuthoriseBy, Caller, Decision, EmptyOutcome, Operation, OperationId, Operations, Outcome, OutcomeEngine,
    OutcomeQuery,
};
use perilune::sql::{PoolSettings, TablePrefix};
use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::{RawJson, ResultEvent, Snapshot, Status, TaskError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportGenerated {
    pages: u32,
}

impl Outcome for ReportGenerated {
    const TYPE: &'static str = "ReportGenerated";
    const SCHEMA_VERSION: u32 = 1;
}

pub(crate) struct GenerateReport;

impl Operation for GenerateReport {
    const TYPE: &'static str = "GenerateReport";
    type Input = String;
    type Outcome = ReportGenerated;
}

pub(crate) struct CloseAccount;

impl Operation for CloseAccount {
    const TYPE: &'static str = "CloseAccount";
    type Input = ();
    type Outcome = EmptyOutcome;
}

/// An engine whose database an application may have, with statements in plain SQL.
pub(crate) trait Engine: OutcomeEngine + Store {
    fn run(on: &mut Self::Connection, sql: String) -> impl Future<Output = ()> + Send;
}

macro_rules! engine {
    ($Db:ty) => {
        impl Engine for $Db {
            async fn run(on: &mut Self::Connection, sql: String) {
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(on).await.expect("run");
            }
        }
    };
}

engine!(sqlx::Sqlite);
engine!(sqlx::Postgres);
engine!(sqlx::MySql);

/// An application's database. The tables of a server's are dropped with it.
pub(crate) struct Application<DB: Engine> {
    pub(crate) url: String,
    pub(crate) prefix: TablePrefix,
    folder: Option<tempfile::TempDir>,
    engine: std::marker::PhantomData<DB>,
}

impl Application<sqlx::Sqlite> {
    /// One on SQLite, in a folder that goes with it.
    pub(crate) fn embedded() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("shop.db").display());
        Self::migrated(url, Some(folder))
    }
}

impl<DB: Engine> Application<DB> {
    /// One on the server that a variable names; `None` where it names none.
    pub(crate) fn on_server(variable: &str) -> Option<Self> {
        let Ok(url) = std::env::var(variable) else {
            assert!(std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_none(), "{variable} is not set");
            println!("skipped: {variable} is not set; `.ci/databases cargo test --all-features --test it` runs it");
            return None;
        };
        Some(Self::migrated(url, None))
    }

    fn migrated(url: String, folder: Option<tempfile::TempDir>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("it{}_{}_", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let prefix = prefix.parse().expect("a prefix");
        let application = Self { url, prefix, folder, engine: std::marker::PhantomData };
        application.with(async |operations, _| {
            operations.migrate().await.expect("migrated");
        });
        application
    }

    /// Does something with the operations.
    pub(crate) fn with<T>(&self, work: impl AsyncFnOnce(&Operations<DB>, &sqlx::Pool<DB>) -> T) -> T {
        actix_rt::System::new().block_on(async {
            let settings = PoolSettings { max_connections: 2, ..PoolSettings::default() };
            let pool = DB::open(&self.url.parse().expect("a URL"), &settings).await.expect("opened");
            let done = work(&operations(&pool, &self.prefix), &pool).await;
            pool.close().await;
            done
        })
    }

    /// Applies an event: the status that task `n` has at a version.
    pub(crate) fn apply(&self, n: u128, version: u64, status: Status) {
        self.with(async |operations, pool| {
            let mut transaction = pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
            operations.apply(&mut transaction, &event(n, version, status)).await.expect("applied");
            transaction.commit().await.expect("committed");
        });
    }

    /// Runs a statement with `{p}` for the prefix.
    pub(crate) fn run(&self, statement: &str) {
        let sql = statement.replace("{p}", self.prefix.as_str());
        self.with(async |_, pool| {
            DB::run(&mut *pool.acquire().await.expect("a connection"), sql).await;
        });
    }

    /// The arguments that name the database.
    pub(crate) fn named<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        [arguments, &["--database", &self.url, "--table-prefix", self.prefix.as_str()]].concat()
    }
}

impl<DB: Engine> Drop for Application<DB> {
    fn drop(&mut self) {
        if self.folder.is_some() || std::thread::panicking() {
            return;
        }
        for table in [
            "operations",
            "operation_inputs",
            "outcomes",
            "dead_letters",
            "operation_journal",
            "operation_holds",
            "retention_audit",
            "retention_head",
            "migrations",
        ] {
            self.run(&format!("DROP TABLE IF EXISTS {{p}}{table}"));
        }
    }
}

fn operations<DB: OutcomeEngine>(pool: &sqlx::Pool<DB>, prefix: &TablePrefix) -> Operations<DB> {
    Operations::builder(pool.clone(), KeyRing::new(Key::new(KeyId(1), [1; 32])))
        .table_prefix(prefix.clone())
        .operation::<GenerateReport>()
        .operation::<CloseAccount>()
        .build()
}

pub(crate) fn id(n: u128) -> String {
    OperationId::from_u128(n).to_string()
}

fn event(n: u128, version: u64, status: Status) -> ResultEvent {
    let at = "2026-01-02T03:04:05Z".parse().expect("a time");
    let json = |text| RawJson::parse(text, 61).expect("JSON");
    ResultEvent {
        event_id: EventId::from_u128(n * 1_000 + u128::from(version)),
        sequence: Sequence(1),
        occurred_at: at,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(n),
            queue: "reports".parse().expect("a name"),
            operation: "GenerateReport".parse().expect("a name"),
            status,
            version: TaskVersion(version),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: if status == Status::Succeeded { json(r#"{"pages": 3}"#) } else { RawJson::null() },
            error: matches!(status, Status::Rejected | Status::DeadLettered)
                .then(|| TaskError { code: "validation/too_large".to_owned(), message: "words".to_owned() }),
        },
    }
}

/// The status resource below `/api`, on a thread of its own, until it is dropped. Whoever has the credential `ann` may
/// know everything, `eve` nothing.
pub(crate) struct StatusServer {
    pub(crate) url: String,
    handle: actix_web::dev::ServerHandle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl StatusServer {
    pub(crate) fn start(application: &Application<sqlx::Sqlite>) -> Self {
        let (url, prefix) = (application.url.clone(), application.prefix.clone());
        let (ready, started) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_rt::System::new().block_on(async {
                let settings = PoolSettings::default();
                let pool = <sqlx::Sqlite as perilune::sql::Engine>::open(&url.parse().expect("a URL"), &settings)
                    .await
                    .expect("opened");
                let authoriser = AuthoriseBy::new(|subject| match subject.current_actor {
                    Some("ann") => Decision::Allow,
                    _ => Decision::Deny,
                });
                let query = OutcomeQuery::new(&operations(&pool, &prefix)).with_authoriser(authoriser);
                let resource = StatusResource::new(query, |request| {
                    let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
                    match header.and_then(|value| value.strip_prefix("Bearer ")) {
                        Some(actor @ ("ann" | "eve")) => Ok(Caller { actor: Some(actor.to_owned()), tenant: None }),
                        _ => Err(Unauthenticated),
                    }
                });
                let server = HttpServer::new(move || App::new().service(web::scope("/api").service(resource.scope())));
                let server = server.workers(1).disable_signals().bind("127.0.0.1:0").expect("bound");
                let url = format!("http://{}/api", server.addrs()[0]);
                let running = server.run();
                ready.send((url, running.handle())).expect("awaited");
                running.await.expect("ran");
                pool.close().await;
            });
        });
        let (url, handle) = started.recv().expect("started");
        Self { url, handle, thread: Some(thread) }
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        // The command is sent when `stop` is called; the thread's end is what is waited for.
        drop(self.handle.stop(false));
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server failed");
        }
    }
}
