//! One row of outcome.md each: what happens to an operation, what is kept of it, and what everybody is told.

use std::collections::BTreeSet;

use actix_web::http::header::RETRY_AFTER;
use perilune::outcome::status::openapi_document;
use perilune::outcome::{
    Decision, EphemeralOutcome, FindOutcome, OperationId, Operations, Origin, OutcomeEngine, OutcomeQuery, QueryError,
};
use perilune_proto::{ResultEvent, Status};

use super::status::{ask, resource};
use super::{CloseAccount, Counting, GenerateReport, apply, caller, event, json, operation_id, operations, with_error};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! { every_row_of_the_contract_holds }

/// What happens.
enum Given {
    Accept,
    Event(Status),
    /// An event with this result.
    Result(Status, &'static str),
    /// An event with this error code.
    Error(Status, &'static str),
    /// The completion of an operation that leaves nothing.
    Closed(&'static str),
    Inline,
    Ephemeral,
    Purge,
    /// The outcome's row goes, and nothing says why.
    LoseOutcome,
}
use Given::*;

/// Who asks.
#[derive(Clone, Copy, PartialEq)]
enum Asking {
    Allowed,
    Denied,
    OtherTenant,
    /// Nobody, by a request that names no caller.
    Nobody,
    /// Somebody whom the authoriser can't judge.
    Unjudged,
}
use Asking::*;

/// What a read by [`OutcomeQuery`] gives.
#[derive(Debug, PartialEq)]
enum Query {
    Found,
    Unavailable,
    Error,
}

struct Row {
    name: &'static str,
    given: Vec<Given>,
    asking: Asking,
    status: u16,
    /// Members beyond the head of a 200; the code of an error.
    says: &'static str,
    retry_after: bool,
    query: Query,
    /// Rows of inputs, journal, outcomes, dead letters.
    kept: [i64; 4],
}

fn row(
    name: &'static str,
    given: impl IntoIterator<Item = Given>,
    status: u16,
    says: &'static str,
    kept: [i64; 4],
) -> Row {
    let retry_after =
        ["accepted", "running", "retry_scheduled"].iter().any(|state| says.contains(&format!(r#""state":"{state}""#)));
    let query = if says.contains(r#""outcome""#) { Query::Found } else { Query::Unavailable };
    Row { name, given: given.into_iter().collect(), asking: Allowed, status, says, retry_after, query, kept }
}

impl Row {
    fn asked_by(self, asking: Asking) -> Self {
        let query = match asking {
            Unjudged => Query::Error,
            Denied | OtherTenant => Query::Unavailable,
            Allowed | Nobody => self.query,
        };
        Self { asking, query, ..self }
    }

    fn contradicts(self) -> Self {
        Self { query: Query::Error, ..self }
    }
}

/// Sections 1 and 4, row by row.
fn rows() -> Vec<Row> {
    const GONE: &str = "operation_unavailable";
    let done = r#""state":"completed","outcome":{"pages": 3}"#;
    vec![
        // Section 1, public status.
        row("accepted by accept()", [Accept], 200, r#""state":"accepted""#, [1, 0, 0, 0]),
        row("accepted by an event", [Event(Status::Accepted)], 200, r#""state":"accepted""#, [0, 1, 0, 0]),
        row("accept(), then its event", [Accept, Event(Status::Accepted)], 200, r#""state":"accepted""#, [1, 1, 0, 0]),
        row(
            "running",
            [Event(Status::Started)],
            200,
            r#""state":"running","attempt":1,"reviewRequired":false"#,
            [0, 1, 0, 0],
        ),
        row(
            "needs_review stays running",
            [Event(Status::Started), Event(Status::NeedsReview)],
            200,
            r#""state":"running","attempt":1,"reviewRequired":true"#,
            [0, 2, 0, 0],
        ),
        row(
            "a second attempt",
            [Event(Status::Started), Event(Status::RetryScheduled), Event(Status::Started)],
            200,
            r#""state":"running","attempt":2,"reviewRequired":false"#,
            [0, 3, 0, 0],
        ),
        row(
            "retry_scheduled at a time",
            [Result(Status::RetryScheduled, r#"{"retryAt":"2026-08-01T10:00:00Z"}"#)],
            200,
            r#""state":"retry_scheduled","attempt":1,"retryAt":"2026-08-01T10:00:00.000000Z""#,
            [0, 1, 0, 0],
        ),
        row(
            "retry_scheduled at no time",
            [Event(Status::RetryScheduled)],
            200,
            r#""state":"retry_scheduled","attempt":1,"retryAt":null"#,
            [0, 1, 0, 0],
        ),
        // Section 1, how it ends.
        row("deferred, completed", [Accept, Event(Status::Succeeded)], 200, done, [1, 1, 1, 0]),
        row("deferred, completed empty", [Closed("{}")], 200, r#""state":"completed","outcome":{}"#, [0, 1, 1, 0]),
        row(
            "deferred, completed without a result",
            [Closed("null")],
            200,
            r#""state":"completed","outcome":{}"#,
            [0, 1, 1, 0],
        ),
        row("inline, completed", [Inline], 404, GONE, [0, 1, 0, 0]),
        row("ephemeral", [Ephemeral], 404, GONE, [0, 1, 0, 0]),
        row(
            "rejected",
            [Error(Status::Rejected, "validation/too_large")],
            200,
            r#""state":"rejected","error":{"category":"validation","code":"too_large"}"#,
            [0, 1, 0, 0],
        ),
        row(
            "rejected in a person's words",
            [Error(Status::Rejected, "not like this, Ann")],
            200,
            r#""state":"rejected","error":{"category":"business","code":"unspecified"}"#,
            [0, 1, 0, 0],
        ),
        row(
            "failed",
            [Error(Status::Failed, "x")],
            200,
            r#""state":"failed","error":{"code":"operation_failed"}"#,
            [0, 1, 0, 0],
        ),
        row(
            "timeout",
            [Error(Status::Failed, "timeout")],
            200,
            r#""state":"failed","error":{"code":"operation_failed"}"#,
            [0, 1, 0, 0],
        ),
        row(
            "lost claim",
            [Event(Status::Started), Error(Status::RetryScheduled, "lost_claim")],
            200,
            r#""state":"retry_scheduled","attempt":1,"retryAt":null"#,
            [0, 2, 0, 0],
        ),
        row(
            "dead_lettered",
            [Error(Status::DeadLettered, "x")],
            200,
            r#""state":"dead_lettered","error":{"code":"operation_dead_lettered"}"#,
            [0, 1, 0, 1],
        ),
        row(
            "nothing after the end",
            [Event(Status::Failed), Event(Status::Succeeded)],
            200,
            r#""state":"failed","error":{"code":"operation_failed"}"#,
            [0, 1, 0, 0],
        ),
        // Section 4, everybody else.
        row("unknown", [], 404, GONE, [0, 0, 0, 0]),
        row("denied", [Event(Status::Succeeded)], 404, GONE, [0, 1, 1, 0]).asked_by(Denied),
        row("another tenant's", [Event(Status::Succeeded)], 404, GONE, [0, 1, 1, 0]).asked_by(OtherTenant),
        row("nobody", [Event(Status::Started)], 401, "unauthenticated", [0, 1, 0, 0]).asked_by(Nobody),
        row("purged", [Accept, Event(Status::Succeeded), Purge], 410, "operation_expired", [0, 0, 0, 0]),
        row("purged and denied", [Event(Status::Succeeded), Purge], 404, GONE, [0, 0, 0, 0]).asked_by(Denied),
        row(
            "purged and never with an outcome",
            [Error(Status::DeadLettered, "x"), Purge],
            200,
            r#""state":"dead_lettered","error":{"code":"operation_dead_lettered"}"#,
            [0, 0, 0, 0],
        ),
        row("missing without an audit", [Event(Status::Succeeded), LoseOutcome], 500, "internal_error", [0, 1, 0, 0])
            .contradicts(),
        row("the authoriser failed", [Event(Status::Succeeded)], 500, "internal_error", [0, 1, 1, 0])
            .asked_by(Unjudged),
    ]
}

async fn happen<DB: TestEngine + OutcomeEngine>(
    site: &Site<DB>,
    operations: &Operations<DB>,
    n: u128,
    given: &[Given],
) -> OperationId {
    let mut id = operation_id(n);
    let told = |id: OperationId, version: u64, status| {
        let mut event = event(n, version, status);
        event.snapshot.task_id = id.task_id();
        event
    };
    for (version, step) in (1..).zip(given) {
        let event: ResultEvent = match step {
            Accept | Inline | Ephemeral => {
                let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
                let (on, origin) = (&mut *transaction, Origin::default());
                match step {
                    Accept => {
                        let accepted = operations.accept::<GenerateReport>(on, &"q".to_owned(), origin).await;
                        id = accepted.expect("accepted").operation_id;
                    }
                    Inline => operations.record_inline::<CloseAccount>(on, id, origin).await.expect("recorded"),
                    _ => {
                        let shown = EphemeralOutcome::new("once");
                        let shown = operations.record_ephemeral(on, id, "IssueCredential", origin, shown).await;
                        assert_eq!(shown.expect("recorded"), "once");
                    }
                }
                transaction.commit().await.expect("committed");
                continue;
            }
            Purge => {
                super::retention::purge_all(operations).await;
                continue;
            }
            LoseOutcome => {
                site.run(&format!("DELETE FROM {{p}}outcomes WHERE operation_id = '{id}'")).await;
                continue;
            }
            Event(status) => told(id, version, *status),
            Error(status, code) => with_error(told(id, version, *status), code),
            Result(status, result) => {
                let mut event = told(id, version, *status);
                event.snapshot.result = json(result);
                event
            }
            Closed(result) => {
                let mut event = told(id, version, Status::Succeeded);
                event.snapshot.operation = "CloseAccount".parse().expect("a name");
                event.snapshot.result = json(result);
                event
            }
        };
        apply(site, operations, &event).await.expect("applied");
    }
    id
}

async fn every_row_of_the_contract_holds<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let mut states = BTreeSet::new();
    for (n, row) in (1..).zip(rows()) {
        let name = row.name;
        let id = happen(&site, &operations, n, &row.given).await;
        let authoriser = Counting::new(match row.asking {
            Unjudged => None,
            Denied => Some(Decision::Deny),
            _ => Some(Decision::Allow),
        });
        let tenant = (row.asking == OtherTenant).then_some("other");
        let mut headers: Vec<_> = tenant.map(|tenant| ("x-tenant", tenant)).into_iter().collect();
        headers.extend((row.asking == Nobody).then_some(("x-nobody", "1")));

        let answer = ask(&resource(&operations, &authoriser), &id.to_string(), &headers).await;
        let operation_type = if matches!(row.given[..], [Closed(_), ..]) { "CloseAccount" } else { "GenerateReport" };
        let expected = if row.status == 200 {
            let says = row.says;
            format!(r#"{{"schemaVersion":1,"operationId":"{id}","operationType":"{operation_type}",{says}}}"#)
        } else {
            format!(r#"{{"status":"error","code":"{}"}}"#, row.says)
        };
        assert_eq!((answer.status, &answer.body), (row.status, &expected), "{name}");
        assert_eq!(answer.headers.contains_key(RETRY_AFTER), row.retry_after, "{name}");
        if row.status == 200 {
            states.insert(documented_state(&answer.body, name));
        }

        let query = OutcomeQuery::new(&operations).with_authoriser(authoriser);
        let found = match query.find(id, &caller(tenant)).await {
            Ok(FindOutcome::Found(_)) => Query::Found,
            Ok(FindOutcome::Unavailable) => Query::Unavailable,
            Err(QueryError::Authoriser(_) | QueryError::Contradiction(_)) => Query::Error,
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(found, row.query, "{name}");

        for (table, rows) in ["operation_inputs", "operation_journal", "outcomes", "dead_letters"].iter().zip(row.kept)
        {
            let count = format!("SELECT COUNT(*) FROM {{p}}{table} WHERE operation_id = '{id}'");
            assert_eq!(site.number(&count).await, rows, "{name}: {table}");
        }
    }
    assert_eq!(states.len(), 7, "every state was shown: {states:?}");
    site.close().await;
}

/// The state of an answer, whose members must be exactly those that the OpenAPI document gives it.
fn documented_state(body: &str, name: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let document = openapi_document("/api");
    let schemas = document["components"]["schemas"]["OperationStatus"]["oneOf"].as_array().expect("alternatives");
    let state = body["state"].as_str().expect("a state");
    let schema = schemas.iter().find(|schema| schema["properties"]["state"]["const"] == state).expect("documented");
    let members =
        |object: &serde_json::Value| object.as_object().expect("an object").keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(members(&body), members(&schema["properties"]), "{name}");
    state.to_owned()
}
