//! What an operator asks of an inbox: the face of `perilune inbox show | prune | reconcile`.
//!
//! | command | call |
//! | --- | --- |
//! | `show` | [`summary`]`(&Inbox<DB>, &PruningPolicy) -> Summary`, [`page`]`(&Inbox<DB>, after: Option<EventId>, limit: u32) -> Vec<InboxRow>` |
//! | `prune` | [`Inbox::prune`]`(&PruningPolicy) -> Pruned` |
//! | `reconcile` | [`reconcile`]`(&Inbox<DB>, &[Delivered], Mend) -> Vec<Finding>`, a batch at a time; [`unsettled`]`(&Inbox<DB>, after, limit) -> Vec<InboxRow>` for the other direction |
//!
//! All are generic over the engine; [`crate::sql::DatabaseUrl::engine`] tells which one a URL needs.
//!
//! `reconcile` takes what the server says, delivery by delivery, and names every row that says something else. A row
//! that the server does not mention is not its business: page through [`unsettled`] rows and ask the server for each.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use perilune_proto::scalar::EventId;

use super::fingerprint::{Fingerprint, Stored};
use super::prune::PruningPolicy;
use super::store::{Store, StoredRow};
use super::{Inbox, Inner};
use crate::sql::SqlError;

/// Most rows or deliveries of one call.
pub const PAGE_MAX: u32 = 1_000;

/// A row of the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRow {
    /// The event.
    pub event_id: EventId,
    /// Its type, task and task version; none where somebody has edited the row to what is no fingerprint.
    pub fingerprint: Option<Fingerprint>,
    /// When its transaction wrote it, by the database's clock.
    pub received_at: SystemTime,
    /// When its acknowledgement was noted, by the database's clock.
    pub settled_at: Option<SystemTime>,
}

/// An inbox in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Rows of this consumer.
    pub rows: u64,
    /// Those whose events are acknowledged.
    pub settled: u64,
    /// Those that the policy would delete now.
    pub prunable: u64,
}

/// Counts the rows. Reads every row of the consumer: seconds on ten million.
///
/// # Errors
/// [`SqlError`].
pub async fn summary<DB: Store>(inbox: &Inbox<DB>, policy: &PruningPolicy) -> Result<Summary, SqlError> {
    let age_us = i64::try_from(policy.retention().as_micros()).unwrap_or(i64::MAX);
    let counted = inbox.in_task(move |inner| async move {
        let mut on = inner.writer.pool().acquire().await?;
        Ok(DB::count(&mut on, &inner.sql, inner.consumer.as_str(), age_us).await?)
    });
    let (rows, settled, prunable) = counted.await?;
    Ok(Summary { rows: rows.cast_unsigned(), settled: settled.cast_unsigned(), prunable: prunable.cast_unsigned() })
}

/// The rows behind `after` in the order of their ids, at most `limit` (and at most [`PAGE_MAX`]).
///
/// # Errors
/// [`SqlError`].
pub async fn page<DB: Store>(inbox: &Inbox<DB>, after: Option<EventId>, limit: u32) -> Result<Vec<InboxRow>, SqlError> {
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    inbox.in_task(move |inner| async move { read_page(&inner, &after, limit).await }).await
}

/// As [`page`], rows of unacknowledged events only. An empty answer with rows left behind is not possible: it reads on
/// until it has `limit` or the inbox ends.
///
/// # Errors
/// [`SqlError`].
pub async fn unsettled<DB: Store>(
    inbox: &Inbox<DB>,
    after: Option<EventId>,
    limit: u32,
) -> Result<Vec<InboxRow>, SqlError> {
    let limit = limit.min(PAGE_MAX) as usize;
    let mut after = after.map(|id| id.to_string()).unwrap_or_default();
    inbox
        .in_task(move |inner| async move {
            let mut found = Vec::new();
            loop {
                let rows = read_page(&inner, &after, PAGE_MAX).await?;
                let Some(last) = rows.last() else { return Ok(found) };
                after = last.event_id.to_string();
                found.extend(rows.into_iter().filter(|row| row.settled_at.is_none()));
                if found.len() >= limit {
                    found.truncate(limit);
                    return Ok(found);
                }
            }
        })
        .await
}

