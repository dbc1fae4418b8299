//! `POST /v1/queues/{queue}/tasks/{task_id}/events`: one report.

use actix_web::http::StatusCode;
use actix_web::web::{self, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, Resource};
use perilune_proto::json::FieldError;
use perilune_proto::scalar::{Name, ScalarError};

use super::incoming::{self, Key255, outcome};
use super::{json, resource, segment};
use crate::server::auth::{Caller, authorize};
use crate::server::metrics::ReportOutcome;
use crate::server::problem::Problem;
use crate::server::request::body::json_text;
use crate::server::request::query::Parameters;
use crate::server::state::State;
use crate::server::store::{Report, Scope};

pub(super) fn resource_of_reports() -> Resource {
    resource("/v1/queues/{queue}/tasks/{task_id}/events", "POST").route(web::post().to(report))
}

async fn report(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let answer = answer(&state, &request, payload).await;
    if answer.is_err() {
        state.metrics.reported(ReportOutcome::Refused);
    }
    answer
}

async fn answer(state: &State, request: &HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    // Held to the end: its place among the requests counts the one that waits for the store, too.
    let caller = authorize(state, request, Scope::Report).await?;
    let report = read(&caller, request, payload).await?;
    write(state, report).await
}

async fn read(caller: &Caller, request: &HttpRequest, payload: Payload) -> Result<Report, Problem> {
    // A text that is no name is no queue of anybody's.
    let queue: Option<Name> = segment(request, "queue").parse().ok();
    caller.expect_queue(queue.as_ref())?;
    Parameters::none(request)?;
    let text = json_text(request, payload).await?;
    let task_id = segment(request, "task_id").parse().map_err(|error| bad("/task_id", error));
    let key = idempotency_key(request);
    match queue {
        Some(queue) => incoming::body(&text, caller.credential_id(), queue, task_id, key),
        None => Err(Problem::not_found()),
    }
}

async fn write(state: &State, report: Report) -> Result<HttpResponse, Problem> {
    let verdict = state.store.report(report).await.map_err(|error| state.problem(&error))?;
    let (status, event) = outcome(verdict)?;
    let (status, counted) = match status {
        201 => (StatusCode::CREATED, ReportOutcome::Written),
        _ => (StatusCode::OK, ReportOutcome::Seen),
    };
    state.metrics.reported(counted);
    Ok(json(status, event.json.into()))
}

/// The one `Idempotency-Key` header, where there is any.
fn idempotency_key(request: &HttpRequest) -> Option<Result<Key255, FieldError>> {
    let mut headers = request.headers().get_all("idempotency-key");
    let first = headers.next()?;
    let single = if headers.next().is_some() { None } else { first.to_str().ok() };
    Some(single.unwrap_or_default().parse().map_err(|error| bad("/idempotency-key", error)))
}

fn bad(pointer: &str, error: ScalarError) -> FieldError {
    FieldError::expected(pointer, error.expected)
}
