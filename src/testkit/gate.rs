//! Numbered points of a run, at one of which it comes to harm.
//!
//! A process that is killed leaves behind what had reached the database and the platform by then, and nothing else.
//! The gate makes the same of a run in this process: whatever it still tries after its death is held back. What it
//! remembers does not matter, since a new run is made for the next attempt.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Harm {
    /// The process dies: nothing of it gets out any more. Another one takes its place.
    Crash,
    /// The connection at hand is lost, to the platform or to the database. The process lives on.
    Cut,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Crash => "crash",
            Self::Cut => "cut",
        })
    }
}

/// Hold this back, and let its connection go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Struck;

/// Counts the points of one run.
pub struct Gate {
    harm: Harm,
    state: Mutex<State>,
    dead: watch::Sender<bool>,
}

struct State {
    passed: u64,
    strikes_at: Option<u64>,
    /// The point at which it struck.
    struck: Option<String>,
}

impl Gate {
    /// Lets everything pass until it is armed.
    pub(crate) fn new(harm: Harm) -> Self {
        let state = State { passed: 0, strikes_at: None, struck: None };
        Self { harm, state: Mutex::new(state), dead: watch::Sender::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does harm at the nth point from here, counted from 1.
    pub(crate) fn arm(&self, strikes_at: u64) {
        self.state().strikes_at = Some(strikes_at);
    }

    pub(crate) const fn harm(&self) -> Harm {
        self.harm
    }

    /// Passes a point, unless harm is done there or the run is dead.
    pub(crate) fn pass(&self, point: impl FnOnce() -> String) -> Result<(), Struck> {
        if self.is_dead() {
            return Err(Struck);
        }
        let mut state = self.state();
        let Some(strikes_at) = state.strikes_at else { return Ok(()) };
        state.passed += 1;
        if state.passed < strikes_at {
            return Ok(());
        }
        state.strikes_at = None;
        state.struck = Some(point());
        if self.harm == Harm::Crash {
            self.dead.send_replace(true);
        }
        Err(Struck)
    }

    /// Counts no further: what is left of the run is its orderly end. Whoever is dead stays so.
    pub(crate) fn open(&self) {
        self.state().strikes_at = None;
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    /// The point at which harm was done.
    pub(crate) fn struck(&self) -> Option<String> {
        self.state().struck.clone()
    }

    /// Resolves once the run is dead.
    pub(crate) async fn died(&self) {
        // The sender lives as long as this gate.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(gate: &Gate, point: &str) -> Result<(), Struck> {
        gate.pass(|| point.to_owned())
    }

    #[test]
    fn a_run_dies_at_its_point_and_stays_dead() {
        let gate = Gate::new(Harm::Crash);
        assert_eq!(pass(&gate, "not armed yet"), Ok(()));
        gate.arm(2);
        assert_eq!(pass(&gate, "one"), Ok(()));
        assert!(!gate.is_dead());
        assert_eq!(pass(&gate, "two"), Err(Struck));
        gate.open();
        assert_eq!(pass(&gate, "three"), Err(Struck));
        assert_eq!((gate.is_dead(), gate.struck().as_deref()), (true, Some("two")));
    }

    #[test]
    fn a_cut_is_done_once_and_the_run_lives_on() {
        let gate = Gate::new(Harm::Cut);
        gate.arm(1);
        assert_eq!(pass(&gate, "one"), Err(Struck));
        assert_eq!(pass(&gate, "two"), Ok(()));
        assert_eq!((gate.is_dead(), gate.struck().as_deref()), (false, Some("one")));
    }

    #[test]
    fn a_gate_that_is_not_armed_lets_everything_pass() {
        let gate = Gate::new(Harm::Crash);
        assert!((0..1_000).all(|_| pass(&gate, "").is_ok()));
        gate.arm(2);
        gate.open();
        assert!((0..1_000).all(|_| pass(&gate, "").is_ok()));
        assert_eq!(gate.struck(), None);
    }
}
