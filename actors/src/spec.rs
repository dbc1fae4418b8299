//! What a run is made of, for as long as any of its actors lives.

use std::sync::Arc;

use perilune_client::Client;
use perilune_proto::consumer::ConsumerConfig;

use crate::connection::ReaderSlot;
use crate::error::{RunError, RunErrorKind};
use crate::handler_pool::Handlers;
use crate::run_state::RunState;

/// One run: options, user code, and where its figures go. Shared by the shells that it may need.
pub(crate) struct Spec {
    pub(crate) config: ConsumerConfig,
    pub(crate) client: Client,
    pub(crate) handlers: Arc<Handlers>,
    /// One socket's reader at a time, whichever actors come and go.
    pub(crate) reader: ReaderSlot,
    pub(crate) run: Arc<RunState>,
}

impl Drop for Spec {
    fn drop(&mut self) {
        // Its actors are gone. If none of them has told the end, their arbiter was stopped under them: never silence.
        self.run.finish(Err(RunError::new(RunErrorKind::Aborted)));
    }
}
