//! What an inbox row knows of its event, to tell a redelivery from another event under the same id.

use perilune_proto::event::ResultEvent;
use perilune_proto::scalar::{TaskId, TaskVersion};

/// An event's type, task and task version: equal in every delivery of one event.
///
/// Source: settled.md, "The consumer".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// `task.` and a status.
    pub event_type: String,
    /// The event's task.
    pub task_id: TaskId,
    /// The task's version at the event.
    pub task_version: TaskVersion,
}

impl Fingerprint {
    /// An event's fingerprint.
    #[must_use]
    pub fn of(event: &ResultEvent) -> Self {
        Self { event_type: event.event_type().to_owned(), task_id: event.task_id(), task_version: event.task_version() }
    }
}

/// What is written for an event: its id and its fingerprint, as the columns hold them.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Key {
    pub(super) event_id: String,
    pub(super) print: Stored,
}

impl Key {
    pub(super) fn of(event: &ResultEvent) -> Self {
        Self { event_id: event.event_id.to_string(), print: Stored::from(&Fingerprint::of(event)) }
    }
}

/// A fingerprint as the columns hold it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub(super) event_type: String,
    pub(super) task_id: String,
    /// The version's 64 bits: no engine of the three has an unsigned type that the others have too.
    pub(super) task_version: i64,
}

impl From<&Fingerprint> for Stored {
    fn from(print: &Fingerprint) -> Self {
        Self {
            event_type: print.event_type.clone(),
            task_id: print.task_id.to_string(),
            task_version: print.task_version.0.cast_signed(),
        }
    }
}

impl Stored {
    /// The fingerprint, where the columns hold one (somebody may have edited them).
    pub(super) fn parse(self) -> Option<Fingerprint> {
        Some(Fingerprint {
            event_type: self.event_type,
            task_id: self.task_id.parse().ok()?,
            task_version: TaskVersion(self.task_version.cast_unsigned()),
        })
    }
}
