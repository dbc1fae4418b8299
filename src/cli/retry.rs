//! Trying a call again while the platform is busy or away.

use std::time::{Duration, Instant};

use perilune_proto::backoff::Backoff;
use perilune_proto::limits::RETRY_AFTER_HONOURED_MAX;
use perilune_proto::rng::Rng;

use super::api::ApiError;
use super::signals::StopSignal;

const DELAYS: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

/// Decides whether a failed call is made again, and waits.
#[derive(Debug)]
pub(crate) struct Retry {
    give_up_after: Duration,
    rng: Rng,
    attempt: u32,
    failing_since: Option<Instant>,
}

impl Retry {
    /// Tries for so long after the first failure in a row.
    pub(crate) fn new(give_up_after: Duration) -> Self {
        Self { give_up_after, rng: Rng::new(rand::random()), attempt: 0, failing_since: None }
    }

    /// A call went well: the next failure is the first again.
    pub(crate) const fn reset(&mut self) {
        self.attempt = 0;
        self.failing_since = None;
    }

    /// Waits for the moment of the next attempt.
    ///
    /// # Errors
    /// The error itself where another attempt is hopeless, too late, or not wanted any more.
    pub(crate) async fn wait(&mut self, error: ApiError, stop: Option<&StopSignal>) -> Result<(), ApiError> {
        let Some(asked) = error.retry() else { return Err(error) };
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        self.attempt += 1;
        let delay =
            DELAYS.draw(self.attempt, &mut self.rng).max(asked.unwrap_or_default().min(RETRY_AFTER_HONOURED_MAX));
        if since.elapsed() + delay > self.give_up_after {
            return Err(error);
        }
        let stopped = async {
            match stop {
                Some(stop) => stop.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            () = stopped => Err(error),
        }
    }
}
