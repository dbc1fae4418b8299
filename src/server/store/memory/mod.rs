//! The store in memory: the reference that the SQL stores are tested against.
//!
//! Deliveries live by [`perilune_proto::lease`], credit by [`perilune_proto::dispatch`], tasks by
//! [`perilune_proto::task`]. It loses everything when it is dropped; it is for tests and for trying things out.

mod credential;
mod delivery;
mod state;
mod subscription;
mod task;
mod upkeep;

use std::sync::{Arc, Mutex, PoisonError};

use perilune_proto::lease::Moment;

use super::upkeep::Waker;
use super::{Answer, Clock, StoreError};
use state::State;

/// A [`Store`](super::Store) in memory.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    waker: Waker,
    // `None` once the store is closed. No guard is held across an await.
    state: Mutex<Option<State>>,
}

/// The two times of the clock at the moment of a question.
#[derive(Debug, Clone, Copy)]
struct Times {
    now: Moment,
    wall: Moment,
}

impl MemoryStore {
    /// An empty store that lives by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, waker: Waker::new(), state: Mutex::new(Some(State::new())) }
    }

    /// Answers one question while nobody else asks.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut State, Times) -> Result<T, StoreError>,
    ) -> Answer<'_, T> {
        let times = Times { now: self.clock.now(), wall: self.clock.wall() };
        let answer = match &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(state) => {
                let answer = question(state, times);
                state.wakes.drain(..).for_each(|wake| self.waker.wake(wake));
                answer
            }
            None => Err(StoreError::Closed),
        };
        Box::pin(std::future::ready(answer))
    }
}
