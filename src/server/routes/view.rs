//! A subscription and a delivery as their clients see them.

use perilune_proto::event::Status;
use perilune_proto::scalar::Name;
use serde::Serialize;

use crate::server::problem::{Code, Problem};
use crate::server::store::{DeliveryRecord, SubscriptionRecord};

#[derive(Serialize)]
struct Backoff {
    min_ms: u64,
    max_ms: u64,
}

/// `subscription_id`, settings, and figures as JSON integers; the cursor is a `u64`.
#[derive(Serialize)]
pub(super) struct SubscriptionView {
    subscription_id: String,
    name: String,
    enabled: bool,
    blocked: bool,
    queues: Vec<Name>,
    /// Empty: every status.
    statuses: Vec<&'static str>,
    /// Empty: every operation.
    operations: Vec<Name>,
    window: u32,
    budget: u32,
    backoff: Backoff,
    created_at: String,
    cursor: String,
    lag: u64,
    ready: u32,
    leased: u32,
    expired: u32,
    acknowledged: u64,
    sessions: usize,
}

impl SubscriptionView {
    pub(super) fn new(record: SubscriptionRecord, sessions: usize) -> Self {
        let blocked = record.is_blocked();
        let (settings, figures) = (record.subscription, record.figures);
        let milliseconds = |wait: std::time::Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self {
            subscription_id: settings.subscription_id.to_string(),
            name: settings.name,
            enabled: settings.enabled,
            blocked,
            queues: settings.queues.into_iter().collect(),
            statuses: settings.statuses.into_iter().map(Status::as_str).collect(),
            operations: settings.operations.into_iter().collect(),
            window: settings.window,
            budget: settings.budget,
            backoff: Backoff {
                min_ms: milliseconds(settings.backoff.min()),
                max_ms: milliseconds(settings.backoff.max()),
            },
            created_at: settings.created_at.to_string(),
            cursor: figures.cursor.to_string(),
            lag: figures.lag,
            ready: figures.ready,
            leased: figures.leased,
            expired: figures.expired,
            acknowledged: figures.acknowledged,
            sessions,
        }
    }
}

/// A delivery. Never a secret.
#[derive(Serialize)]
pub(super) struct DeliveryView {
    delivery_id: String,
    event_id: String,
    sequence: String,
    /// Null, as are the next two, once the log no longer has the event.
    #[serde(rename = "type")]
    event_type: Option<&'static str>,
    task_id: Option<String>,
    task_version: Option<String>,
    state: &'static str,
    generation: String,
    budget: u64,
    due_at: String,
}

impl From<DeliveryRecord> for DeliveryView {
    fn from(record: DeliveryRecord) -> Self {
        Self {
            delivery_id: record.delivery_id.to_string(),
            event_id: record.event_id.to_string(),
            sequence: record.sequence.to_string(),
            event_type: record.event.map(|event| event.status.event_type()),
            task_id: record.event.map(|event| event.task_id.to_string()),
            task_version: record.event.map(|event| event.task_version.0.to_string()),
            state: record.state.as_str(),
            generation: record.generation.to_string(),
            budget: record.budget,
            due_at: record.due_at.to_string(),
        }
    }
}

/// A page of a list.
#[derive(Serialize)]
pub(super) struct PageView<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

/// Writes a view as JSON.
pub(super) fn text(view: &impl Serialize) -> Result<String, Problem> {
    // Strings, numbers and lists always have a JSON form.
    serde_json::to_string(view).map_err(|_| Problem::new(Code::Internal, "the answer could not be written"))
}
