//! Counts each request by its route's pattern.

use std::time::Instant;

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::Next;
use actix_web::web::Data;

use crate::server::state::State;

/// Passes a request on and counts its answer.
pub(crate) async fn observe(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let begun = Instant::now();
    let state = request.app_data::<Data<State>>().cloned();
    let method = label(request.method());
    let answer = next.call(request).await?;
    if let Some(state) = state {
        // A pattern, never the path: labels are a closed set.
        let route = answer.request().match_pattern().unwrap_or_else(|| "other".to_owned());
        state.metrics.requested(method, route, answer.status().as_u16(), begun.elapsed());
    }
    Ok(answer)
}

const fn label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
