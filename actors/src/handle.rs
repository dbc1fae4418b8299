//! What an application holds of a run.

use std::fmt;
use std::sync::Arc;

use actix::WeakAddr;
use perilune_proto::consumer::Stats;
use perilune_proto::scalar::SubscriptionId;

use crate::error::RunError;
use crate::health::Health;
use crate::notice::Notices;
use crate::run_state::RunState;
use crate::supervisor::{ConsumerId, Stop, Supervisor};

/// A run of a consumer. Clones are the same run; usable from any thread.
///
/// When the last handle is dropped, the run is stopped in an orderly way, unwatched.
#[derive(Clone)]
pub struct ConsumerHandle(Arc<Hold>);

struct Hold {
    id: ConsumerId,
    run: Arc<RunState>,
    /// Weak: the run keeps its supervisor, its handles do not.
    supervisor: WeakAddr<Supervisor>,
}

impl Hold {
    fn stop(&self) {
        if let Some(supervisor) = self.supervisor.upgrade() {
            supervisor.do_send(Stop { id: self.id });
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ConsumerHandle {
    pub(crate) fn new(id: ConsumerId, run: Arc<RunState>, supervisor: WeakAddr<Supervisor>) -> Self {
        Self(Arc::new(Hold { id, run, supervisor }))
    }

    /// The run's id in this process.
    #[must_use]
    pub fn id(&self) -> ConsumerId {
        self.0.id
    }

    /// What it consumes.
    #[must_use]
    pub fn subscription_id(&self) -> SubscriptionId {
        self.0.run.subscription_id
    }

    /// Asks the run to stop and returns at once: no new handler starts, running handlers' tokens are told, what was
    /// committed is acknowledged. Once is enough, more is harmless. Await [`Self::ended`] for how it went.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Resolves with the run's end, for every caller and again later.
    ///
    /// # Errors
    /// A [`RunError`] for every end but that of a stop (or of `max_events`) with nothing left.
    pub async fn ended(&self) -> Result<(), RunError> {
        self.0.run.end().await
    }

    /// The run's figures at this moment. They are zero at each start; the gauges are zero again at its end.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.run.seen().stats
    }

    /// How it does at this moment.
    #[must_use]
    pub fn health(&self) -> Health {
        self.0.run.health()
    }

    /// What the run tells while it goes on. See [`Notices`].
    #[must_use]
    pub fn notices(&self) -> Notices {
        Notices { run: Arc::clone(&self.0.run) }
    }
}

impl fmt::Debug for ConsumerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerHandle")
            .field("id", &self.0.id)
            .field("subscription_id", &self.0.run.subscription_id)
            .field("health", &self.health().state)
            .finish()
    }
}
