//! How much was leased for a session that it has not begun to send.

use std::sync::atomic::{AtomicUsize, Ordering};

use perilune_proto::limits::FRAME_BYTES_MAX;

/// With as many bytes waiting, a session takes nothing more.
const BYTES_MAX: usize = FRAME_BYTES_MAX;
/// With as many deliveries waiting, a session takes nothing more.
const DELIVERIES_MAX: usize = 32;

/// Deliveries between the dispatcher and a session, by number and bytes. A session that reads slowly is passed
/// over, so that what waits for it is bounded whatever its capacity is.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: AtomicUsize,
    deliveries: AtomicUsize,
}

/// Whether a session that was passed over can take deliveries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has just got room.
    Again,
    /// Nothing has changed.
    AsBefore,
}

impl Backlog {
    /// Whether the session can take more.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) < BYTES_MAX && self.deliveries.load(Ordering::SeqCst) < DELIVERIES_MAX
    }

    /// Counts a delivery that waits.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.deliveries.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a delivery that waits no longer.
    pub(crate) fn remove(&self, bytes: usize) -> Room {
        let had_bytes = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        let had_deliveries = self.deliveries.fetch_sub(1, Ordering::SeqCst);
        let was_full = had_bytes >= BYTES_MAX || had_deliveries >= DELIVERIES_MAX;
        if was_full && self.has_room() { Room::Again } else { Room::AsBefore }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_room_until_a_frame_s_bytes_wait() {
        let backlog = Backlog::default();
        backlog.add(BYTES_MAX - 1);
        assert!(backlog.has_room());
        backlog.add(1);
        assert!(!backlog.has_room());
        assert_eq!(backlog.remove(1), Room::Again);
        assert_eq!(backlog.remove(BYTES_MAX - 1), Room::AsBefore);
    }

    #[test]
    fn small_deliveries_are_bounded_by_their_number() {
        let backlog = Backlog::default();
        (0..DELIVERIES_MAX).for_each(|_| backlog.add(1));
        assert!(!backlog.has_room());
        assert_eq!(backlog.remove(1), Room::Again);
    }
}
