//! Subscriptions in PostgreSQL.

use perilune_proto::scalar::SubscriptionId;
use sqlx::{Executor, Postgres};

use super::super::{
    Answer, ListSubscriptions, NewSubscription, Page, Resource, Start, StoreError, SubscriptionKey, SubscriptionRecord,
    Subscriptions, Switch, Wake, fresh,
};
use super::PostgresStore;
use super::lanes::Unit;
use super::record::{record, select_record};
use super::row::{Columns, bits, stored, texts};

const ONE: &str = select_record!("WHERE s.subscription_id = $1 AND s.credential_id = $2");
const LIST: &str =
    select_record!("WHERE s.credential_id = $2 AND s.subscription_id > $1 ORDER BY s.subscription_id LIMIT $3");
const CREATE: &str = "INSERT INTO subscription (subscription_id, credential_id, name, enabled, statuses, operations,
        room, budget, backoff_min, backoff_max, created_at, cursor)
    VALUES ($1, $2, $3, true, $4, $5, $6, $7, $8, $9, clock_us(), 0) RETURNING subscription_no";
const ADD_QUEUE: &str = "INSERT INTO subscription_queue (subscription_no, queue_id, origin) VALUES ($1, $2, 0)";
const BEGIN_AT: &str = "WITH origins AS (
        UPDATE subscription_queue sq SET origin = CASE WHEN $3 THEN q.forgotten_head ELSE 0 END
            FROM queue q WHERE q.queue_id = sq.queue_id AND sq.subscription_no = $1)
    UPDATE subscription SET cursor = $2, open = 0, expired = 0 WHERE subscription_no = $1";
const DROP_OPEN: &str = "DELETE FROM delivery WHERE subscription_no = $1 AND state < 3";
const DELETE: &str = "WITH deliveries AS (DELETE FROM delivery WHERE subscription_no = $1 AND state < 3),
        queues AS (DELETE FROM subscription_queue WHERE subscription_no = $1)
    DELETE FROM subscription WHERE subscription_no = $1";
const SWITCH: &str = "UPDATE subscription SET enabled = $2 WHERE subscription_no = $1";
const LOCK: &str =
    "SELECT subscription_no FROM subscription WHERE subscription_id = $1 AND credential_id = $2 FOR UPDATE";

impl Subscriptions for PostgresStore {
    fn create_subscription(&self, new: NewSubscription) -> Answer<'_, SubscriptionRecord> {
        self.append(move |unit| Box::pin(create(unit, new)))
    }

    fn subscriptions(&self, list: ListSubscriptions) -> Answer<'_, Page<SubscriptionRecord, SubscriptionId>> {
        self.read(move |pool| async move {
            // No id comes before the empty text.
            let after = list.after.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
            let rows = sqlx::query(LIST)
                .bind(after)
                .bind(list.credential_id.to_bytes().to_vec())
                .bind(i64::from(list.limit) + 1)
                .fetch_all(&pool)
                .await?;
            let items = rows.iter().map(|row| record(Columns(row))).collect::<Result<Vec<_>, _>>()?;
            Ok(Page::cut(items, list.limit, |record| record.subscription.subscription_id))
        })
    }

    fn subscription(&self, key: SubscriptionKey) -> Answer<'_, SubscriptionRecord> {
        self.read(move |pool| async move { shown(&pool, key).await })
    }

    fn switch_subscription(&self, key: SubscriptionKey, to: Switch) -> Answer<'_, SubscriptionRecord> {
        self.write(key.subscription_id, move |unit| Box::pin(switch(unit, key, to)))
    }

    fn seek_subscription(&self, key: SubscriptionKey, to: Start) -> Answer<'_, SubscriptionRecord> {
        self.write(key.subscription_id, move |unit| Box::pin(seek(unit, key, to)))
    }

    fn delete_subscription(&self, key: SubscriptionKey) -> Answer<'_, ()> {
        self.write(key.subscription_id, move |unit| Box::pin(delete(unit, key)))
    }
}

