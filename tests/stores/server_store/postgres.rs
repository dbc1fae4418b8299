//! A PostgreSQL database for a test: a schema of its own, whose clock stands until the test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use perilune::server::store::{OpenError, PostgresStore, Role, SchemaName};
use perilune::sql::DatabaseUrl;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::net::{TcpListener, TcpStream};

use super::world::World;

const VARIABLE: &str = "PERILUNE_TEST_POSTGRES_URL";

/// A schema that the test drops at its end.
pub(crate) struct Schema {
    pool: PgPool,
    options: PgConnectOptions,
    name: SchemaName,
    /// Where its clock stands.
    micros: AtomicI64,
}

impl Schema {
    /// A new name in the database that the environment names. Without one the test says that it is skipped.
    pub(crate) async fn fresh() -> Option<Arc<Self>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Ok(url) = std::env::var(VARIABLE) else {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            println!("{test}: skipped, since {VARIABLE} names no database, like postgres://user@127.0.0.1/test");
            return None;
        };
        let options = match url.parse().expect("a database URL") {
            DatabaseUrl::Postgres(options) => *options,
            _ => panic!("{VARIABLE} names another engine's database"),
        };
        let name = format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let pool = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await.expect("it answers");
        let micros = AtomicI64::new(1_767_225_600_000_000);
        Some(Arc::new(Self { pool, options, name: name.parse().expect("a name"), micros }))
    }

    /// A server of the schema.
    pub(crate) async fn open(&self) -> PostgresStore {
        PostgresStore::open(self.options.clone(), self.name.clone(), Role::Server).await.expect("opened")
    }

    /// A server or an operator's command of the schema.
    pub(crate) async fn open_as(&self, role: Role) -> Result<PostgresStore, OpenError> {
        PostgresStore::open(self.options.clone(), self.name.clone(), role).await
    }

    /// Looks at the schema.
    pub(crate) async fn examine(&self) -> Result<(), OpenError> {
        PostgresStore::examine(&self.options, &self.name).await
    }

    /// Runs a statement with the schema's name in place of every `{s}`.
    pub(crate) async fn run_in(&self, template: &str) {
        self.run(template.replace("{s}", self.name.as_str())).await;
    }

    /// A server that reaches the database through a line that can be cut.
    pub(crate) async fn open_behind(&self, line: &Line) -> PostgresStore {
        let options = self.options.clone().host("127.0.0.1").port(line.port).ssl_mode(PgSslMode::Disable);
        PostgresStore::open(options, self.name.clone(), Role::Server).await.expect("opened")
    }

    /// A line to the database.
    pub(crate) async fn line(&self) -> Line {
        Line::new(format!("{}:{}", self.options.get_host(), self.options.get_port())).await
    }

    /// Moves the schema's clock, which stands otherwise.
    pub(crate) async fn pass(&self, time: Duration) {
        let by = i64::try_from(time.as_micros()).expect("a short time");
        let now = self.micros.fetch_add(by, Ordering::SeqCst) + by;
        self.run(format!(
            "CREATE OR REPLACE FUNCTION {}.clock_us() RETURNS BIGINT LANGUAGE sql VOLATILE AS 'SELECT {now}::bigint'",
            self.name
        ))
        .await;
    }

    pub(crate) async fn run(&self, sql: String) {
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&self.pool).await.expect(&sql);
    }

    pub(crate) async fn drop(self: Arc<Self>) {
        self.run(format!("DROP SCHEMA {} CASCADE", self.name)).await;
    }

    /// A world on one server.
    pub(crate) async fn world(self: &Arc<Self>) -> World {
        self.world_of(self.open().await)
    }

    /// A world on a store of the schema.
    pub(crate) fn world_of(self: &Arc<Self>, store: PostgresStore) -> World {
        let schema = Arc::clone(self);
        let advance = move |by| {
            let schema = Arc::clone(&schema);
            let passed: futures_util::future::BoxFuture<'static, ()> = Box::pin(async move { schema.pass(by).await });
            passed
        };
        World::new(Arc::new(store), Box::new(advance), Box::new(()))
    }
}

/// A world on a new schema whose clock stands.
pub(crate) async fn world() -> Option<(World, Arc<Schema>)> {
    let schema = Schema::fresh().await?;
    let world = schema.world().await;
    schema.pass(Duration::ZERO).await;
    Some((world, schema))
}

/// Passes bytes between a server and its database.
pub(crate) struct Line {
    port: u16,
    cut: tokio::sync::watch::Sender<()>,
}

impl Line {
    async fn new(database: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (cut, cuts) = tokio::sync::watch::channel(());
        tokio::spawn(async move {
            while let Ok((mut server, _)) = listener.accept().await {
                let mut database = TcpStream::connect(&database).await.expect("it answers");
                let mut cuts = cuts.clone();
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        _ended = tokio::io::copy_bidirectional(&mut server, &mut database) => {}
                        _cut = cuts.changed() => {}
                    }
                });
            }
        });
        Self { port, cut }
    }

    /// Breaks every connection; new ones go through.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }
}
