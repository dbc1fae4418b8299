//! The log: reports of tasks, each written as one event, and the tasks they tell of.
//!
//! Source: http-api.md, "Reporting results".

use std::fmt;

use perilune_proto::event::{Status, TaskError};
use perilune_proto::json::RawJson;
use perilune_proto::scalar::{EventId, Name, Sequence, TaskId, TaskVersion};

use super::{Answer, CredentialId};

/// Questions about the log and its tasks.
pub trait TaskLog {
    /// Writes one report as the log's next event, or says why not.
    fn report(&self, report: Report) -> Answer<'_, Verdict>;

    /// Writes many reports, in order; one verdict each, in order. A refused one spoils no other.
    ///
    /// On an error some of the first may have been written: a caller that needs to know asks again with
    /// idempotency keys.
    fn report_batch(&self, reports: Vec<Report>) -> Answer<'_, Vec<Verdict>>;

    /// The task as it is now; `None` where nobody reported it.
    fn task(&self, task_id: TaskId) -> Answer<'_, Option<TaskRecord>>;
}

/// What somebody says happened to a task. That they may say it was checked before.
#[derive(Debug, Clone)]
pub struct Report {
    /// Who says it; part of the idempotency key's scope.
    pub credential_id: CredentialId,
    /// The task's queue.
    pub queue: Name,
    /// The task.
    pub task_id: TaskId,
    /// What the task does.
    pub operation: Name,
    /// How it now stands.
    pub status: Status,
    /// The task's input, byte for byte; `null` where none was given.
    pub payload: RawJson,
    /// The task's result, byte for byte; `null` where none was given.
    pub result: RawJson,
    /// What went wrong.
    pub error: Option<TaskError>,
    /// Makes the same report safe to send again for 24 h.
    pub idempotency: Option<IdempotencyKey>,
}

/// An `Idempotency-Key` with the body it came with.
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// 1 to 255 printable ASCII characters. Its scope is the credential and the task.
    pub key: String,
    /// The SHA-256 of the body's bytes: another body under the same key is refused.
    pub body_sha256: [u8; 32],
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey")
    }
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was written: 201.
    Written(WrittenEvent),
    /// The key was seen with the same body; this is the event of then: 200.
    Seen(WrittenEvent),
    /// The key was seen with another body: 422.
    KeyReused,
    /// The task has ended: 409.
    Terminal,
    /// The task belongs to another queue: 409.
    OtherQueue,
}

/// An event in the log.
#[derive(Clone, PartialEq, Eq)]
pub struct WrittenEvent {
    /// The event.
    pub event_id: EventId,
    /// Its place in the log.
    pub sequence: Sequence,
    /// Its task's version.
    pub task_version: TaskVersion,
    /// The whole event as it was frozen: one JSON object, as a delivery carries it.
    pub json: Box<str>,
}

impl fmt::Debug for WrittenEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenEvent")
            .field("event_id", &self.event_id)
            .field("sequence", &self.sequence)
            .field("task_version", &self.task_version)
            .finish_non_exhaustive()
    }
}

/// A task as it is now.
#[derive(Clone, PartialEq, Eq)]
pub struct TaskRecord {
    /// The task's queue, which decides who may see it.
    pub queue: Name,
    /// Its latest snapshot: one JSON object, as its latest event carries it.
    pub snapshot_json: Box<str>,
}

impl fmt::Debug for TaskRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRecord").field("queue", &self.queue).finish_non_exhaustive()
    }
}
