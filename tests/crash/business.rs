//! The business tables and the transaction that is killed.

use std::sync::Arc;
use std::time::Duration;

use perilune::inbox::{BoxError, Inbox, OpenTransaction, Store};
use perilune::outbox::{Message, Outbox, OutboxStore};
use perilune::proto::ResultEvent;
use perilune::sql::{PoolSettings, TablePrefix};
use sqlx::Pool;

/// Accounts whose balances the events go to: few, so that transactions meet.
const ACCOUNTS: u128 = 5;

/// An engine on which plain SQL can be run.
pub(crate) trait Business: Store + OutboxStore {
    async fn number(pool: &Pool<Self>, sql: &str) -> Result<i64, sqlx::Error>;
    fn run(on: &mut Self::Connection, sql: String) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

macro_rules! business {
    ($Db:ty, $number:literal) => {
        impl Business for $Db {
            async fn number(pool: &Pool<Self>, sql: &str) -> Result<i64, sqlx::Error> {
                let sql = sqlx::AssertSqlSafe(format!(concat!("SELECT CAST(({}) AS ", $number, ")"), sql));
                sqlx::query_scalar(sql).fetch_one(pool).await
            }

            async fn run(on: &mut Self::Connection, sql: String) -> Result<(), sqlx::Error> {
                sqlx::query(sqlx::AssertSqlSafe(sql)).execute(on).await.map(drop)
            }
        }
    };
}

business!(sqlx::Sqlite, "INTEGER");
business!(sqlx::Postgres, "BIGINT");
business!(sqlx::MySql, "SIGNED");

/// One consumer's database. Cloning shares it.
pub(crate) struct Books<DB: Business> {
    pub(crate) inbox: Inbox<DB>,
    outbox: Outbox<DB>,
    prefix: TablePrefix,
}

impl<DB: Business> Clone for Books<DB> {
    fn clone(&self) -> Self {
        Self { inbox: self.inbox.clone(), outbox: self.outbox.clone(), prefix: self.prefix.clone() }
    }
}

impl<DB: Business> Books<DB> {
    pub(crate) async fn open(url: &str, prefix: &str) -> Result<Self, BoxError> {
        let prefix: TablePrefix = prefix.parse()?;
        let settings = PoolSettings { max_connections: 8, ..PoolSettings::default() };
        let pool = DB::open(&url.parse()?, &settings).await?;
        Ok(Self { inbox: Inbox::with_prefix(pool, "billing", &prefix)?, outbox: Outbox::with_prefix(&prefix), prefix })
    }

    /// No unique key among the business tables: a second effect would show.
    pub(crate) async fn create(&self) -> Result<(), BoxError> {
        self.inbox.migrate().await?;
        self.outbox.migrate(self.inbox.pool()).await?;
        let mut on = self.inbox.pool().acquire().await?;
        for sql in [
            "CREATE TABLE {p}effect (event_id VARCHAR(32) NOT NULL)",
            "CREATE TABLE {p}balance (account BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL)",
            "INSERT INTO {p}balance VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)",
        ] {
            DB::run(&mut on, self.sql(sql)).await?;
        }
        Ok(())
    }

    pub(crate) async fn number(&self, sql: &str) -> Result<i64, sqlx::Error> {
        DB::number(self.inbox.pool(), &self.sql(sql)).await
    }

    pub(crate) async fn drop_tables(&self) -> Result<(), sqlx::Error> {
        let mut on = self.inbox.pool().acquire().await?;
        for table in ["effect", "balance", "inbox", "inbox_pruner", "outbox", "outbox_lane", "migrations"] {
            DB::run(&mut on, self.sql(&format!("DROP TABLE IF EXISTS {{p}}{table}"))).await?;
        }
        Ok(())
    }

    fn sql(&self, template: &str) -> String {
        template.replace("{p}", self.prefix.as_str())
    }

    /// The transaction that may be killed anywhere: an effect, a balance that others update too, and a message. It takes
    /// its time (up to `pause`), as business does, so that a kill finds it open.
    pub(crate) async fn apply(
        self,
        event: Arc<ResultEvent>,
        mut tx: OpenTransaction<DB>,
        pause: Duration,
    ) -> Result<(), BoxError> {
        let account = u128::from_be_bytes(*event.task_id().as_bytes()) % ACCOUNTS;
        DB::run(&mut tx, self.sql(&format!("INSERT INTO {{p}}effect (event_id) VALUES ('{}')", event.event_id)))
            .await?;
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.0..1.0))).await;
        DB::run(&mut tx, self.sql(&format!("UPDATE {{p}}balance SET n = n + 1 WHERE account = {account}"))).await?;
        let message = Message::new("balance", event.event_id.to_string())?.in_order_of(&account.to_string())?;
        self.outbox.write(&mut tx, &message).await?;
        Ok(())
    }
}
