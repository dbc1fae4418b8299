//! How many bytes of batches are held at once, over all requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all batches together may hold.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    held: AtomicUsize,
}

/// What one batch holds. Dropping it gives all of it back.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

/// Other batches hold too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: AtomicUsize::new(0) })
    }

    /// Begins with nothing.
    pub(crate) fn begin(self: &Arc<Self>) -> Held {
        Held { budget: Arc::clone(self), bytes: 0 }
    }
}

impl Held {
    /// Takes more, or nothing where there is too little left.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let held = self.budget.held.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.bytes += bytes;
        // What was taken in vain goes back with the rest: the batch is refused and dropped.
        if held > self.budget.most { Err(Exhausted) } else { Ok(()) }
    }

    /// Bytes that this batch holds.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_share_what_there_is_and_give_it_back() {
        let budget = Budget::new(10);
        let (mut first, mut second) = (budget.begin(), budget.begin());
        assert_eq!(first.grow(6), Ok(()));
        assert_eq!(second.grow(4), Ok(()));
        assert_eq!(second.grow(1), Err(Exhausted));
        assert_eq!(second.bytes(), 5);
        drop(second);
        assert_eq!(first.grow(4), Ok(()));
        drop(first);
        assert_eq!(budget.held.load(Ordering::SeqCst), 0);
    }
}
