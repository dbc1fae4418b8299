//! The HTTP API: one file a resource.
//!
//! Every refusal is a problem document, whatever refuses: the router included.

mod batch;
mod delivery;
mod events;
pub(crate) mod form;
mod health;
mod incoming;
mod metrics;
mod observe;
mod openapi;
mod report;
mod subscription;
mod task;
mod view;

use actix_web::guard;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, Resource, ResponseError as _, Route};

use super::problem::Problem;

pub(crate) use self::batch::NDJSON;
pub(crate) use self::observe::observe;

/// What a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// The whole API, metrics included.
    Everything,
    /// The API; another listener has the metrics.
    Api,
    /// Metrics and health alone.
    Metrics,
}

/// Adds a listener's routes.
pub(crate) fn configure(config: &mut ServiceConfig, serves: Serves) {
    if serves != Serves::Api {
        config.service(metrics::resource_for_scrapes());
    }
    for resource in health::resources() {
        config.service(resource);
    }
    if serves != Serves::Metrics {
        config.service(openapi::resource_of_document());
        config.service(events::resource_of_events());
        config.service(report::resource_of_reports());
        config.service(batch::resource_of_batches());
        config.service(task::resource_of_task());
        subscription::resources().into_iter().chain(delivery::resources()).for_each(|resource| {
            config.service(resource);
        });
    }
    config.default_service(web::to(async || Problem::not_found().error_response()));
}

/// A resource that refuses methods it does not have, naming those it has.
fn resource(path: &str, allow: &'static str) -> Resource {
    web::resource(path)
        .default_service(web::to(move || async move { Problem::method_not_allowed(allow).error_response() }))
}

/// A route for GET, and for HEAD, whose body the connection leaves out.
fn read() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

/// The path's segment of that name; empty where the pattern has none.
fn segment<'r>(request: &'r HttpRequest, name: &str) -> &'r str {
    request.match_info().get(name).unwrap_or_default()
}

/// The path's id. A text that is none names nothing that exists.
fn id<T: std::str::FromStr>(request: &HttpRequest, name: &str) -> Result<T, Problem> {
    segment(request, name).parse().map_err(|_| Problem::not_found())
}

/// Where the next page begins, as the query says.
fn after<T: std::str::FromStr>(parameters: &mut super::request::query::Parameters) -> Option<T> {
    parameters.parsed("after", "must be the next of an earlier page", |text| text.parse().ok())
}

/// A JSON answer. Answers to a credential are never kept by anybody between.
fn json(status: actix_web::http::StatusCode, body: String) -> HttpResponse {
    use actix_web::http::header;
    HttpResponse::build(status)
        .insert_header((header::CONTENT_TYPE, "application/json"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(body)
}
