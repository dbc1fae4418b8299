//! The store's housekeeping, whether or not anybody consumes: lapsed leases, log retention.

use std::sync::Arc;
use std::time::Duration;

use perilune_proto::scalar::SubscriptionId;

use super::state::State;
use super::store::{StoreError, Swept};

/// Longest wait between two sweeps: other servers lease from the same database.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Shortest wait, so that many deadlines close together share a sweep.
const SWEEP_REST: Duration = Duration::from_millis(5);
/// How often old events are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(5);

/// Sweeps when the next lease lapses, a second later at the latest.
pub(crate) async fn sweep(state: Arc<State>) {
    if let Ok(figures) = state.store.figures().await {
        figures.blocked.into_iter().for_each(warn_blocked);
    }
    loop {
        let wait = match state.store.sweep().await {
            Ok(swept) => {
                note(&state, &swept);
                if swept.more { Duration::ZERO } else { next(&state).await }
            }
            Err(StoreError::Closed) => return,
            Err(error) => {
                state.note(&error);
                SWEEP_EVERY
            }
        };
        tokio::time::sleep(wait.max(SWEEP_REST)).await;
    }
}

async fn next(state: &State) -> Duration {
    match state.store.next_wakeup().await {
        Ok(wakeup) => wakeup.map_or(SWEEP_EVERY, |wait| wait.min(SWEEP_EVERY)),
        Err(error) => {
            state.note(&error);
            SWEEP_EVERY
        }
    }
}

fn note(state: &State, swept: &Swept) {
    state.metrics.swept(swept);
    for expired in &swept.expired {
        let (subscription, count) = (expired.subscription_id, expired.count);
        tracing::warn!(%subscription, count, "deliveries are EXPIRED: their budget is spent, an operator must add some");
        if expired.blocked {
            warn_blocked(subscription);
        }
    }
}

/// Said when the server starts and whenever a subscription becomes so.
fn warn_blocked(subscription: SubscriptionId) {
    tracing::warn!(%subscription, "the subscription is blocked: its window is full of EXPIRED deliveries");
}

/// Removes old events from the log, where the configuration says so.
pub(crate) async fn retain(state: Arc<State>) {
    let retention = state.config.retention;
    if retention.max_age.is_none() && retention.max_events.is_none() {
        return;
    }
    loop {
        let mut wait = RETAIN_EVERY;
        match state.store.retain(retention).await {
            Ok(retained) => {
                state.metrics.events_forgotten.increment(retained.forgotten);
                if retained.forgotten > 0 {
                    tracing::info!(events = retained.forgotten, "log retention removed events");
                }
                if retained.more {
                    // A breath for whoever waits for the database.
                    wait = SWEEP_REST;
                }
            }
            Err(StoreError::Closed) => return,
            Err(error) => state.note(&error),
        }
        tokio::time::sleep(wait).await;
    }
}
