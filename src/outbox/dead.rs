//! Dead letters: messages that were given up, until an operator sends them again or throws them away.

use std::time::{Duration, SystemTime};

use perilune_proto::scalar::MessageId;
use sqlx::Pool;

use super::store::{Lane, OutboxStore};
use super::{Outbox, OutboxError};
use crate::sql::Writer;

/// Most dead letters of one page.
pub const PAGE_MAX: u32 = 1_000;

/// A message that was given up. Its body stays in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its row, for [`Outbox::requeue`] and [`Outbox::discard`], and as the next page's `after`.
    pub row: i64,
    /// The idempotency key; none where somebody has edited the row to what is none (its failure is `MALFORMED`).
    pub id: Option<MessageId>,
    /// What it is about.
    pub topic: String,
    /// What it was in order with. Later messages of that key have gone on.
    pub order_key: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was written, by the database's clock.
    pub created_at: SystemTime,
    /// The last failure's code.
    pub failure: Option<String>,
}

impl<DB: OutboxStore> Outbox<DB> {
    /// Dead letters behind `after` (0 for the first page), the oldest first, at most `limit` and at most [`PAGE_MAX`].
    ///
    /// # Errors
    /// [`OutboxError`].
    pub async fn dead_letters(&self, pool: &Pool<DB>, after: i64, limit: u32) -> Result<Vec<DeadLetter>, OutboxError> {
        let (sql, pool) = (self.sql.clone(), pool.clone());
        let writer = Writer::new(pool.clone())?;
        let rows = writer.in_task(async move {
            let mut on = pool.acquire().await?;
            Ok(DB::dead(&mut on, &sql, after, limit.min(PAGE_MAX)).await?)
        });
        let letter =
            |(row, id, topic, order_key, attempts, created, failure): (i64, String, _, _, i32, i64, _)| DeadLetter {
                row,
                id: id.parse().ok(),
                topic,
                order_key,
                attempts: attempts.cast_unsigned(),
                created_at: SystemTime::UNIX_EPOCH + Duration::from_micros(created.max(0).cast_unsigned()),
                failure,
            };
        Ok(rows.await?.into_iter().map(letter).collect())
    }

    /// Makes a dead letter a message again, with a fresh count of attempts. Of its order key it goes next, since it is
    /// the oldest, and behind what has been sent meanwhile. False where it is not dead any more.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub async fn requeue(&self, pool: &Pool<DB>, row: i64) -> Result<bool, OutboxError> {
        let this = self.clone();
        let writer = Writer::new(pool.clone())?;
        let line = writer.clone();
        let task = async move {
            line.transaction(async |on| {
                match DB::dead_key(on, &this.sql, row).await? {
                    None => Ok(false),
                    Some(None) => Ok(DB::on_dead(on, &this.sql.0.requeue_unkeyed, row).await?),
                    Some(Some(key)) => {
                        DB::lock_lane(on, &this.sql, Lane::of(&this.prefix, &key)).await?;
                        let requeued = DB::on_dead(on, &this.sql.0.requeue, row).await?;
                        // Only where none of its key is ready.
                        this.promote_head(on, &key).await?;
                        Ok(requeued)
                    }
                }
            })
            .await
        };
        Ok(writer.in_task(task).await?)
    }

    /// Throws a dead letter away. False where it is not dead any more.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub async fn discard(&self, pool: &Pool<DB>, row: i64) -> Result<bool, OutboxError> {
        let sql = self.sql.clone();
        let writer = Writer::new(pool.clone())?;
        let line = writer.clone();
        let task = async move { line.transaction(async |on| Ok(DB::on_dead(on, &sql.0.discard, row).await?)).await };
        Ok(writer.in_task(task).await?)
    }
}
