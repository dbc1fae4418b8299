//! One event of a key at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perilune_proto::ResultEvent;
use tokio::sync::Semaphore;

use super::turn;
use crate::handler_pool::{EventContext, EventHandler, HandlerResult};

/// See [`one_at_a_time_per`](super::EventHandlerExt::one_at_a_time_per).
pub struct PerKey<H, F, K> {
    inner: H,
    key: F,
    /// Keys in use; at most one a slot.
    turns: Mutex<BTreeMap<K, Turn>>,
}

struct Turn {
    /// First come, first served.
    semaphore: Arc<Semaphore>,
    /// Who waits or works; the entry goes with the last of them.
    users: usize,
}

impl<H, F, K: Ord + Clone> PerKey<H, F, K> {
    pub(super) const fn new(inner: H, key: F) -> Self {
        Self { inner, key, turns: Mutex::new(BTreeMap::new()) }
    }

    fn turns(&self) -> MutexGuard<'_, BTreeMap<K, Turn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, key: K) -> Place<'_, H, F, K> {
        let semaphore = {
            let mut turns = self.turns();
            let turn =
                turns.entry(key.clone()).or_insert_with(|| Turn { semaphore: Arc::new(Semaphore::new(1)), users: 0 });
            turn.users += 1;
            Arc::clone(&turn.semaphore)
        };
        Place { layer: self, key, semaphore }
    }
}

/// A user of a key; leaves it however its event ends.
struct Place<'a, H, F, K: Ord + Clone> {
    layer: &'a PerKey<H, F, K>,
    key: K,
    semaphore: Arc<Semaphore>,
}

impl<H, F, K: Ord + Clone> Drop for Place<'_, H, F, K> {
    fn drop(&mut self) {
        let mut turns = self.layer.turns();
        if let Some(turn) = turns.get_mut(&self.key) {
            turn.users -= 1;
            if turn.users == 0 {
                turns.remove(&self.key);
            }
        }
    }
}

impl<H, F, K> EventHandler for PerKey<H, F, K>
where
    H: EventHandler,
    F: Fn(&ResultEvent) -> K + 'static,
    K: Ord + Clone + 'static,
{
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        let place = self.join((self.key)(&event));
        let _turn = turn(place.semaphore.acquire(), &context).await?;
        self.inner.handle(event, context).await
    }
}

impl<H: fmt::Debug, F, K> fmt::Debug for PerKey<H, F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key may be business data.
        f.debug_struct("PerKey").field("inner", &self.inner).finish_non_exhaustive()
    }
}
