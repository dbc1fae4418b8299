//! Which status may follow which, and how a task's version grows.
//!
//! Source: http-api.md, "Reporting results".

use crate::event::Status;
use crate::scalar::{Name, TaskVersion};

/// What the log knows of a task before another report of it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStanding {
    /// The queue of its first report, for good.
    pub queue: Name,
    /// The status of its latest event.
    pub status: Status,
    /// The version of its latest event.
    pub version: TaskVersion,
}

/// Why a report may not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The task ended; nothing follows a terminal status.
    #[error("the task has ended")]
    Terminal,
    /// The task belongs to the queue of its first report.
    #[error("the task belongs to another queue")]
    OtherQueue,
}

/// The version that a report on `queue` gets, given what is known of the task; `None` means a new task.
///
/// Any status may follow a pending one; the queue is judged first, so that a foreign queue learns
/// nothing about how the task ended.
///
/// # Errors
/// [`Refusal`] where the task belongs to another queue or has ended.
pub fn admit(known: Option<&TaskStanding>, queue: &Name) -> Result<TaskVersion, Refusal> {
    let Some(task) = known else { return Ok(TaskVersion(1)) };
    if task.queue != *queue {
        return Err(Refusal::OtherQueue);
    }
    if task.status.is_terminal() {
        return Err(Refusal::Terminal);
    }
    Ok(TaskVersion(task.version.0 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> Name {
        name.parse().expect("a valid name")
    }

    fn standing(status: Status) -> TaskStanding {
        TaskStanding { queue: queue("reports"), status, version: TaskVersion(7) }
    }

    #[test]
    fn a_new_task_begins_with_version_one() {
        assert_eq!(admit(None, &queue("reports")), Ok(TaskVersion(1)));
    }

    #[test]
    fn only_a_pending_task_goes_on_and_grows_by_one() {
        for status in Status::ALL {
            let expected = if status.is_terminal() { Err(Refusal::Terminal) } else { Ok(TaskVersion(8)) };
            assert_eq!(admit(Some(&standing(status)), &queue("reports")), expected, "{status}");
        }
    }

    #[test]
    fn a_task_stays_in_its_first_queue() {
        for status in [Status::Started, Status::Succeeded] {
            assert_eq!(admit(Some(&standing(status)), &queue("other")), Err(Refusal::OtherQueue));
        }
    }
}
