//! What the resource answers. Pure: what was found and the time in, status and bytes out.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};

use crate::outcome::OutcomeStoreError;
use crate::outcome::lifecycle::OperationState;
use crate::outcome::query::OutcomeRecord;
use crate::outcome::store::row::OperationRow;

/// What was found for a caller.
pub(super) enum Found {
    /// An operation without an outcome (yet).
    Standing(OperationRow),
    /// A completed operation with its outcome.
    Completed(OperationRow, OutcomeRecord),
    /// Unknown, denied, of another tenant, inline, ephemeral, malformed.
    Unavailable,
    /// Its outcome was purged, and the audit proves it.
    Expired,
    /// The caller is nobody.
    Unauthenticated,
    /// Something failed; the cause has gone to the log.
    Failed,
}

/// An answer, before it becomes a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: String,
    /// Whole seconds, 1 to 60; for pending states.
    pub(super) retry_after: Option<i64>,
}

impl Answer {
    fn error(status: StatusCode, code: &str) -> Self {
        Self { status, body: format!(r#"{{"status":"error","code":"{code}"}}"#), retry_after: None }
    }

    pub(super) fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        response.insert_header((CONTENT_TYPE, "application/json")).insert_header((CACHE_CONTROL, "private, no-store"));
        if let Some(seconds) = self.retry_after {
            response.insert_header((RETRY_AFTER, seconds));
        }
        response.body(self.body)
    }
}

/// The answer at `now`, in microseconds since 1970.
pub(super) fn answer(found: &Found, now: i64) -> Result<Answer, OutcomeStoreError> {
    Ok(match found {
        Found::Standing(operation) => standing(operation, now),
        Found::Completed(operation, record) => {
            let members = format!(r#","outcome":{}"#, record.payload()?);
            ok(operation, &members, None)
        }
        Found::Unavailable => Answer::error(StatusCode::NOT_FOUND, "operation_unavailable"),
        Found::Expired => Answer::error(StatusCode::GONE, "operation_expired"),
        Found::Unauthenticated => Answer::error(StatusCode::UNAUTHORIZED, "unauthenticated"),
        Found::Failed => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
    })
}

fn standing(operation: &OperationRow, now: i64) -> Answer {
    let standing = &operation.standing;
    let attempt = operation.attempt;
    let retry_after = Some(retry_after(operation, now));
    match standing.state {
        OperationState::Accepted => ok(operation, "", retry_after),
        OperationState::Running => {
            let members = format!(r#","attempt":{attempt},"reviewRequired":{}"#, standing.review_required);
            ok(operation, &members, retry_after)
        }
        OperationState::RetryScheduled => {
            let retry_at = standing.retry_at.map_or_else(|| "null".to_owned(), |at| format!(r#""{at}""#));
            ok(operation, &format!(r#","attempt":{attempt},"retryAt":{retry_at}"#), retry_after)
        }
        OperationState::Rejected => {
            // Both are 1 to 64 of A-Z a-z 0-9 . _ -, so they need no escapes.
            let (category, code) = standing
                .rejection
                .as_ref()
                .map_or(("business", "unspecified"), |rejection| (&rejection.category, &rejection.code));
            ok(operation, &format!(r#","error":{{"category":"{category}","code":"{code}"}}"#), None)
        }
        OperationState::Failed => ok(operation, r#","error":{"code":"operation_failed"}"#, None),
        OperationState::DeadLettered => ok(operation, r#","error":{"code":"operation_dead_lettered"}"#, None),
        // With its outcome it is another kind of answer; without, somebody has contradicted themselves.
        OperationState::Completed => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
    }
}

fn ok(operation: &OperationRow, members: &str, retry_after: Option<i64>) -> Answer {
    let id = operation.operation_id;
    let operation_type = &operation.operation_type;
    let state = operation.standing.state.as_str();
    let body = format!(
        r#"{{"schemaVersion":1,"operationId":"{id}","operationType":"{operation_type}","state":"{state}"{members}}}"#
    );
    Answer { status: StatusCode::OK, body, retry_after }
}

/// Seconds until asking again makes sense, 1 to 60: until the retry, or longer the older the operation is.
fn retry_after(operation: &OperationRow, now: i64) -> i64 {
    const SECOND: i64 = 1_000_000;
    if let Some(retry_at) = operation.standing.retry_at {
        return ((retry_at.unix_micros() - now) / SECOND + 1).clamp(1, 60);
    }
    match (now - operation.accepted_at) / SECOND {
        ..10 => 1,
        10..60 => 2,
        60..600 => 10,
        600..3_600 => 30,
        _ => 60,
    }
}

#[cfg(test)]
mod tests {
    use perilune_proto::scalar::{TaskVersion, Timestamp};

    use super::*;
    use crate::outcome::OperationId;
    use crate::outcome::lifecycle::{Rejection, Standing};
    use crate::outcome::store::row::Mode;

    const HEAD: &str = r#""schemaVersion":1,"operationId":"00000000000000000000000000000007","operationType":"Report""#;

    fn operation(state: OperationState) -> OperationRow {
        OperationRow {
            operation_id: OperationId::from_u128(7),
            operation_type: "Report".to_owned(),
            tenant: None,
            actor: None,
            mode: Mode::Deferred,
            standing: Standing { state, task_version: TaskVersion(3), ..Standing::accepted() },
            attempt: 2,
            accepted_at: 0,
            completed_at: None,
        }
    }

    fn answered(operation: OperationRow, now: i64) -> (u16, String, Option<i64>) {
        let answer = answer(&Found::Standing(operation), now).expect("answered");
        (answer.status.as_u16(), answer.body, answer.retry_after)
    }

    #[test]
    fn each_state_has_its_members_and_no_other() {
        let retry_at: Timestamp = "1970-01-01T00:00:30.5Z".parse().expect("a time");
        let mut rows = vec![
            (operation(OperationState::Accepted), r#","state":"accepted""#, Some(1)),
            (operation(OperationState::Running), r#","state":"running","attempt":2,"reviewRequired":false"#, Some(1)),
            (
                operation(OperationState::RetryScheduled),
                r#","state":"retry_scheduled","attempt":2,"retryAt":null"#,
                Some(1),
            ),
            (operation(OperationState::Failed), r#","state":"failed","error":{"code":"operation_failed"}"#, None),
            (
                operation(OperationState::DeadLettered),
                r#","state":"dead_lettered","error":{"code":"operation_dead_lettered"}"#,
                None,
            ),
        ];
        let mut review = operation(OperationState::Running);
        review.standing.review_required = true;
        rows.push((review, r#","state":"running","attempt":2,"reviewRequired":true"#, Some(1)));
        let mut retry = operation(OperationState::RetryScheduled);
        retry.standing.retry_at = Some(retry_at);
        rows.push((retry, r#","state":"retry_scheduled","attempt":2,"retryAt":"1970-01-01T00:00:30.5Z""#, Some(31)));
        let mut rejected = operation(OperationState::Rejected);
        rejected.standing.rejection =
            Some(Rejection { category: "validation".to_owned(), code: "too_large".to_owned() });
        rows.push((rejected, r#","state":"rejected","error":{"category":"validation","code":"too_large"}"#, None));
        for (row, members, retry_after) in rows {
            assert_eq!(answered(row, 0), (200, format!("{{{HEAD}{members}}}"), retry_after));
        }
    }

    #[test]
    fn an_older_operation_is_asked_about_less_often_and_a_minute_is_the_most() {
        let waits = [0, 9, 10, 59, 60, 600, 3_600, 1_000_000]
            .map(|age| answered(operation(OperationState::Running), age * 1_000_000).2);
        assert_eq!(waits, [1, 1, 2, 2, 10, 30, 60, 60].map(Some));
        let mut retry = operation(OperationState::RetryScheduled);
        retry.standing.retry_at = "1970-01-01T01:00:00Z".parse().ok();
        assert_eq!(answered(retry.clone(), 0).2, Some(60));
        assert_eq!(answered(retry, 7_200_000_000).2, Some(1), "a retry that is overdue");
    }
}
