//! `/healthz`: the process runs. `/readyz`: the store answers, and the server is not stopping.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpResponse, Resource};

use super::{json, read, resource};
use crate::server::problem::{Code, Problem};
use crate::server::state::{Phase, State};

/// How long the store may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn resources() -> [Resource; 2] {
    [
        resource("/healthz", "GET, HEAD").route(read().to(healthz)),
        resource("/readyz", "GET, HEAD").route(read().to(readyz)),
    ]
}

async fn healthz() -> HttpResponse {
    json(StatusCode::OK, r#"{"status":"ok"}"#.to_owned())
}

async fn readyz(state: Data<State>) -> Result<HttpResponse, Problem> {
    if *state.phase.borrow() == Phase::Stopping {
        return Err(Problem::new(Code::Unavailable, "the server is stopping"));
    }
    match tokio::time::timeout(PROBE_TIMEOUT, state.store.probe()).await {
        Ok(Ok(())) => Ok(json(StatusCode::OK, r#"{"status":"ready"}"#.to_owned())),
        Ok(Err(error)) => {
            state.note(&error);
            Err(Problem::new(Code::Unavailable, "the store does not answer"))
        }
        Err(_) => Err(Problem::new(Code::Unavailable, "the store did not answer in time")),
    }
}
