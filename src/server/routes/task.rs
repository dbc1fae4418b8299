//! `GET /v1/tasks/{task_id}`: the task's current snapshot.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, Resource};
use perilune_proto::scalar::TaskId;

use super::{id, json, read, resource};
use crate::server::auth::authorize;
use crate::server::problem::Problem;
use crate::server::request::query::Parameters;
use crate::server::state::State;
use crate::server::store::Scope;

pub(super) fn resource_of_task() -> Resource {
    resource("/v1/tasks/{task_id}", "GET, HEAD").route(read().to(show))
}

async fn show(state: Data<State>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Report).await?;
    Parameters::none(&request)?;
    let task_id: TaskId = id(&request, "task_id")?;
    let task = state.store.task(task_id).await.map_err(|error| state.problem(&error))?;
    // A task of another queue answers as one that nobody reported.
    let task = task.filter(|task| caller.reaches(&task.queue)).ok_or_else(Problem::not_found)?;
    Ok(json(StatusCode::OK, task.snapshot_json.into()))
}
