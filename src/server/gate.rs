//! How many requests and sessions at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::Gauge;

use super::store::CredentialId;

/// Counts what runs, in all and for each credential, and refuses one more than the limits.
#[derive(Debug)]
pub(crate) struct Gate {
    total_max: usize,
    each_max: usize,
    /// Shows the total.
    gauge: Gauge,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    /// Credentials with something running; none is kept at zero.
    each: HashMap<CredentialId, usize>,
}

/// One place behind the gate. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    credential: CredentialId,
}

/// A limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Gate {
    /// Makes a gate with room for so many in all and of each credential.
    pub(crate) fn new(total_max: usize, each_max: usize, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { total_max, each_max, gauge, counts: Mutex::default() })
    }

    /// Takes a place.
    pub(crate) fn enter(self: &Arc<Self>, credential: CredentialId) -> Result<Pass, Full> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.each.get(&credential).copied().unwrap_or_default();
        if counts.total >= self.total_max || own >= self.each_max {
            return Err(Full);
        }
        counts.total += 1;
        self.gauge.increment(1);
        counts.each.insert(credential, own + 1);
        Ok(Pass { gate: Arc::clone(self), credential })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut counts = self.gate.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total -= 1;
        self.gate.gauge.decrement(1);
        if let Some(own) = counts.each.get_mut(&self.credential) {
            *own -= 1;
            if *own == 0 {
                counts.each.remove(&self.credential);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: CredentialId = CredentialId::from_u128(1);
    const TWO: CredentialId = CredentialId::from_u128(2);

    #[test]
    fn one_more_than_a_limit_is_refused_until_a_place_is_free() {
        let gate = Gate::new(3, 2, Gauge::noop());
        let first = gate.enter(ONE).expect("room");
        let _second = gate.enter(ONE).expect("room");
        assert!(gate.enter(ONE).is_err(), "two of one credential");
        let _third = gate.enter(TWO).expect("room");
        assert!(gate.enter(TWO).is_err(), "three in all");
        drop(first);
        assert!(gate.enter(TWO).is_ok());
    }

    #[test]
    fn nothing_is_kept_of_a_credential_that_left() {
        let gate = Gate::new(3, 2, Gauge::noop());
        drop(gate.enter(ONE).expect("room"));
        assert!(gate.counts.lock().expect("not poisoned").each.is_empty());
    }
}
