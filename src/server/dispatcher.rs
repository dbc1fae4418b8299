//! Free credit to leases: one task a lane asks the store whenever a lease may succeed.
//!
//! Nothing here decides who gets what: the store does, by `proto::dispatch`, in commits that many lanes share.
//! A task waits for the store's news, for a session that can take something again, or for the time that the
//! store named; it never polls.

use std::sync::Arc;
use std::time::Duration;

use perilune_proto::session::server::Refusal;
use perilune_proto::wire::ErrorCode;

use super::lanes::{Found, Grant, Lane};
use super::state::State;
use super::store::{LeaseRequest, Leases, SessionCredit, Supply, Wake};

/// After a store's error, ask again after this long.
const RETRY: Duration = Duration::from_millis(500);

/// Dispatches for one lane until its last session has left.
pub(crate) async fn dispatch(state: Arc<State>, lane: Arc<Lane>) {
    loop {
        let again_in = match lane.look() {
            Found::Closed => return,
            Found::Nothing => None,
            Found::Sessions(sessions) => lease(&state, &lane, sessions).await,
        };
        match again_in {
            None => lane.news().await,
            Some(wait) if wait.is_zero() => tokio::task::yield_now().await,
            Some(wait) => {
                // Whether news or the time came first, the next look finds what there is.
                let _timely = tokio::time::timeout(wait, lane.news()).await;
            }
        }
    }
}

/// Passes the store's news on to the lanes, until the store is closed.
pub(crate) async fn listen(state: Arc<State>) {
    let mut wakes = state.store.wakes();
    // Whatever came before is not among them.
    state.lanes.wake(&Wake::Everything);
    while let Some(wake) = wakes.next().await {
        state.lanes.wake(&wake);
    }
}

/// Asks once. Says when to ask again although nothing woke the lane.
async fn lease(state: &State, lane: &Lane, sessions: Vec<SessionCredit>) -> Option<Duration> {
    let lease = Duration::from_millis(state.config.lease_ms.into());
    let request = LeaseRequest { subscription_id: lane.subscription_id, lease, sessions };
    match state.store.lease(request).await {
        Ok(leases) => hand_out(state, lane, leases),
        Err(error) => {
            state.note(&error);
            lane.was_not_answered();
            Some(RETRY)
        }
    }
}

fn hand_out(state: &State, lane: &Lane, leases: Leases) -> Option<Duration> {
    state.metrics.lease_rounds.increment(1);
    state.metrics.lease_round_deliveries.record(leases.granted.len() as f64);
    let began = leases.began;
    for lease in leases.granted {
        if lane.hand(Grant { lease, began }).is_err() {
            state.metrics.deliveries_unsent.increment(1);
        }
    }
    match leases.supply {
        Supply::Flowing | Supply::Paused | Supply::Blocked | Supply::Unauthenticated => {}
        Supply::HistoryGap => lane.end(&history_gap()),
        Supply::Gone => lane.end(&not_found()),
    }
    leases.again_in
}

/// The refusal of a subscription whose next event the log no longer holds.
pub(crate) fn history_gap() -> Refusal {
    Refusal::new(ErrorCode::HistoryGap, "the log no longer holds the next event; an operator must seek")
}

/// The refusal of a subscription that is not there.
pub(crate) fn not_found() -> Refusal {
    Refusal::new(ErrorCode::SubscriptionNotFound, "no such subscription exists for this credential")
}
