//! `--max-events`: no more handlers than events are still wanted.

use std::num::NonZeroU64;
use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Lets so many handlers through as events are still wanted: one that fails gives its turn back.
#[derive(Debug, Clone)]
pub(crate) struct Turnstile(Arc<Semaphore>);

/// A handler's turn. Dropped unused, it goes to the next one.
#[derive(Debug)]
#[must_use]
pub(crate) struct Turn<'a>(SemaphorePermit<'a>);

impl Turnstile {
    /// A turnstile for so many events, or for all.
    pub(crate) fn new(events: Option<NonZeroU64>) -> Self {
        let most = events.and_then(|events| usize::try_from(events.get()).ok()).unwrap_or(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))))
    }

    /// Waits for a turn.
    pub(crate) async fn pass(&self) -> Option<Turn<'_>> {
        self.0.acquire().await.ok().map(Turn)
    }

    /// A handler's work was not confirmed after all, so that another one is wanted.
    pub(crate) fn want_one_more(&self) {
        if self.0.available_permits() < Semaphore::MAX_PERMITS {
            self.0.add_permits(1);
        }
    }
}

impl Turn<'_> {
    /// The event was handled.
    pub(crate) fn keep(self) {
        self.0.forget();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_turn_is_spent_by_success_and_given_back_by_failure() {
        let turnstile = Turnstile::new(NonZeroU64::new(1));
        drop(turnstile.pass().now_or_never().flatten().expect("the first turn"));
        turnstile.pass().now_or_never().flatten().expect("it was given back").keep();
        assert!(turnstile.pass().now_or_never().is_none(), "one is enough");
        turnstile.want_one_more();
        assert!(turnstile.pass().now_or_never().flatten().is_some());
    }
}
