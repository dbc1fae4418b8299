//! Events to publish.

use perilune_proto::scalar::{EventId, Name, Sequence, TaskId, TaskVersion, Timestamp};
use perilune_proto::{RawJson, ResultEvent, Snapshot, Status};

/// An event under fresh ids: a task of the queue `reports`, operation `GenerateReport`, that has succeeded.
///
/// Its fields are public: change what your handler looks at.
///
/// ```
/// use perilune::proto::{RawJson, Status};
/// use perilune::testkit::sample_event;
///
/// let mut event = sample_event();
/// event.snapshot.status = Status::Failed;
/// event.snapshot.payload = RawJson::parse(r#"{"customer": 7}"#, 61)?;
/// assert_ne!(event.event_id, sample_event().event_id);
/// # Ok::<_, perilune::proto::json::Malformed>(())
/// ```
#[must_use]
pub fn sample_event() -> ResultEvent {
    let at = Timestamp::from_unix_micros(1_767_225_600_000_000).expect("2026-01-01 is a date");
    let name = |text: &str| text.parse::<Name>().expect("letters are a name");
    ResultEvent {
        event_id: EventId::from_u128(rand::random()),
        sequence: Sequence(1),
        occurred_at: at,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(rand::random()),
            queue: name("reports"),
            operation: name("GenerateReport"),
            status: Status::Succeeded,
            version: TaskVersion(1),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: RawJson::null(),
            error: None,
        },
    }
}
