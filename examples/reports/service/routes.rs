//! What the page calls beside the status resource.

use std::sync::Arc;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, SET_COOKIE};
use actix_web::{HttpRequest, HttpResponse, web};
use perilune::outbox::RelayHandle;
use perilune::outcome::status::acceptance_response;
use perilune::outcome::{Caller, FindOutcome, OperationId, OutcomeQuery};
use serde::Deserialize;
use serde_json::json;
use sqlx::Sqlite;

use super::books;
use super::operation::{ReportGenerated, ReportWanted};
use super::orders::Orders;
use super::people;

/// An order is far smaller.
const BODY_BYTES_MAX: usize = 1_024;
const PRIVATE: (actix_web::http::header::HeaderName, &str) = (CACHE_CONTROL, "private, no-store");

/// What the routes work with.
pub(crate) struct State {
    pub(crate) orders: Orders,
    pub(crate) query: OutcomeQuery<Sqlite>,
    pub(crate) relay: Arc<RelayHandle>,
}

pub(crate) fn api(config: &mut web::ServiceConfig) {
    let json = web::JsonConfig::default().limit(BODY_BYTES_MAX).error_handler(|error, _| {
        let body = json!({"status": "error", "code": "malformed_request", "detail": error.to_string()});
        actix_web::error::InternalError::from_response(error, HttpResponse::BadRequest().json(body)).into()
    });
    config
        .app_data(json)
        .route("/session", web::get().to(show_session))
        .route("/session", web::post().to(change_session))
        .route("/reports", web::get().to(list))
        .route("/reports", web::post().to(order))
        .route("/reports/{id}/file", web::get().to(file));
}

fn refusal(mut response: actix_web::HttpResponseBuilder, code: &str) -> HttpResponse {
    response.insert_header(PRIVATE).json(json!({"status": "error", "code": code}))
}

fn unauthenticated() -> HttpResponse {
    refusal(HttpResponse::Unauthorized(), "unauthenticated")
}

fn failed(error: impl std::fmt::Display) -> HttpResponse {
    eprintln!("reports: {error}");
    refusal(HttpResponse::InternalServerError(), "internal_error")
}

/// `GET /api/session`: who is signed in, and who might be.
async fn show_session(request: HttpRequest) -> HttpResponse {
    let body = json!({"person": people::signed_in(&request), "people": people::PEOPLE});
    HttpResponse::Ok().insert_header(PRIVATE).json(body)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    /// `None` signs out.
    person: Option<String>,
}

/// `POST /api/session`: signs a person in, or out.
async fn change_session(sign_in: web::Json<SignIn>) -> HttpResponse {
    let person = match sign_in.person.as_deref().map(people::named) {
        Some(None) => return refusal(HttpResponse::UnprocessableEntity(), "unknown_person"),
        Some(person) => person,
        None => None,
    };
    HttpResponse::NoContent().insert_header(PRIVATE).insert_header((SET_COOKIE, people::cookie(person))).finish()
}

/// `GET /api/reports`: one's own orders.
async fn list(request: HttpRequest, state: web::Data<State>) -> HttpResponse {
    let Some(person) = people::signed_in(&request) else { return unauthenticated() };
    match state.orders.of(person).await {
        Ok(orders) => HttpResponse::Ok().insert_header(PRIVATE).json(json!({"items": orders})),
        Err(error) => failed(error),
    }
}

/// `POST /api/reports`: accepts an order; 202 says where its status is.
async fn order(request: HttpRequest, wanted: web::Json<ReportWanted>, state: web::Data<State>) -> HttpResponse {
    let Some(person) = people::signed_in(&request) else { return unauthenticated() };
    let orders = state.orders.clone();
    // A request is dropped when its client goes away; a transaction must not be dropped half-way.
    match actix_web::rt::spawn(async move { orders.place(person, *wanted).await }).await {
        Ok(Ok(accepted)) => {
            state.relay.wake();
            acceptance_response("/api", &accepted)
        }
        Ok(Err(error)) => failed(error),
        Err(error) => failed(error),
    }
}

/// `GET /api/reports/{id}/file`: the report as a file, made of its typed outcome. Whoever may not know it, finds none.
async fn file(request: HttpRequest, id: web::Path<String>, state: web::Data<State>) -> HttpResponse {
    let Some(person) = people::signed_in(&request) else { return unauthenticated() };
    let unavailable = || refusal(HttpResponse::NotFound(), "operation_unavailable");
    // A malformed id takes the steps of an unknown one.
    let id = id.parse().unwrap_or_else(|_| OperationId::from_u128(0));
    let record = match state.query.find(id, &Caller::from(person)).await {
        Ok(FindOutcome::Found(record)) => record,
        Ok(FindOutcome::Unavailable) => return unavailable(),
        Err(error) => return failed(error),
    };
    match record.outcome() {
        Ok(ReportGenerated::Ready { regions, file_name, .. }) => HttpResponse::Ok()
            .insert_header(PRIVATE)
            .insert_header((CONTENT_DISPOSITION, format!("attachment; filename=\"{file_name}\"")))
            .content_type("text/csv; charset=utf-8")
            .body(books::csv(&regions)),
        Ok(ReportGenerated::NothingBooked { .. }) => unavailable(),
        Err(error) => failed(error),
    }
}
