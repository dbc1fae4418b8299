//! The business tables and the transaction that is killed.

use perilune::inbox::{Inbox, OpenTransaction, Store};
use perilune::outbox::{Message, Outbox, OutboxStore};
use perilune::sql::{PoolSettings, TablePrefix};
use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::{RawJson, ResultEvent, Snapshot, Status};
use sqlx::Pool;

/// An engine on which plain SQL can be run.
pub(crate) trait Business: Store + OutboxStore {
    async fn run(on: &mut Self::Connection, sql: &str) -> Result<(), sqlx::Error>;
    async fn number(pool: &Pool<Self>, sql: &str) -> Result<i64, sqlx::Error>;
    async fn numbers(pool: &Pool<Self>, sql: &str) -> Result<Vec<i64>, sqlx::Error>;
    fn statement(on: &mut Self::Connection, sql: String) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

macro_rules! business {
    ($Db:ty, $number:literal) => {
        impl Business for $Db {
            async fn run(on: &mut Self::Connection, sql: &str) -> Result<(), sqlx::Error> {
                Self::statement(on, sql.to_owned()).await
            }

            async fn number(pool: &Pool<Self>, sql: &str) -> Result<i64, sqlx::Error> {
                let sql = sqlx::AssertSqlSafe(format!(concat!("SELECT CAST(({}) AS ", $number, ")"), sql));
                sqlx::query_scalar(sql).fetch_one(pool).await
            }

            async fn numbers(pool: &Pool<Self>, sql: &str) -> Result<Vec<i64>, sqlx::Error> {
                sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned())).fetch_all(pool).await
            }

            async fn statement(on: &mut Self::Connection, sql: String) -> Result<(), sqlx::Error> {
                sqlx::query(sqlx::AssertSqlSafe(sql)).execute(on).await.map(drop)
            }
        }
    };
}

business!(sqlx::Sqlite, "INTEGER");
business!(sqlx::Postgres, "BIGINT");
business!(sqlx::MySql, "SIGNED");

/// The `n`th event of the run.
pub(crate) fn event(n: u64) -> ResultEvent {
    let at = "2026-01-02T03:04:05Z".parse().expect("a time");
    ResultEvent {
        event_id: EventId::from_u128(n.into()),
        sequence: Sequence(n),
        occurred_at: at,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(n.into()),
            queue: "reports".parse().expect("a name"),
            operation: "GenerateReport".parse().expect("a name"),
            status: Status::Succeeded,
            version: TaskVersion(1),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: RawJson::null(),
            error: None,
        },
    }
}

/// One consumer's database.
pub(crate) struct Books<DB: Business> {
    pub(crate) inbox: Inbox<DB>,
    outbox: Outbox<DB>,
    prefix: TablePrefix,
}

impl<DB: Business> Books<DB> {
    pub(crate) async fn open(url: &str, prefix: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let prefix: TablePrefix = prefix.parse()?;
        let settings = PoolSettings { max_connections: 8, ..PoolSettings::default() };
        let pool = DB::open(&url.parse()?, &settings).await?;
        Ok(Self { inbox: Inbox::with_prefix(pool, "billing", &prefix)?, outbox: Outbox::with_prefix(&prefix), prefix })
    }

    pub(crate) async fn create(&self) -> Result<(), Box<dyn std::error::Error>> {
        self.inbox.migrate().await?;
        self.outbox.migrate(self.inbox.pool()).await?;
        let mut on = self.inbox.pool().acquire().await?;
        for sql in [
            "CREATE TABLE {p}effect (event BIGINT NOT NULL)",
            "CREATE TABLE {p}balance (account BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL)",
            "INSERT INTO {p}balance VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)",
        ] {
            DB::run(&mut on, &self.sql(sql)).await?;
        }
        Ok(())
    }

    pub(crate) async fn number(&self, sql: &str) -> Result<i64, sqlx::Error> {
        DB::number(self.inbox.pool(), &self.sql(sql)).await
    }

    /// The events that have exactly one effect.
    pub(crate) async fn applied(&self) -> Result<Vec<i64>, sqlx::Error> {
        let sql = "SELECT event FROM {p}effect GROUP BY event HAVING COUNT(*) = 1";
        DB::numbers(self.inbox.pool(), &self.sql(sql)).await
    }

    pub(crate) async fn drop_tables(&self) -> Result<(), sqlx::Error> {
        let mut on = self.inbox.pool().acquire().await?;
        for table in ["effect", "balance", "inbox", "inbox_pruner", "outbox", "outbox_lane", "migrations"] {
            DB::run(&mut on, &self.sql(&format!("DROP TABLE IF EXISTS {{p}}{table}"))).await?;
        }
        Ok(())
    }

    fn sql(&self, template: &str) -> String {
        template.replace("{p}", self.prefix.as_str())
    }

    /// The transaction that may be killed anywhere: an effect, a balance that others update too, and a message.
    pub(crate) async fn apply(&self, n: u64) -> bool {
        let account = n % 5;
        let effect = self.sql(&format!("INSERT INTO {{p}}effect (event) VALUES ({n})"));
        let balance = self.sql(&format!("UPDATE {{p}}balance SET n = n + 1 WHERE account = {account}"));
        let outbox = self.outbox.clone();
        let work = move |mut tx: OpenTransaction<DB>| {
            let (effect, balance, outbox) = (effect.clone(), balance.clone(), outbox.clone());
            async move {
                DB::statement(&mut tx, effect).await?;
                DB::statement(&mut tx, balance).await?;
                let message = Message::new("balance", n.to_string())?.in_order_of(&account.to_string())?;
                outbox.write(&mut tx, &message).await?;
                Ok::<_, perilune::inbox::BoxError>(())
            }
        };
        match self.inbox.apply_once(&event(n), work).await {
            Ok(_) => true,
            Err(error) => {
                eprintln!("event {n}: {error}");
                false
            }
        }
    }
}
