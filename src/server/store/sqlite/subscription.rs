//! Subscriptions in SQLite.

use std::collections::BTreeSet;

use perilune_proto::scalar::{Name, SubscriptionId};
use sqlx::{Executor, Sqlite};

use super::super::{
    Answer, ListSubscriptions, NewSubscription, Page, Resource, Start, StoreError, SubscriptionKey, SubscriptionRecord,
    Subscriptions, Switch, Wake, fresh,
};
use super::record::{record, select_record};
use super::row::{Columns, bits, joined, micros, stored};
use super::writer::Unit;
use super::{SqliteStore, Times};

pub(super) const ONE: &str = select_record!("WHERE s.subscription_id = ?2 AND s.credential_id = ?3");
pub(super) const LIST: &str =
    select_record!("WHERE s.credential_id = ?3 AND s.subscription_id > ?2 ORDER BY s.subscription_id LIMIT ?4");
pub(super) const CREATE: &str =
    "INSERT INTO subscription (subscription_id, credential_id, name, enabled, statuses, operations,
        room, budget, backoff_min, backoff_max, created_at, cursor)
    VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0) RETURNING subscription_no";
pub(super) const ADD_QUEUE: &str =
    "INSERT INTO subscription_queue (subscription_no, queue_id, origin) VALUES (?1, ?2, 0)";
pub(super) const BEGIN_AT: &str = "SAVEPOINT question;
    UPDATE subscription SET cursor = ?2, open = 0, expired = 0 WHERE subscription_no = ?1;
    UPDATE subscription_queue SET origin = CASE ?3
            WHEN 1 THEN (SELECT q.forgotten_head FROM queue q WHERE q.queue_id = subscription_queue.queue_id)
            ELSE 0 END
        WHERE subscription_no = ?1;
    RELEASE question";
pub(super) const DROP_OPEN: &str = "DELETE FROM delivery WHERE subscription_no = ?1 AND state < 3";
pub(super) const DELETE: &str = "SAVEPOINT question;
    DELETE FROM delivery WHERE subscription_no = ?1 AND state < 3;
    DELETE FROM subscription_queue WHERE subscription_no = ?1;
    DELETE FROM subscription WHERE subscription_no = ?1;
    RELEASE question";
pub(super) const SWITCH: &str = "UPDATE subscription SET enabled = ?2 WHERE subscription_no = ?1";
pub(super) const NUMBER: &str =
    "SELECT subscription_no FROM subscription WHERE subscription_id = ?1 AND credential_id = ?2";

impl Subscriptions for SqliteStore {
    fn create_subscription(&self, new: NewSubscription) -> Answer<'_, SubscriptionRecord> {
        self.write(move |unit| Box::pin(create(unit, new)))
    }

    fn subscriptions(&self, list: ListSubscriptions) -> Answer<'_, Page<SubscriptionRecord, SubscriptionId>> {
        Box::pin(async move {
            let (pool, times) = self.reader()?;
            // No id comes before the empty text.
            let after = list.after.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
            let rows = sqlx::query(LIST)
                .bind(micros(times.now))
                .bind(after)
                .bind(list.credential_id.to_bytes().to_vec())
                .bind(i64::from(list.limit) + 1)
                .fetch_all(pool)
                .await?;
            let items = rows.iter().map(|row| record(Columns(row))).collect::<Result<Vec<_>, _>>()?;
            Ok(Page::cut(items, list.limit, |record| record.subscription.subscription_id))
        })
    }

    fn subscription(&self, key: SubscriptionKey) -> Answer<'_, SubscriptionRecord> {
        Box::pin(async move {
            let (pool, times) = self.reader()?;
            shown(pool, key, times).await
        })
    }

    fn switch_subscription(&self, key: SubscriptionKey, to: Switch) -> Answer<'_, SubscriptionRecord> {
        self.write(move |unit| Box::pin(switch(unit, key, to)))
    }

    fn seek_subscription(&self, key: SubscriptionKey, to: Start) -> Answer<'_, SubscriptionRecord> {
        self.write(move |unit| Box::pin(seek(unit, key, to)))
    }

    fn delete_subscription(&self, key: SubscriptionKey) -> Answer<'_, ()> {
        self.write(move |unit| Box::pin(delete(unit, key)))
    }
}

