//! Orders and stock: the business part, in plain SQL.

use std::error::Error;

use perilune::outbox::{Message, Outbox};
use perilune::proto::scalar::{MessageId, TaskId};
use perilune::proto::{ResultEvent, Status};
use perilune::sql::Engine as _;
use serde::Deserialize;
use sqlx::{MySql, Pool, Transaction};

type AnyError = Box<dyn Error + Send + Sync>;

/// What a customer asks for.
#[derive(Deserialize)]
pub(crate) struct NewOrder {
    sku: String,
    quantity: u32,
}

/// The shop's tables.
#[derive(Clone)]
pub(crate) struct Orders {
    outbox: Outbox<MySql>,
}

impl Orders {
    pub(crate) const fn new(outbox: Outbox<MySql>) -> Self {
        Self { outbox }
    }

    pub(crate) async fn create_tables(&self, pool: &Pool<MySql>) -> Result<(), sqlx::Error> {
        for statement in [
            "CREATE TABLE IF NOT EXISTS shop_order
                (id CHAR(32) PRIMARY KEY, sku VARCHAR(64) NOT NULL, quantity BIGINT NOT NULL, state VARCHAR(64) NOT NULL)",
            "CREATE TABLE IF NOT EXISTS shop_stock (sku VARCHAR(64) PRIMARY KEY, left_over BIGINT NOT NULL)",
            "INSERT IGNORE INTO shop_stock VALUES ('mug', 100), ('kettle', 10)",
        ] {
            sqlx::query(statement).execute(pool).await?;
        }
        Ok(())
    }

    /// Writes the order and the message that asks the bank for its payment: both or none.
    pub(crate) async fn place(&self, pool: &Pool<MySql>, order: &NewOrder) -> Result<TaskId, AnyError> {
        let id = TaskId::from_u128(rand::random());
        let cents = u64::from(order.quantity) * 1_250;
        let mut tx = pool.begin_with(MySql::BEGIN_WRITE).await?;
        sqlx::query("INSERT INTO shop_order (id, sku, quantity, state) VALUES (?, ?, ?, 'placed')")
            .bind(id.to_string())
            .bind(&order.sku)
            .bind(i64::from(order.quantity))
            .execute(&mut *tx)
            .await?;
        let payment = serde_json::json!({"order": id.to_string(), "cents": cents});
        // The order's own id is the idempotency key: an order is paid once.
        let message = Message::new("payment.wanted", payment.to_string())?
            .with_id(MessageId::from_bytes(*id.as_bytes()))
            .in_order_of(&id.to_string())?;
        self.outbox.write(&mut tx, &message).await?;
        tx.commit().await?;
        Ok(id)
    }

    /// Applies how a payment went, inside the inbox's transaction of its event.
    pub(crate) async fn settle(&self, tx: &mut Transaction<'_, MySql>, event: &ResultEvent) -> Result<(), AnyError> {
        let (state, topic) = match event.snapshot.status {
            Status::Succeeded => ("paid", "order.paid"),
            status if status.is_terminal() => ("refused", "order.refused"),
            // Nothing has ended yet.
            _ => return Ok(()),
        };
        let id = event.task_id().to_string();
        let update = "UPDATE shop_order SET state = ? WHERE id = ?";
        if sqlx::query(update).bind(state).bind(&id).execute(&mut **tx).await?.rows_affected() == 0 {
            // A payment of somebody else's.
            return Ok(());
        }
        if state == "paid" {
            sqlx::query(
                "UPDATE shop_stock SET left_over = left_over - (SELECT quantity FROM shop_order WHERE id = ?)
                 WHERE sku = (SELECT sku FROM shop_order WHERE id = ?)",
            )
            .bind(&id)
            .bind(&id)
            .execute(&mut **tx)
            .await?;
        }
        let text = format!("order {id} is {state}");
        self.outbox.write(tx, &Message::new(topic, text)?.content_type("text/plain")?.in_order_of(&id)?).await?;
        Ok(())
    }

    pub(crate) async fn state(&self, pool: &Pool<MySql>, id: &str) -> Result<Option<String>, sqlx::Error> {
        sqlx::query_scalar("SELECT state FROM shop_order WHERE id = ?").bind(id).fetch_optional(pool).await
    }

    pub(crate) async fn stock(&self, pool: &Pool<MySql>) -> Result<Vec<(String, i64)>, sqlx::Error> {
        sqlx::query_as("SELECT sku, left_over FROM shop_stock ORDER BY sku").fetch_all(pool).await
    }
}
