//! Orders: the business part, in plain SQL. An order, its operation, its input and the message that dispatches it are one
//! transaction; so are an event's effect on the operation and on the order.

use std::error::Error;

use perilune::outbox::Outbox;
use perilune::outcome::{AcceptedOperation, Operations, Origin};
use perilune::proto::ResultEvent;
use perilune::proto::scalar::Name;
use perilune::sql::Engine as _;
use perilune::sql::pool::SqlitePools;
use serde::Serialize;
use sqlx::{Sqlite, Transaction};

use super::operation::{GenerateReport, ReportWanted};
use super::people::Person;
use super::platform::QUEUE;

/// Orders that a list has at the most, the newest first.
const LISTED: i64 = 20;

/// The orders' table, and what must commit with it.
#[derive(Clone)]
pub(crate) struct Orders {
    pools: SqlitePools,
    operations: Operations<Sqlite>,
    outbox: Outbox<Sqlite>,
}

/// An order in the list of whoever placed it.
#[derive(Serialize, sqlx::FromRow)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Order {
    operation_id: String,
    subject: String,
    year: i64,
    quarter: i64,
    ordered_at: String,
    /// The status that it ended with; `None` while it is under way.
    ended: Option<String>,
}

impl Orders {
    pub(crate) const fn new(pools: SqlitePools, operations: Operations<Sqlite>, outbox: Outbox<Sqlite>) -> Self {
        Self { pools, operations, outbox }
    }

    pub(crate) async fn create_table(&self) -> Result<(), sqlx::Error> {
        for statement in [
            "CREATE TABLE IF NOT EXISTS report_order (operation_id TEXT PRIMARY KEY, actor TEXT NOT NULL,
             subject TEXT NOT NULL, year INTEGER NOT NULL, quarter INTEGER NOT NULL, ordered_at TEXT NOT NULL, ended TEXT)",
            "CREATE INDEX IF NOT EXISTS report_order_actor ON report_order (actor, operation_id)",
        ] {
            sqlx::query(statement).execute(&self.pools.writer).await?;
        }
        Ok(())
    }

    /// Writes the order, its operation and the message that dispatches it: all or none.
    pub(crate) async fn place(
        &self,
        person: &Person,
        wanted: ReportWanted,
    ) -> Result<AcceptedOperation, Box<dyn Error + Send + Sync>> {
        let origin = Origin { tenant: Some(person.team.to_owned()), actor: Some(person.id.to_owned()) };
        let queue: Name = QUEUE.parse()?;
        let mut tx = self.pools.writer.begin_with(Sqlite::BEGIN_WRITE).await?;
        let accepted = self
            .operations
            .accept_and_dispatch::<GenerateReport>(&mut tx, &self.outbox, &queue, &wanted, origin)
            .await?;
        sqlx::query("INSERT INTO report_order VALUES (?, ?, ?, ?, ?, ?, NULL)")
            .bind(accepted.operation_id.to_string())
            .bind(person.id)
            .bind(wanted.subject.as_str())
            .bind(i64::from(wanted.year))
            .bind(i64::from(u8::from(wanted.quarter)))
            .bind(accepted.accepted_at.to_string())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(accepted)
    }

    /// Notes how an order ended, inside the inbox's transaction of the event. The first end stays.
    pub(crate) async fn note_end(&self, tx: &mut Transaction<'_, Sqlite>, event: &ResultEvent) -> sqlx::Result<()> {
        if event.snapshot.status.is_terminal() {
            sqlx::query("UPDATE report_order SET ended = ? WHERE operation_id = ? AND ended IS NULL")
                .bind(event.snapshot.status.as_str())
                .bind(event.task_id().to_string())
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    /// A person's newest orders.
    pub(crate) async fn of(&self, person: &Person) -> sqlx::Result<Vec<Order>> {
        // Ids begin with their time.
        let newest = "SELECT operation_id, subject, year, quarter, ordered_at, ended FROM report_order
                      WHERE actor = ? ORDER BY operation_id DESC LIMIT ?";
        sqlx::query_as(newest).bind(person.id).bind(LISTED).fetch_all(&self.pools.readers).await
    }
}
