//! The answer to whoever asked for an operation: 202, with where to ask how it stands.

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, LOCATION, RETRY_AFTER};

use crate::outcome::AcceptedOperation;

/// 202 with `Location` (below `base`, where the status resource is mounted), `Retry-After`, and
/// `{"operationId","acceptedAt"}`.
///
/// Source: outcome.md section 4.
#[must_use]
pub fn acceptance_response(base: &str, accepted: &AcceptedOperation) -> HttpResponse {
    let id = accepted.operation_id;
    HttpResponse::Accepted()
        .insert_header((LOCATION, format!("{}/operations/{id}", base.trim_end_matches('/'))))
        .insert_header((RETRY_AFTER, 1))
        .insert_header((CACHE_CONTROL, "private, no-store"))
        .json(serde_json::json!({ "operationId": id, "acceptedAt": accepted.accepted_at }))
}
