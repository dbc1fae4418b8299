//! `/openapi.json`: what [`crate::server::openapi`] says about the routes.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpResponse, Resource};

use super::{json, read, resource};
use crate::server::state::State;

pub(super) fn resource_of_document() -> Resource {
    resource("/openapi.json", "GET, HEAD").route(read().to(document))
}

async fn document(state: Data<State>) -> HttpResponse {
    json(StatusCode::OK, state.openapi.clone())
}