/// Locks a subscription that the credential may see; its number.
pub(super) async fn lock(unit: &mut Unit, key: SubscriptionKey) -> Result<i64, StoreError> {
    let found: Option<(i64,)> = sqlx::query_as(LOCK)
        .bind(key.subscription_id.as_bytes().to_vec())
        .bind(key.credential_id.to_bytes().to_vec())
        .fetch_optional(&mut unit.connection)
        .await?;
    found.map(|(number,)| number).ok_or(StoreError::NotFound(Resource::Subscription))
}

async fn shown(
    executor: impl Executor<'_, Database = Postgres>,
    key: SubscriptionKey,
) -> Result<SubscriptionRecord, StoreError> {
    let row = sqlx::query(ONE)
        .bind(key.subscription_id.as_bytes().to_vec())
        .bind(key.credential_id.to_bytes().to_vec())
        .fetch_optional(executor)
        .await?;
    record(Columns(&row.ok_or(StoreError::NotFound(Resource::Subscription))?))
}

async fn create(unit: &mut Unit, new: NewSubscription) -> Result<SubscriptionRecord, StoreError> {
    unit.locked_head().await?;
    let subscription_id = SubscriptionId::from_u128(fresh::id());
    let (number,): (i64,) = sqlx::query_as(CREATE)
        .bind(subscription_id.as_bytes().to_vec())
        .bind(new.credential_id.to_bytes().to_vec())
        .bind(new.name.into_bytes())
        .bind(bits(&new.statuses))
        .bind(texts(&new.operations))
        .bind(i64::from(new.window))
        .bind(i64::from(new.budget))
        .bind(stored(u64::try_from(new.backoff.min().as_micros()).unwrap_or(u64::MAX)))
        .bind(stored(u64::try_from(new.backoff.max().as_micros()).unwrap_or(u64::MAX)))
        .fetch_one(&mut unit.connection)
        .await?;
    for name in &new.queues {
        let queue = unit.queue(name).await?;
        sqlx::query(ADD_QUEUE).bind(number).bind(queue).execute(&mut unit.connection).await?;
    }
    begin_at(unit, number, new.start).await?;
    shown(&mut unit.connection, SubscriptionKey { credential_id: new.credential_id, subscription_id }).await
}

/// Puts the cursor where a start says. A subscription that begins at the oldest event misses none of those that
/// retention took before.
async fn begin_at(unit: &mut Unit, number: i64, start: Start) -> Result<(), StoreError> {
    let cursor = match start {
        Start::Latest => unit.committed_head().await?,
        Start::Earliest => 0,
        Start::Sequence(from) => from.0.saturating_sub(1),
    };
    let from_oldest = start == Start::Earliest;
    sqlx::query(BEGIN_AT).bind(number).bind(stored(cursor)).bind(from_oldest).execute(&mut unit.connection).await?;
    Ok(())
}

async fn switch(unit: &mut Unit, key: SubscriptionKey, to: Switch) -> Result<SubscriptionRecord, StoreError> {
    let number = lock(unit, key).await?;
    sqlx::query(SWITCH).bind(number).bind(to == Switch::Resume).execute(&mut unit.connection).await?;
    unit.wakes.insert(match to {
        Switch::Resume => Wake::Subscription(key.subscription_id),
        Switch::Pause => Wake::Stopped(key.subscription_id),
    });
    shown(&mut unit.connection, key).await
}

async fn seek(unit: &mut Unit, key: SubscriptionKey, to: Start) -> Result<SubscriptionRecord, StoreError> {
    let number = lock(unit, key).await?;
    sqlx::query(DROP_OPEN).bind(number).execute(&mut unit.connection).await?;
    begin_at(unit, number, to).await?;
    unit.wakes.insert(Wake::Subscription(key.subscription_id));
    shown(&mut unit.connection, key).await
}

async fn delete(unit: &mut Unit, key: SubscriptionKey) -> Result<(), StoreError> {
    let number = lock(unit, key).await?;
    sqlx::query(DELETE).bind(number).execute(&mut unit.connection).await?;
    unit.wakes.insert(Wake::Stopped(key.subscription_id));
    Ok(())
}
