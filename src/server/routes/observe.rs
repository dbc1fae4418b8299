//! Counts each request by its route's pattern, and answers those that a stopping server can't wait for.

use std::time::{Duration, Instant};

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::Next;
use actix_web::web::Data;

use crate::server::problem::{Code, Problem};
use crate::server::state::{Phase, State};

/// How long before the end of its time a stopping server answers what still runs: the answer has a way to go, too.
const FAREWELL: Duration = Duration::from_millis(500);

/// Passes a request on and counts its answer. A request that still waits when a stopping server's time is nearly over,
/// for the store or for the rest of its own body, is told so with 503 while its connection is there.
pub(crate) async fn observe(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let begun = Instant::now();
    let state = request.app_data::<Data<State>>().cloned();
    let method = label(request.method());
    let Some(state) = state else { return next.call(request).await };
    let answer = tokio::select! {
        biased;
        answer = next.call(request) => answer?,
        () = out_of_time(&state) => {
            state.metrics.requested(method, "other".to_owned(), Code::Unavailable.status(), begun.elapsed());
            return Err(Problem::new(Code::Unavailable, "the server stops and has no time left").into());
        }
    };
    // A pattern, never the path: labels are a closed set.
    let route = answer.request().match_pattern().unwrap_or_else(|| "other".to_owned());
    state.metrics.requested(method, route, answer.status().as_u16(), begun.elapsed());
    Ok(answer)
}

/// Waits until a stopping server's time is nearly over.
async fn out_of_time(state: &State) {
    // The sender lives in the state, so the wait can't fail.
    let mut phase = state.phase.subscribe();
    phase.wait_for(|phase| *phase == Phase::Stopping).await.map(drop).unwrap_or_default();
    let time = state.config.shutdown_timeout;
    tokio::time::sleep(time.saturating_sub(FAREWELL.min(time / 4))).await;
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
