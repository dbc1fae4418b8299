//! The status resource's body, read strictly: exactly the members of its state.

use perilune_proto::scalar::{TaskId, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::OperationStatus;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body<'a> {
    schema_version: u32,
    operation_id: TaskId,
    operation_type: String,
    state: String,
    attempt: Option<u32>,
    review_required: Option<bool>,
    // Present with null is something else than absent.
    #[serde(default, deserialize_with = "present")]
    retry_at: Option<Option<Timestamp>>,
    #[serde(borrow)]
    outcome: Option<&'a RawValue>,
    error: Option<Error>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Error {
    category: Option<String>,
    code: String,
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<Timestamp>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// The status, where the body is one of this operation.
pub(super) fn status<O: DeserializeOwned>(
    body: &[u8],
    id: TaskId,
    operation_type: Option<&str>,
) -> Option<OperationStatus<O>> {
    // serde would take an array for a struct.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return None;
    }
    let body: Body<'_> = serde_json::from_slice(body).ok()?;
    if body.schema_version != 1
        || body.operation_id != id
        || operation_type.is_some_and(|asked| asked != body.operation_type)
    {
        return None;
    }
    let members = (body.attempt, body.review_required, body.retry_at, body.outcome, body.error);
    Some(match (&*body.state, members) {
        ("accepted", (None, None, None, None, None)) => OperationStatus::Accepted,
        ("running", (Some(attempt), Some(review_required), None, None, None)) => {
            OperationStatus::Running { attempt, review_required }
        }
        ("retry_scheduled", (Some(attempt), None, Some(retry_at), None, None)) => {
            OperationStatus::RetryScheduled { attempt, retry_at }
        }
        ("completed", (None, None, None, Some(outcome), None)) => {
            OperationStatus::Completed(serde_json::from_str(outcome.get()).ok()?)
        }
        ("rejected", (None, None, None, None, Some(Error { category: Some(category), code }))) => {
            OperationStatus::Rejected { category, code }
        }
        ("failed", (None, None, None, None, Some(Error { category: None, code }))) if code == "operation_failed" => {
            OperationStatus::Failed
        }
        ("dead_lettered", (None, None, None, None, Some(Error { category: None, code })))
            if code == "operation_dead_lettered" =>
        {
            OperationStatus::DeadLettered
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(members: &str) -> Option<OperationStatus<Vec<u32>>> {
        let body = format!(
            r#"{{"schemaVersion":1,"operationId":"00000000000000000000000000000007","operationType":"Report",{members}}}"#
        );
        status(body.as_bytes(), TaskId::from_u128(7), Some("Report"))
    }

    #[test]
    fn each_state_has_exactly_its_members() {
        use OperationStatus::*;
        let good = [
            (r#""state":"accepted""#, Accepted),
            (r#""state":"running","attempt":2,"reviewRequired":true"#, Running { attempt: 2, review_required: true }),
            (r#""state":"retry_scheduled","attempt":2,"retryAt":null"#, RetryScheduled { attempt: 2, retry_at: None }),
            (r#""state":"completed","outcome":[1,2]"#, Completed(vec![1, 2])),
            (
                r#""state":"rejected","error":{"category":"a","code":"b"}"#,
                Rejected { category: "a".to_owned(), code: "b".to_owned() },
            ),
            (r#""state":"failed","error":{"code":"operation_failed"}"#, Failed),
            (r#""state":"dead_lettered","error":{"code":"operation_dead_lettered"}"#, DeadLettered),
        ];
        for (members, expected) in good {
            assert_eq!(read(members), Some(expected), "{members}");
        }
        for bad in [
            r#""state":"accepted","attempt":1"#,
            r#""state":"accepted","more":1"#,
            r#""state":"running","attempt":1"#,
            r#""state":"retry_scheduled","attempt":1"#,
            r#""state":"completed","outcome":{}"#,
            r#""state":"completed""#,
            r#""state":"rejected","error":{"code":"b"}"#,
            r#""state":"failed","error":{"code":"operation_dead_lettered"}"#,
            r#""state":"failed","error":{"category":"a","code":"operation_failed"}"#,
            r#""state":"unknown""#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn another_operation_s_status_is_none() {
        let body = br#"{"schemaVersion":1,"operationId":"00000000000000000000000000000007","operationType":"Report","state":"accepted"}"#;
        let read = |id, operation_type| status::<()>(body, TaskId::from_u128(id), Some(operation_type));
        assert_eq!(read(7, "Report"), Some(OperationStatus::Accepted));
        assert_eq!(read(8, "Report"), None);
        assert_eq!(read(7, "Other"), None);
        assert_eq!(status::<()>(b"[1]", TaskId::from_u128(7), None), None);
    }
}
