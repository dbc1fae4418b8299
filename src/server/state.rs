//! What every route and session of one server shares.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::config::ServerConfig;
use super::gate::Gate;
use super::lanes::Lanes;
use super::metrics::Metrics;
use super::problem::{Code, Problem};
use super::request::budget::Budget;
use super::store::{Store, StoreError};

/// How many batches of the largest size fit into memory at once; smaller ones share the room.
const BATCHES: usize = 4;

/// Whether the server goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It serves.
    Serving,
    /// It was told to stop: sessions end, running requests finish.
    Stopping,
}

/// One server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: ServerConfig,
    pub(crate) metrics: Metrics,
    /// Requests that are being answered.
    pub(crate) requests: Arc<Gate>,
    /// WebSockets, registered or not.
    pub(crate) sessions: Arc<Gate>,
    /// Bytes of batches that are being read or written.
    pub(crate) batches: Arc<Budget>,
    /// Registered sessions by subscription.
    pub(crate) lanes: Lanes,
    pub(crate) phase: watch::Sender<Phase>,
    /// Where deliveries are leased, whichever thread a session runs on.
    pub(crate) runtime: Handle,
    /// The OpenAPI document's text.
    pub(crate) openapi: String,
}

impl State {
    /// Sets a server up. Must be called on the runtime that is to lease deliveries.
    pub(crate) fn new(config: ServerConfig, store: Arc<dyn Store>) -> Arc<Self> {
        let (limits, metrics) = (&config.limits, Metrics::new());
        Arc::new(Self {
            requests: Gate::new(limits.requests, limits.requests_per_credential, metrics.requests.clone()),
            sessions: Gate::new(limits.sessions, limits.sessions_per_credential, metrics.sessions.clone()),
            batches: Budget::new(limits.batch_bytes.saturating_mul(BATCHES)),
            metrics,
            lanes: Lanes::new(limits.sessions_per_subscription),
            phase: watch::Sender::new(Phase::Serving),
            runtime: Handle::current(),
            openapi: super::openapi::document(&config).to_string(),
            store,
            config,
        })
    }

    /// What a store's error is to the client, counted and logged where it is the server's own trouble.
    pub(crate) fn problem(&self, error: &StoreError) -> Problem {
        let unavailable = |detail: &'static str| Problem::new(Code::Unavailable, detail);
        match error {
            StoreError::NotFound(_) => return Problem::not_found(),
            StoreError::NotExpired => return Problem::new(Code::NotExpired, "only an expired delivery takes budget"),
            _ => self.note(error),
        }
        match error {
            StoreError::Busy => unavailable("the store has too much to do"),
            StoreError::Full => unavailable("the store's disk is full").retry_after(30),
            StoreError::Closed | StoreError::Unavailable(_) => unavailable("the store does not answer"),
            _ => Problem::new(Code::Internal, "the store failed"),
        }
    }

    /// Counts and logs that the store could not answer.
    pub(crate) fn note(&self, error: &StoreError) {
        self.metrics.store_errors.increment(1);
        match error {
            StoreError::Unavailable(cause) => tracing::warn!(%error, %cause, "the store failed"),
            StoreError::Busy | StoreError::Closed => tracing::debug!(%error, "the store refused"),
            _ => tracing::error!(%error, "the store failed"),
        }
    }
}
