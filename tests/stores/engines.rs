//! The engines under test, with what a test asks of each besides the port.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use perilune::inbox::{Inbox, Store};
use perilune::outbox::{Outbox, OutboxStore};
use perilune::sql::{DatabaseUrl, PoolSettings, TablePrefix};
use sqlx::Pool;

/// An engine, and the two things that tests do on it in plain SQL.
pub(crate) trait TestEngine: Store + OutboxStore {
    /// The variable that names a database; none where the test makes its own.
    const VARIABLE: Option<&'static str>;

    /// Runs statements.
    fn run(on: &mut Self::Connection, sql: &str) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// What tells whether a connection is inside a transaction: a number above 0, or (SQLite) an error of `BEGIN`.
    const IN_TRANSACTION: &'static str;

    /// Reads one number.
    fn number(on: &mut Self::Connection, sql: &str) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;
}

macro_rules! engine {
    ($Db:ty, $variable:expr, $number:literal, $in_transaction:literal) => {
        impl TestEngine for $Db {
            const VARIABLE: Option<&'static str> = $variable;
            const IN_TRANSACTION: &'static str = $in_transaction;

            async fn run(on: &mut Self::Connection, sql: &str) -> Result<u64, sqlx::Error> {
                let sql = sqlx::AssertSqlSafe(sql.to_owned());
                Ok(sqlx::raw_sql(sql).execute(on).await?.rows_affected())
            }

            async fn number(on: &mut Self::Connection, sql: &str) -> Result<i64, sqlx::Error> {
                let sql = sqlx::AssertSqlSafe(format!(concat!("SELECT CAST(({}) AS ", $number, ")"), sql));
                // By the simple protocol: on PostgreSQL the other one begins its transaction before its statement.
                sqlx::Row::try_get(&sqlx::raw_sql(sql).fetch_one(on).await?, 0)
            }
        }
    };
}

engine!(sqlx::Sqlite, None, "INTEGER", "BEGIN; ROLLBACK");
engine!(
    sqlx::Postgres,
    Some("PERILUNE_TEST_POSTGRES_URL"),
    "BIGINT",
    "CASE WHEN now() <> statement_timestamp() THEN 1 ELSE 0 END"
);
engine!(sqlx::MySql, Some("PERILUNE_TEST_MYSQL_URL"), "SIGNED", "@@in_transaction");

/// Every table that a test may have made under its prefix.
const TABLES: [&str; 15] = [
    "effect",
    "sku",
    "inbox",
    "inbox_pruner",
    "outbox",
    "outbox_lane",
    "operations",
    "operation_inputs",
    "outcomes",
    "dead_letters",
    "operation_journal",
    "operation_holds",
    "retention_audit",
    "retention_head",
    "migrations",
];

/// A database with tables of its own, dropped at the end of the test.
pub(crate) struct Site<DB: TestEngine> {
    pub(crate) pool: Pool<DB>,
    pub(crate) prefix: TablePrefix,
    pub(crate) url: String,
    pub(crate) settings: PoolSettings,
    // The folder of a SQLite file.
    _folder: Option<tempfile::TempDir>,
}

/// The turn to read MySQL's `information_schema.innodb_trx`; nothing to wait for on another engine. It shows a copy that is made anew only where nobody has read it for
/// 0.1 s, so that tests which look at it side by side would all see the past for ever.
pub(crate) async fn turn_at_innodb_trx<DB: TestEngine>() -> Option<tokio::sync::MutexGuard<'static, ()>> {
    static READER: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    if DB::NAME != "MySQL" {
        return None;
    }
    let turn = READER.lock().await;
    tokio::time::sleep(Duration::from_millis(120)).await;
    Some(turn)
}

