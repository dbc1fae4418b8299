//! What happened: a result event with its frozen snapshot.
//!
//! Source: events-v1.md section 4.

use std::fmt;
use std::str::FromStr;

use crate::json::RawJson;
use crate::scalar::{EventId, Name, ScalarError, Sequence, TaskId, TaskVersion, Timestamp};

/// One status change of one task, with the task as it was at that moment.
///
/// The fields that the wire states twice (`task_id`, `queue`, `task_version` and `type`) stand once, in
/// the snapshot; the frame reader has checked that both agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultEvent {
    /// Names the event; with the consumer's name the only deduplication key.
    pub event_id: EventId,
    /// The event's place in the platform's log.
    pub sequence: Sequence,
    /// When the event was written.
    pub occurred_at: Timestamp,
    /// The task as it was when the event was written. What it became later never changes it.
    pub snapshot: Snapshot,
}

impl ResultEvent {
    /// The event's type: `task.` and the snapshot's status.
    #[must_use]
    pub const fn event_type(&self) -> &'static str {
        self.snapshot.status.event_type()
    }

    /// The task's queue.
    #[must_use]
    pub const fn queue(&self) -> &Name {
        &self.snapshot.queue
    }

    /// The task.
    #[must_use]
    pub const fn task_id(&self) -> TaskId {
        self.snapshot.task_id
    }

    /// The task's version: one more with each of its events.
    #[must_use]
    pub const fn task_version(&self) -> TaskVersion {
        self.snapshot.version
    }
}

/// A task, frozen when its event was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The task.
    pub task_id: TaskId,
    /// The queue it belongs to.
    pub queue: Name,
    /// What it does, such as `GenerateReport`.
    pub operation: Name,
    /// How it stands.
    pub status: Status,
    /// Grows by one with each event of the task.
    pub version: TaskVersion,
    /// When the task's first event was written.
    pub created_at: Timestamp,
    /// When this one was written.
    pub updated_at: Timestamp,
    /// The task's input as the reporter gave it, byte for byte; `null` where none was given.
    pub payload: RawJson,
    /// The task's result as the reporter gave it, byte for byte; `null` where none was given.
    pub result: RawJson,
    /// What went wrong, where the reporter said so.
    pub error: Option<TaskError>,
}

/// What went wrong with a task, in the reporter's words.
///
/// Both texts come from outside and may hold business detail, so neither prints in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct TaskError {
    /// The reporter's code.
    pub code: String,
    /// The reporter's message.
    pub message: String,
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Drop for TaskError {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.code);
        zeroize::Zeroize::zeroize(&mut self.message);
    }
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The platform has it and has not begun.
    Accepted,
    /// A worker runs it.
    Started,
    /// It failed and will be tried again.
    RetryScheduled,
    /// It ended well.
    Succeeded,
    /// It was refused for what it asks.
    Rejected,
    /// It ended in failure.
    Failed,
    /// It was given up after its tries.
    DeadLettered,
    /// A person must look: neither success nor final failure.
    NeedsReview,
}

impl Status {
    /// Every status of the contract, in its order.
    pub const ALL: [Self; 8] = [
        Self::Accepted,
        Self::Started,
        Self::RetryScheduled,
        Self::Succeeded,
        Self::Rejected,
        Self::Failed,
        Self::DeadLettered,
        Self::NeedsReview,
    ];

    /// The status as the wire writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        // One text for both: the event type is the status behind "task.".
        self.event_type().split_at(5).1
    }

    /// The type of an event that says this status: `task.` and the status.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Accepted => "task.accepted",
            Self::Started => "task.started",
            Self::RetryScheduled => "task.retry_scheduled",
            Self::Succeeded => "task.succeeded",
            Self::Rejected => "task.rejected",
            Self::Failed => "task.failed",
            Self::DeadLettered => "task.dead_lettered",
            Self::NeedsReview => "task.needs_review",
        }
    }

    /// Whether nothing follows this status.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Rejected | Self::Failed | Self::DeadLettered)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(ScalarError::new(
            "one of accepted, started, retry_scheduled, succeeded, rejected, failed, dead_lettered, needs_review",
        ))
    }
}
