//! Sessions and deliveries in SQLite.

use perilune_proto::scalar::{DeliveryId, EventId, Generation, Sequence, TaskId, TaskVersion};
use sqlx::SqlitePool;

use super::super::bounds::LISTED_MAX;
use super::super::frozen::timestamp;
use super::super::{
    AddBudget, Answer, Confirmation, Confirmed, Deliveries, DeliveryRecord, DeliveryState, EventBrief, LeaseRequest,
    Leases, ListDeliveries, Page, Resource, Scope, SessionRequest, Standing, StoreError, SubscriptionKey, Wake,
};
use super::confirm::{CONFIRMED, EXPIRED, confirm};
use super::credential::principal;
use super::lease::lease;
use super::record::{select_record, settings};
use super::row::{Columns, micros};
use super::subscription::number;
use super::writer::Unit;
use super::{SqliteStore, Times};

pub(super) const SETTINGS: &str = select_record!("WHERE s.subscription_id = ?2 AND s.credential_id = ?3");
pub(super) const GAP: &str = "SELECT EXISTS (SELECT 1
    FROM subscription s JOIN subscription_queue sq USING (subscription_no) JOIN queue q USING (queue_id)
    WHERE s.subscription_id = ?1 AND q.forgotten_head > max(s.cursor, sq.origin))";

/// A delivery with the state that it is in, swept or not; `?1` is the steady time.
macro_rules! select_delivery {
    ($index:literal, $rest:literal) => {
        concat!(
            "SELECT d.delivery_id, d.event_id, d.sequence, d.generation, d.budget, d.due_at,
                CASE WHEN d.state = 1 AND d.due_at <= ?1 THEN iif(d.generation < d.budget, 0, 2) ELSE d.state END AS now,
                e.status, e.task_id, e.task_version
             FROM delivery d ",
            $index,
            " LEFT JOIN event e ON e.sequence = d.sequence
             WHERE d.subscription_no = ",
            $rest
        )
    };
}
pub(super) const LIST: &str = select_delivery!(
    "INDEXED BY delivery_open",
    "(SELECT s.subscription_no FROM subscription s WHERE s.subscription_id = ?2 AND s.credential_id = ?3)
        AND d.state < 3 AND d.delivery_id > ?4 AND (?5 >> now) & 1
     ORDER BY d.delivery_id LIMIT ?6"
);
/// As `LIST`, with acknowledged ones, up to the id `?7`.
pub(super) const LIST_KEPT: &str = select_delivery!(
    "",
    "(SELECT s.subscription_no FROM subscription s WHERE s.subscription_id = ?2 AND s.credential_id = ?3)
        AND d.delivery_id > ?4 AND d.delivery_id <= ?7 AND (?5 >> now) & 1
     ORDER BY d.delivery_id LIMIT ?6"
);
/// The last id that a page looks at.
pub(super) const REACH: &str = "SELECT delivery_id FROM delivery WHERE delivery_id > ?1
    ORDER BY delivery_id LIMIT 1 OFFSET ?2";
pub(super) const ONE: &str = select_delivery!("INDEXED BY delivery_open", "?2 AND d.state < 3 AND d.delivery_id = ?3");
pub(super) const KNOWN: &str = "SELECT 1 FROM subscription WHERE subscription_id = ?1 AND credential_id = ?2";
pub(super) const ADD_ONE: &str = "SAVEPOINT question;
    UPDATE delivery SET state = 0, due_at = ?2, budget = generation + ?3 WHERE delivery_id = ?1;
    UPDATE subscription SET expired = expired - 1 WHERE subscription_no = ?4;
    RELEASE question";
pub(super) const ADD_ALL: &str = "UPDATE delivery SET state = 0, due_at = ?2, budget = generation + ?3
    WHERE subscription_no = ?1 AND state = 2 AND state < 3";
pub(super) const NONE_EXPIRED: &str = "UPDATE subscription SET expired = 0 WHERE subscription_no = ?1";

impl Deliveries for SqliteStore {
    fn standing(&self, request: SessionRequest) -> Answer<'_, Standing> {
        Box::pin(async move {
            let (pool, times) = self.reader()?;
            let mut connection = pool.acquire().await?;
            let Some(principal) = principal(&mut connection, request.presented, times).await? else {
                return Ok(Standing::Unauthenticated);
            };
            if !principal.scopes.contains(Scope::Consume) {
                return Ok(Standing::PermissionDenied);
            }
            let id = request.subscription_id.as_bytes().to_vec();
            let found = sqlx::query(SETTINGS).bind(micros(times.now)).bind(id.clone());
            let found = found.bind(principal.credential_id.to_bytes().to_vec()).fetch_optional(&mut *connection);
            let Some(row) = found.await? else { return Ok(Standing::NotFound) };
            let (gap,): (bool,) = sqlx::query_as(GAP).bind(id).fetch_one(&mut *connection).await?;
            Ok(if gap { Standing::HistoryGap } else { Standing::Active(Box::new(settings(Columns(&row))?)) })
        })
    }

    fn lease(&self, request: LeaseRequest) -> Answer<'_, Leases> {
        self.write(move |unit| Box::pin(lease(unit, request)))
    }

    fn confirm(&self, confirmation: Confirmation) -> Answer<'_, Confirmed> {
        self.write(move |unit| Box::pin(confirm(unit, confirmation)))
    }

    fn deliveries(&self, list: ListDeliveries) -> Answer<'_, Page<DeliveryRecord, DeliveryId>> {
        Box::pin(page(self, list))
    }

    fn add_budget(&self, add: AddBudget) -> Answer<'_, DeliveryRecord> {
        self.write(move |unit| Box::pin(add_one(unit, add)))
    }

    fn add_budget_to_expired(&self, key: SubscriptionKey, add: u32) -> Answer<'_, u64> {
        self.write(move |unit| Box::pin(add_all(unit, key, add)))
    }
}

