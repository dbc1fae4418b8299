//! `/metrics`, in the Prometheus text form.

use std::time::Duration;

use actix_web::http::header;
use actix_web::web::Data;
use actix_web::{HttpResponse, Resource};

use super::{read, resource};
use crate::server::state::State;

/// How long a scrape waits for the store's figures; without them the last ones are shown.
const FIGURES_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn resource_for_scrapes() -> Resource {
    resource("/metrics", "GET, HEAD").route(read().to(metrics))
}

async fn metrics(state: Data<State>) -> HttpResponse {
    let figures = match tokio::time::timeout(FIGURES_TIMEOUT, state.store.figures()).await {
        Ok(Ok(figures)) => Some(figures),
        Ok(Err(error)) => {
            state.note(&error);
            None
        }
        Err(_) => None,
    };
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4"))
        .body(state.metrics.render(figures.as_ref()))
}