/// Two tests never share tables, nor do two runs of one.
fn fresh_prefix() -> TablePrefix {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let text = format!("t{}_{}_", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    text.parse().expect("a prefix")
}

impl<DB: TestEngine> Site<DB> {
    /// Opens a site with the inbox's tables and two business tables; none where the engine is not at hand.
    pub(crate) async fn open(settings: PoolSettings) -> Option<Self> {
        match DB::VARIABLE {
            None => {
                let folder = tempfile::tempdir().expect("a folder");
                let site = Self::at(format!("sqlite:{}", folder.path().join("site.db").display()), settings).await;
                Some(Self { _folder: Some(folder), ..site })
            }
            Some(variable) => Some(Self::at(named(variable)?, settings).await),
        }
    }

    /// A site in the database of a URL.
    pub(crate) async fn at(url: String, settings: PoolSettings) -> Self {
        let parsed: DatabaseUrl = url.parse().expect("a database URL");
        let pool = DB::open(&parsed, &settings).await.expect("the database answers");
        let site = Self { pool, prefix: fresh_prefix(), url, settings, _folder: None };
        site.inbox("setup").migrate().await.expect("migrated");
        site.outbox().migrate(&site.pool).await.expect("migrated");
        site.run("CREATE TABLE {p}effect (tag VARCHAR(64) NOT NULL)").await;
        site.run("CREATE TABLE {p}sku (sku VARCHAR(64) NOT NULL PRIMARY KEY, n BIGINT NOT NULL)").await;
        site.run("INSERT INTO {p}sku VALUES ('a', 0), ('b', 0)").await;
        site
    }

    /// The same tables through another pool.
    pub(crate) fn on(pool: Pool<DB>, other: &Self) -> Self {
        let (prefix, url, settings) = (other.prefix.clone(), other.url.clone(), other.settings);
        Self { pool, prefix, url, settings, _folder: None }
    }

    /// Another pool on the same tables, as another process would have.
    pub(crate) async fn another_pool(&self, settings: PoolSettings) -> Pool<DB> {
        DB::open(&self.url.parse().expect("a database URL"), &settings).await.expect("the database answers")
    }

    pub(crate) fn inbox(&self, consumer: &str) -> Inbox<DB> {
        Inbox::with_prefix(self.pool.clone(), consumer, &self.prefix).expect("a consumer's name")
    }

    pub(crate) fn outbox(&self) -> Outbox<DB> {
        Outbox::with_prefix(&self.prefix)
    }

    /// A statement with `{p}` for the prefix.
    pub(crate) fn sql(&self, template: &str) -> String {
        template.replace("{p}", self.prefix.as_str())
    }

    pub(crate) async fn run(&self, template: &str) -> u64 {
        let mut on = self.pool.acquire().await.expect("a connection");
        DB::run(&mut on, &self.sql(template)).await.expect(template)
    }

    pub(crate) async fn number(&self, template: &str) -> i64 {
        let mut on = self.pool.acquire().await.expect("a connection");
        DB::number(&mut on, &self.sql(template)).await.expect(template)
    }

    /// How often the business statements of `tag` took effect.
    pub(crate) async fn effects(&self, tag: &str) -> i64 {
        self.number(&format!("SELECT COUNT(*) FROM {{p}}effect WHERE tag = '{tag}'")).await
    }

    /// Whether a connection that the pool hands out is inside somebody else's transaction.
    pub(crate) async fn is_poisoned(&self) -> bool {
        let mut on = self.pool.acquire().await.expect("a connection");
        if DB::VARIABLE.is_none() {
            DB::run(&mut on, DB::IN_TRANSACTION).await.is_err()
        } else {
            DB::number(&mut on, DB::IN_TRANSACTION).await.expect("a number") > 0
        }
    }

    /// The business statement that counts.
    pub(crate) fn effect(&self, tag: &str) -> String {
        self.sql(&format!("INSERT INTO {{p}}effect (tag) VALUES ('{tag}')"))
    }

    pub(crate) async fn close(self) {
        if DB::VARIABLE.is_some() {
            for table in TABLES {
                self.run(&format!("DROP TABLE IF EXISTS {{p}}{table}")).await;
            }
        }
        self.pool.close().await;
    }
}

fn named(variable: &str) -> Option<String> {
    if let Ok(url) = std::env::var(variable) {
        return Some(url);
    }
    assert!(std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_none(), "{variable} is not set");
    println!("skipped: {variable} is not set; `.ci/databases cargo test --all-features --test stores` runs it");
    None
}

/// Runs one guarantee on one engine.
pub(crate) fn exercise<DB: TestEngine, F: Future<Output = ()>>(guarantee: impl FnOnce(Site<DB>) -> F) {
    exercise_with(PoolSettings { max_connections: 34, ..PoolSettings::default() }, guarantee);
}

/// [`exercise`] with other limits of the pool.
pub(crate) fn exercise_with<DB: TestEngine, F: Future<Output = ()>>(
    settings: PoolSettings,
    guarantee: impl FnOnce(Site<DB>) -> F,
) {
    // A loaded machine opens connections slowly; how long that takes decides nothing here.
    let settings = PoolSettings { acquire_timeout: Duration::from_secs(60), ..settings };
    actix_rt::System::new().block_on(async {
        if let Some(site) = Site::open(settings).await {
            guarantee(site).await;
        }
    });
}

/// One test per guarantee and engine.
macro_rules! on_every_engine {
    ($($guarantee:ident),* $(,)?) => {
        $crate::engines::on_engine! { sqlite: sqlx::Sqlite, $($guarantee),* }
        $crate::engines::on_servers! { $($guarantee),* }
    };
}

/// One test per guarantee and server.
macro_rules! on_servers {
    ($($guarantee:ident),* $(,)?) => {
        $crate::engines::on_engine! { postgres: sqlx::Postgres, $($guarantee),* }
        $crate::engines::on_engine! { mysql: sqlx::MySql, $($guarantee),* }
    };
}

macro_rules! on_engine {
    ($module:ident: $Db:ty, $($guarantee:ident),*) => {
        mod $module {
            $(#[test]
            fn $guarantee() {
                crate::engines::exercise::<$Db, _>(super::$guarantee);
            })*
        }
    };
}

pub(crate) use {on_engine, on_every_engine, on_servers};
