//! `GET /v1/events`: the WebSocket of events-v1.md.

use std::rc::Rc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse, Resource};
use perilune_proto::limits::{EVENTS_PATH, FRAME_BYTES_MAX};

use super::resource;
use crate::server::auth::{authenticate, expect_scope};
use crate::server::connection::Wire;
use crate::server::problem::{Code, Problem};
use crate::server::request::query::Parameters;
use crate::server::session::{self, Parts};
use crate::server::socket::handshake;
use crate::server::socket::inlet::Inlet;
use crate::server::socket::outbox::outbox;
use crate::server::state::{Phase, State};
use crate::server::store::Scope;

pub(super) fn resource_of_events() -> Resource {
    resource(EVENTS_PATH, "GET").route(actix_web::web::get().to(open))
}

/// Judges the credential before the 101, the subscription by frames after it.
async fn open(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let (principal, presented) = authenticate(&state, &request).await?;
    expect_scope(&principal, Scope::Consume)?;
    Parameters::none(&request)?;
    let mut answer = handshake::accept(request.head())?;
    if *state.phase.borrow() == Phase::Stopping {
        return Err(Problem::new(Code::Unavailable, "the server is stopping"));
    }
    let pass = state.sessions.enter(principal.credential_id).map_err(|_| {
        state.metrics.limited.increment(1);
        Problem::new(Code::RateLimited, "there are too many sessions").retry_after(5)
    })?;
    let Some(wire) = request.conn_data::<Rc<Wire>>().map(Rc::clone) else {
        return Err(Problem::new(Code::Internal, "the connection is not watched"));
    };
    let (outbox, body) = outbox();
    let inlet = Inlet::new(payload, FRAME_BYTES_MAX);
    let state = state.into_inner();
    actix_web::rt::spawn(session::run(Parts { state, presented, pass, inlet, outbox, wire }));
    Ok(answer.body(actix_web::body::BoxBody::new(body)))
}