async fn read_page<DB: Store>(inner: &Inner<DB>, after: &str, limit: u32) -> Result<Vec<InboxRow>, SqlError> {
    let mut on = inner.writer.pool().acquire().await?;
    let rows = DB::page(&mut on, &inner.sql, inner.consumer.as_str(), after, limit.min(PAGE_MAX)).await?;
    Ok(rows.into_iter().filter_map(row).collect())
}

/// What the server says of an event and this subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The event.
    pub event_id: EventId,
    /// Its fingerprint, where the server's answer tells it.
    pub fingerprint: Option<Fingerprint>,
    /// Whether its delivery is confirmed.
    pub state: DeliveryState,
}

/// Whether the server has an event's delivery as confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// Confirmed: the event is delivered no more.
    Acknowledged,
    /// Ready, leased or EXPIRED: the event may still come.
    Open,
}

/// Whether [`reconcile`] may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mend {
    /// Only look.
    Nothing,
    /// Mark rows as settled that the server has as acknowledged.
    Settled,
}

/// A contradiction between server and inbox, or a row that learned late of its acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Acknowledged, and not in the inbox: it was acknowledged past the inbox, or its row was pruned.
    Absent(EventId),
    /// In the inbox, and not acknowledged: it comes again and will be a duplicate. Normal for a moment.
    Unacknowledged(EventId),
    /// In the inbox as another event: type, task or version differ.
    Different {
        /// The event.
        event_id: EventId,
        /// What the inbox has; none where it is no fingerprint.
        stored: Option<Fingerprint>,
        /// What the server has.
        served: Fingerprint,
    },
    /// Acknowledged and in the inbox, but not marked as settled: its receipt was lost on the way. Marked now, where
    /// [`Mend::Settled`] was given.
    Unsettled(EventId),
}

/// Compares a batch of what the server says with the inbox.
///
/// # Errors
/// [`SqlError`].
pub async fn reconcile<DB: Store>(
    inbox: &Inbox<DB>,
    delivered: &[Delivered],
    mend: Mend,
) -> Result<Vec<Finding>, SqlError> {
    let mut findings = Vec::new();
    for batch in delivered.chunks(PAGE_MAX as usize) {
        let ids: Vec<_> = batch.iter().map(|delivered| delivered.event_id.to_string()).collect();
        let rows = inbox.in_task(move |inner| async move {
            let mut on = inner.writer.pool().acquire().await?;
            Ok(DB::rows(&mut on, &inner.sql, inner.consumer.as_str(), &ids).await?)
        });
        let rows: BTreeMap<_, _> = rows.await?.into_iter().filter_map(row).map(|row| (row.event_id, row)).collect();
        findings.extend(batch.iter().filter_map(|delivered| compare(delivered, rows.get(&delivered.event_id))));
    }
    if mend == Mend::Settled {
        let late = findings.iter().filter_map(|finding| match finding {
            Finding::Unsettled(event_id) => Some(*event_id),
            _ => None,
        });
        inbox.settle(&late.collect::<Vec<_>>()).await?;
    }
    Ok(findings)
}

fn compare(delivered: &Delivered, row: Option<&InboxRow>) -> Option<Finding> {
    let event_id = delivered.event_id;
    match (row, delivered.state, &delivered.fingerprint) {
        (None, DeliveryState::Acknowledged, _) => Some(Finding::Absent(event_id)),
        (None, DeliveryState::Open, _) => None,
        (Some(row), _, Some(served)) if row.fingerprint.as_ref() != Some(served) => {
            Some(Finding::Different { event_id, stored: row.fingerprint.clone(), served: served.clone() })
        }
        (Some(_), DeliveryState::Open, _) => Some(Finding::Unacknowledged(event_id)),
        (Some(row), DeliveryState::Acknowledged, _) => row.settled_at.is_none().then_some(Finding::Unsettled(event_id)),
    }
}

/// A row from its columns; none where its id is no event's (somebody has edited it).
fn row((id, event_type, task_id, task_version, received, settled): StoredRow) -> Option<InboxRow> {
    Some(InboxRow {
        event_id: id.parse().ok()?,
        fingerprint: Stored { event_type, task_id, task_version }.parse(),
        received_at: time(received),
        settled_at: settled.map(time),
    })
}

fn time(us: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(us.max(0).cast_unsigned())
}
