//! `/v1/subscriptions`: create, list, show, pause, resume, seek, delete.

use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::web::{self, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, Resource};

use super::form::{seek as read_seek, settings};
use super::view::{PageView, SubscriptionView, text};
use super::{after, id, json, read, resource};
use crate::server::auth::{Caller, authorize};
use crate::server::problem::Problem;
use crate::server::request::body::{json_text, no_body};
use crate::server::request::query::Parameters;
use crate::server::state::State;
use crate::server::store::{ListSubscriptions, Scope, StoreError, SubscriptionKey, SubscriptionRecord, Switch};

pub(super) fn resources() -> [Resource; 5] {
    [
        resource("/v1/subscriptions", "GET, HEAD, POST").route(read().to(list)).route(web::post().to(create)),
        resource("/v1/subscriptions/{id}", "GET, HEAD, DELETE").route(read().to(show)).route(web::delete().to(delete)),
        resource("/v1/subscriptions/{id}/pause", "POST").route(web::post().to(pause)),
        resource("/v1/subscriptions/{id}/resume", "POST").route(web::post().to(resume)),
        resource("/v1/subscriptions/{id}/seek", "POST").route(web::post().to(seek)),
    ]
}

async fn create(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    Parameters::none(&request)?;
    let new = settings(&json_text(&request, payload).await?, caller.credential_id())?;
    new.queues.iter().try_for_each(|queue| caller.expect_queue(Some(queue)))?;
    let record = state.store.create_subscription(new).await.map_err(|error| state.problem(&error))?;
    let location = format!("/v1/subscriptions/{}", record.subscription.subscription_id);
    let mut answer = shown(&state, StatusCode::CREATED, record)?;
    // An id is a header value that needs no escaping.
    if let Ok(location) = location.parse() {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

async fn list(state: Data<State>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    let mut parameters = Parameters::read(&request, &["after", "limit"])?;
    let limit = parameters.integer("limit", 1..=1_000, 100);
    let after = after(&mut parameters);
    parameters.finish()?;
    let list = ListSubscriptions { credential_id: caller.credential_id(), after, limit };
    let page = state.store.subscriptions(list).await.map_err(|error| state.problem(&error))?;
    let items: Vec<_> = page.items.into_iter().map(|record| view(&state, record)).collect();
    Ok(json(StatusCode::OK, text(&PageView { items, next: page.next.map(|next| next.to_string()) })?))
}

async fn show(state: Data<State>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    Parameters::none(&request)?;
    let record = state.store.subscription(key(&caller, &request)?).await;
    answer(&state, record)
}

async fn pause(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    switch(&state, &request, payload, Switch::Pause).await
}

async fn resume(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    switch(&state, &request, payload, Switch::Resume).await
}

async fn switch(state: &State, request: &HttpRequest, payload: Payload, to: Switch) -> Result<HttpResponse, Problem> {
    let caller = authorize(state, request, Scope::Manage).await?;
    Parameters::none(request)?;
    let key = key(&caller, request)?;
    no_body(request, payload).await?;
    let record = state.store.switch_subscription(key, to).await;
    answer(state, record)
}

async fn seek(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    Parameters::none(&request)?;
    let key = key(&caller, &request)?;
    let to = read_seek(&json_text(&request, payload).await?)?;
    let record = state.store.seek_subscription(key, to).await;
    answer(&state, record)
}

async fn delete(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Manage).await?;
    Parameters::none(&request)?;
    let key = key(&caller, &request)?;
    no_body(&request, payload).await?;
    // Its sessions hear of it from the store's news.
    state.store.delete_subscription(key).await.map_err(|error| state.problem(&error))?;
    Ok(HttpResponse::NoContent().finish())
}

/// Names the path's subscription for this caller. Another's is not found by it.
pub(super) fn key(caller: &Caller, request: &HttpRequest) -> Result<SubscriptionKey, Problem> {
    Ok(SubscriptionKey { credential_id: caller.credential_id(), subscription_id: id(request, "id")? })
}

/// 200 with the subscription.
pub(super) fn answer(state: &State, record: Result<SubscriptionRecord, StoreError>) -> Result<HttpResponse, Problem> {
    shown(state, StatusCode::OK, record.map_err(|error| state.problem(&error))?)
}

fn shown(state: &State, status: StatusCode, record: SubscriptionRecord) -> Result<HttpResponse, Problem> {
    Ok(json(status, text(&view(state, record))?))
}

fn view(state: &State, record: SubscriptionRecord) -> SubscriptionView {
    let sessions = state.lanes.sessions(record.subscription.subscription_id);
    SubscriptionView::new(record, sessions)
}
