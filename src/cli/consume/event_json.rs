//! An event's JSON as a handler outside this process gets it.

use perilune_proto::{ResultEvent, Snapshot, TaskError};
use serde::Serialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

/// The order of the fields is the order they are written in.
#[derive(Serialize)]
struct EventJson<'a> {
    event_id: String,
    sequence: String,
    r#type: &'static str,
    queue: &'a str,
    task_id: String,
    task_version: String,
    occurred_at: String,
    snapshot: SnapshotJson<'a>,
}

#[derive(Serialize)]
struct SnapshotJson<'a> {
    task_id: String,
    queue: &'a str,
    operation: &'a str,
    status: &'static str,
    version: String,
    created_at: String,
    updated_at: String,
    payload: &'a RawValue,
    result: &'a RawValue,
    error: Option<ErrorJson<'a>>,
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    code: &'a str,
    message: &'a str,
}

/// Writes the event; payload and result stand in it byte for byte.
///
/// # Errors
/// Never for an event that the frame reader let in.
pub(crate) fn write(event: &ResultEvent) -> Result<Zeroizing<String>, serde_json::Error> {
    let json = EventJson {
        event_id: event.event_id.to_string(),
        sequence: event.sequence.to_string(),
        r#type: event.event_type(),
        queue: event.queue().as_str(),
        task_id: event.task_id().to_string(),
        task_version: event.task_version().to_string(),
        occurred_at: event.occurred_at.to_string(),
        snapshot: snapshot(&event.snapshot)?,
    };
    serde_json::to_string(&json).map(Zeroizing::new)
}

fn snapshot(snapshot: &Snapshot) -> Result<SnapshotJson<'_>, serde_json::Error> {
    Ok(SnapshotJson {
        task_id: snapshot.task_id.to_string(),
        queue: snapshot.queue.as_str(),
        operation: snapshot.operation.as_str(),
        status: snapshot.status.as_str(),
        version: snapshot.version.to_string(),
        created_at: snapshot.created_at.to_string(),
        updated_at: snapshot.updated_at.to_string(),
        payload: serde_json::from_str(snapshot.payload.as_str())?,
        result: serde_json::from_str(snapshot.result.as_str())?,
        error: snapshot.error.as_ref().map(|TaskError { code, message, .. }| ErrorJson { code, message }),
    })
}