/// The number of a subscription that the credential may see.
pub(super) async fn number(unit: &mut Unit, key: SubscriptionKey) -> Result<i64, StoreError> {
    let found: Option<(i64,)> = sqlx::query_as(NUMBER)
        .bind(key.subscription_id.as_bytes().to_vec())
        .bind(key.credential_id.to_bytes().to_vec())
        .fetch_optional(&mut unit.connection)
        .await?;
    found.map(|(number,)| number).ok_or(StoreError::NotFound(Resource::Subscription))
}

async fn shown(
    executor: impl Executor<'_, Database = Sqlite>,
    key: SubscriptionKey,
    times: Times,
) -> Result<SubscriptionRecord, StoreError> {
    let row = sqlx::query(ONE)
        .bind(micros(times.now))
        .bind(key.subscription_id.as_bytes().to_vec())
        .bind(key.credential_id.to_bytes().to_vec())
        .fetch_optional(executor)
        .await?;
    record(Columns(&row.ok_or(StoreError::NotFound(Resource::Subscription))?))
}

async fn create(unit: &mut Unit, new: NewSubscription) -> Result<SubscriptionRecord, StoreError> {
    unit.guard().await?;
    let subscription_id = SubscriptionId::from_u128(fresh::id());
    let (number,): (i64,) = sqlx::query_as(CREATE)
        .bind(subscription_id.as_bytes().to_vec())
        .bind(new.credential_id.to_bytes().to_vec())
        .bind(new.name)
        .bind(bits(&new.statuses))
        .bind(joined(&new.operations))
        .bind(i64::from(new.window))
        .bind(i64::from(new.budget))
        .bind(stored(u64::try_from(new.backoff.min().as_micros()).unwrap_or(u64::MAX)))
        .bind(stored(u64::try_from(new.backoff.max().as_micros()).unwrap_or(u64::MAX)))
        .bind(micros(unit.times.wall))
        .fetch_one(&mut unit.connection)
        .await?;
    read_queues(unit, number, &new.queues).await?;
    begin_at(unit, number, new.start).await?;
    let key = SubscriptionKey { credential_id: new.credential_id, subscription_id };
    shown(&mut unit.connection, key, unit.times).await
}

async fn read_queues(unit: &mut Unit, number: i64, queues: &BTreeSet<Name>) -> Result<(), StoreError> {
    for name in queues {
        let queue = unit.queue(name).await?;
        sqlx::query(ADD_QUEUE).bind(number).bind(queue.id).execute(&mut unit.connection).await?;
    }
    Ok(())
}

/// Puts the cursor where a start says. A subscription that begins at the oldest event misses none of those that
/// retention took before.
async fn begin_at(unit: &mut Unit, number: i64, start: Start) -> Result<(), StoreError> {
    let (cursor, from_oldest) = match start {
        Start::Latest => (unit.log().await?.head, 0),
        Start::Earliest => (0, 1),
        Start::Sequence(from) => (from.0.saturating_sub(1), 0),
    };
    unit.write(sqlx::query(BEGIN_AT).bind(number).bind(stored(cursor)).bind(from_oldest)).await
}

async fn switch(unit: &mut Unit, key: SubscriptionKey, to: Switch) -> Result<SubscriptionRecord, StoreError> {
    let number = number(unit, key).await?;
    unit.guard().await?;
    sqlx::query(SWITCH).bind(number).bind(i64::from(to == Switch::Resume)).execute(&mut unit.connection).await?;
    unit.wakes.insert(match to {
        Switch::Resume => Wake::Subscription(key.subscription_id),
        Switch::Pause => Wake::Stopped(key.subscription_id),
    });
    shown(&mut unit.connection, key, unit.times).await
}

async fn seek(unit: &mut Unit, key: SubscriptionKey, to: Start) -> Result<SubscriptionRecord, StoreError> {
    let number = number(unit, key).await?;
    unit.guard().await?;
    sqlx::query(DROP_OPEN).bind(number).execute(&mut unit.connection).await?;
    begin_at(unit, number, to).await?;
    unit.wakes.insert(Wake::Subscription(key.subscription_id));
    shown(&mut unit.connection, key, unit.times).await
}

async fn delete(unit: &mut Unit, key: SubscriptionKey) -> Result<(), StoreError> {
    let number = number(unit, key).await?;
    unit.write(sqlx::query(DELETE).bind(number)).await?;
    unit.wakes.insert(Wake::Stopped(key.subscription_id));
    Ok(())
}
