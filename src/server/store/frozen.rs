//! How a report becomes the text that the log keeps, and what is read back out of it without parsing.

use perilune_proto::event::{ResultEvent, Snapshot};
use perilune_proto::lease::Moment;
use perilune_proto::scalar::{EventId, Sequence, TaskVersion, Timestamp};
use perilune_proto::wire;

use super::{Report, WrittenEvent};

/// The place that the log gave to a report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) event_id: EventId,
    pub(super) sequence: Sequence,
    pub(super) version: TaskVersion,
    /// When the task's first event was written.
    pub(super) created: Moment,
    /// Now.
    pub(super) written: Moment,
}

/// Freezes a report as an event.
pub(super) fn freeze(report: Report, place: Place) -> WrittenEvent {
    let written = timestamp(place.written);
    let event = ResultEvent {
        event_id: place.event_id,
        sequence: place.sequence,
        occurred_at: written,
        snapshot: Snapshot {
            task_id: report.task_id,
            queue: report.queue,
            operation: report.operation,
            status: report.status,
            version: place.version,
            created_at: timestamp(place.created),
            updated_at: written,
            payload: report.payload,
            result: report.result,
            error: report.error,
        },
    };
    let json = wire::encode_event(&event).into_boxed_str();
    WrittenEvent { event_id: place.event_id, sequence: place.sequence, task_version: place.version, json }
}

/// The snapshot within the text of an event that [`freeze`] wrote: its last member, and the first whose name is
/// `snapshot`, since everything before it is ours and holds no quotation mark.
pub(super) fn snapshot_of(event_json: &str) -> Option<&str> {
    let (_, snapshot) = event_json.split_once(r#","snapshot":"#)?;
    snapshot.strip_suffix('}')
}

/// A moment of a wall clock as text shows it; 1970 where it lies beyond the year 9999.
pub(super) fn timestamp(moment: Moment) -> Timestamp {
    let shown = i64::try_from(moment.0).ok().and_then(Timestamp::from_unix_micros);
    shown.or_else(|| Timestamp::from_unix_micros(0)).expect("1970 is a year from 0 to 9999")
}

#[cfg(test)]
mod tests {
    use perilune_proto::event::{Status, TaskError};
    use perilune_proto::json::RawJson;
    use perilune_proto::scalar::TaskId;

    use super::*;
    use crate::server::store::CredentialId;

    #[test]
    fn the_snapshot_is_found_in_the_frozen_text_whatever_the_payload_says() {
        let report = Report {
            credential_id: CredentialId::from_u128(1),
            queue: "reports".parse().expect("a name"),
            task_id: TaskId::from_u128(2),
            operation: "snapshot".parse().expect("a name"),
            status: Status::Failed,
            payload: RawJson::parse(r#"{"a":1,"snapshot":{"b":"}"}}"#, 61).expect("strict JSON"),
            result: RawJson::null(),
            error: Some(TaskError { code: "E".to_owned(), message: r#"","snapshot":{}"#.to_owned() }),
            idempotency: None,
        };
        let place = Place {
            event_id: EventId::from_u128(3),
            sequence: Sequence(4),
            version: TaskVersion(5),
            created: Moment(0),
            written: Moment(1),
        };
        let json = freeze(report, place).json;
        let event = wire::decode_event(&json).expect("what was frozen is an event");
        assert_eq!(snapshot_of(&json), Some(&*wire::encode_snapshot(&event.snapshot)));
    }
}
