//! Events to apply.

use perilune_proto::scalar::{EventId, Sequence, TaskId, TaskVersion};
use perilune_proto::{RawJson, ResultEvent, Snapshot, Status};

/// A succeeded task's event, the `n`th of its test.
pub(crate) fn event(n: u128) -> ResultEvent {
    let at = "2026-01-02T03:04:05Z".parse().expect("a time");
    ResultEvent {
        event_id: EventId::from_u128(n),
        sequence: Sequence(1),
        occurred_at: at,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(n + 1),
            queue: "reports".parse().expect("a name"),
            operation: "GenerateReport".parse().expect("a name"),
            status: Status::Succeeded,
            version: TaskVersion(3),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: RawJson::null(),
            error: None,
        },
    }
}
