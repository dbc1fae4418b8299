//! Trying a call again while the platform is busy or away.

use std::time::{Duration, Instant};

use perilune_proto::backoff::Backoff;
use perilune_proto::limits::RETRY_AFTER_HONOURED_MAX;
use perilune_proto::rng::Rng;

use super::api::ApiError;
use super::duration;
use super::signals::StopSignal;

const DELAYS: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

/// What the last attempt, which begins when the time is over, may still take.
const LAST_ATTEMPT: Duration = Duration::from_secs(1);

/// Decides whether a failed call is made again, and waits.
#[derive(Debug)]
pub(crate) struct Retry {
    give_up_after: Duration,
    rng: Rng,
    attempt: u32,
    /// When the first of the attempts that failed in a row began.
    since: Option<Instant>,
}

impl Retry {
    /// Tries for so long, from the beginning of the first attempt that failed; once more when that time is over.
    pub(crate) fn new(give_up_after: Duration) -> Self {
        Self { give_up_after, rng: Rng::new(rand::random()), attempt: 0, since: None }
    }

    /// Makes an attempt, which ends when the time does.
    ///
    /// # Errors
    /// Its own error, or that there was no answer in time.
    pub(crate) async fn attempt<T>(&mut self, call: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.give_up_after.saturating_sub(since.elapsed()).max(LAST_ATTEMPT);
        let none = || ApiError::Unreachable(format!("no answer from the platform within {}", duration::show(left)));
        tokio::time::timeout(left, call).await.unwrap_or_else(|_| Err(none()))
    }

    /// A call went well: the next failure is the first again.
    pub(crate) const fn reset(&mut self) {
        self.attempt = 0;
        self.since = None;
    }

    /// Waits for the moment of the next attempt.
    ///
    /// # Errors
    /// The error itself where another attempt is hopeless, too late, or not wanted any more.
    pub(crate) async fn wait(&mut self, error: ApiError, stop: Option<&StopSignal>) -> Result<(), ApiError> {
        let Some(asked) = error.retry() else { return Err(error) };
        let left = self.give_up_after.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
        if left.is_zero() {
            return Err(error);
        }
        self.attempt += 1;
        let delay =
            DELAYS.draw(self.attempt, &mut self.rng).max(asked.unwrap_or_default().min(RETRY_AFTER_HONOURED_MAX));
        // The last attempt is made when the time is over, whatever the platform asks for.
        let delay = delay.min(left);
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