async fn page(store: &SqliteStore, list: ListDeliveries) -> Result<Page<DeliveryRecord, DeliveryId>, StoreError> {
    let (pool, times) = store.reader()?;
    let subscription = list.key.subscription_id.as_bytes().to_vec();
    let credential = list.key.credential_id.to_bytes().to_vec();
    let known = sqlx::query(KNOWN).bind(subscription.clone()).bind(credential.clone());
    known.fetch_optional(pool).await?.ok_or(StoreError::NotFound(Resource::Subscription))?;
    let states = list.states.iter().fold(0_i64, |bits, state| bits | 1 << code(*state));
    let after = list.after.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
    let kept = list.states.contains(&DeliveryState::Acknowledged);
    let reach = if kept { reach(pool, &after).await? } else { None };
    let query = sqlx::query(if kept { LIST_KEPT } else { LIST })
        .bind(micros(times.now))
        .bind(subscription)
        .bind(credential)
        .bind(after)
        .bind(if states == 0 { i64::MAX } else { states })
        .bind(i64::from(list.limit) + 1);
    let query =
        if kept { query.bind(reach.unwrap_or(DeliveryId::from_bytes([0xff; 16])).as_bytes().to_vec()) } else { query };
    let rows = query.fetch_all(pool).await?;
    let items = rows.iter().map(|row| record(Columns(row))).collect::<Result<Vec<_>, _>>()?;
    let mut page = Page::cut(items, list.limit, |record| record.delivery_id);
    // What lies beyond has not been looked at.
    page.next = page.next.or(reach);
    Ok(page)
}

/// The last id that a page looks at; none where it reaches the end.
async fn reach(pool: &SqlitePool, after: &[u8]) -> Result<Option<DeliveryId>, StoreError> {
    let query = sqlx::query(REACH).bind(after.to_vec()).bind(i64::from(LISTED_MAX) - 1);
    let row = query.fetch_optional(pool).await?;
    row.map(|row| Columns(&row).id(0).map(DeliveryId::from_bytes)).transpose()
}

async fn add_one(unit: &mut Unit, add: AddBudget) -> Result<DeliveryRecord, StoreError> {
    let number = number(unit, add.key).await?;
    unit.guard().await?;
    unit.lapse_one(number).await?;
    if one(unit, number, add.delivery_id).await?.state != DeliveryState::Expired {
        return Err(StoreError::NotExpired);
    }
    let Times { now, .. } = unit.times;
    let text = sqlx::query(ADD_ONE).bind(add.delivery_id.as_bytes().to_vec()).bind(micros(now));
    unit.write(text.bind(i64::from(add.add)).bind(number)).await?;
    unit.wakes.insert(Wake::Subscription(add.key.subscription_id));
    one(unit, number, add.delivery_id).await
}

async fn add_all(unit: &mut Unit, key: SubscriptionKey, add: u32) -> Result<u64, StoreError> {
    let number = number(unit, key).await?;
    unit.guard().await?;
    unit.lapse_one(number).await?;
    let all = sqlx::query(ADD_ALL).bind(number).bind(micros(unit.times.now)).bind(i64::from(add));
    let given = all.execute(&mut unit.connection).await?.rows_affected();
    sqlx::query(NONE_EXPIRED).bind(number).execute(&mut unit.connection).await?;
    unit.wakes.insert(Wake::Subscription(key.subscription_id));
    Ok(given)
}

async fn one(unit: &mut Unit, number: i64, delivery_id: DeliveryId) -> Result<DeliveryRecord, StoreError> {
    let query = sqlx::query(ONE).bind(micros(unit.times.now)).bind(number).bind(delivery_id.as_bytes().to_vec());
    let row = query.fetch_optional(&mut unit.connection).await?;
    record(Columns(&row.ok_or(StoreError::NotFound(Resource::Delivery))?))
}

const fn code(state: DeliveryState) -> i64 {
    match state {
        DeliveryState::Ready => 0,
        DeliveryState::Leased => 1,
        DeliveryState::Expired => EXPIRED,
        DeliveryState::Acknowledged => CONFIRMED,
    }
}

fn brief(row: Columns<'_>) -> Result<EventBrief, StoreError> {
    Ok(EventBrief {
        status: row.status(7)?,
        task_id: TaskId::from_bytes(row.id(8)?),
        task_version: TaskVersion(row.count(9)?),
    })
}

fn record(row: Columns<'_>) -> Result<DeliveryRecord, StoreError> {
    let place = row.integer(6)?;
    let state = DeliveryState::ALL.into_iter().find(|state| code(*state) == place);
    Ok(DeliveryRecord {
        delivery_id: DeliveryId::from_bytes(row.id(0)?),
        event_id: EventId::from_bytes(row.id(1)?),
        sequence: Sequence(row.count(2)?),
        event: if row.is_null(7)? { None } else { Some(brief(row)?) },
        state: state.ok_or(StoreError::Damaged("a delivery's state is none"))?,
        generation: Generation(row.count(3)?),
        budget: row.count(4)?,
        due_at: timestamp(row.moment(5)?),
    })
}
