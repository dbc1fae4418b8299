//! Taking events off the log: what the looks at several queues come to.

use perilune_proto::scalar::{DeliveryId, EventId};

/// An event that becomes a delivery.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) delivery_id: DeliveryId,
    pub(super) sequence: u64,
    pub(super) event_id: EventId,
    /// Length of its text.
    pub(super) bytes: usize,
}

/// The wanted events of one queue behind a cursor.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) events: Vec<Taken>,
    /// Where looking stopped before the queue's end.
    pub(super) stopped_at: Option<u64>,
}

/// What a look at the log found.
#[derive(Debug)]
pub(super) struct Found {
    /// In the log's order, at most as many as were wanted.
    pub(super) taken: Vec<Taken>,
    /// Every event up to here was taken or passed over.
    pub(super) cursor: u64,
    /// Whether there may be more behind the cursor.
    pub(super) more: bool,
}

impl Look {
    /// A look that found `events` of `wanted` and ended at `scanned` where it didn't come to the queue's end.
    pub(super) fn new(events: Vec<Taken>, wanted: usize, scanned: Option<u64>) -> Self {
        let last = events.last().filter(|_| events.len() >= wanted).map(|last| last.sequence);
        Self { events, stopped_at: last.or(scanned) }
    }
}

impl Found {
    /// Puts the looks at a reader's queues together. Looking stopped at different places; what counts is the nearest
    /// of them. `head` is the newest sequence of all its queues: no look went beyond.
    pub(super) fn of(looks: Vec<Look>, wanted: usize, cursor: u64, head: u64) -> Self {
        let horizon = looks.iter().filter_map(|look| look.stopped_at).min().unwrap_or(u64::MAX);
        let mut taken: Vec<_> = looks.into_iter().flat_map(|look| look.events).collect();
        taken.retain(|event| event.sequence <= horizon);
        taken.sort_by_key(|event| event.sequence);
        let cut = taken.len() > wanted;
        taken.truncate(wanted);
        let cursor = match taken.last() {
            Some(last) if cut => last.sequence,
            _ => horizon.min(head).max(cursor),
        };
        Self { taken, cursor, more: cut || horizon < head }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(sequences: &[u64], wanted: usize, scanned: Option<u64>) -> Look {
        let event = |sequence: &u64| Taken {
            delivery_id: DeliveryId::from_u128(u128::from(*sequence)),
            sequence: *sequence,
            event_id: EventId::from_u128(0),
            bytes: 1,
        };
        Look::new(sequences.iter().map(event).collect(), wanted, scanned)
    }

    fn found(looks: Vec<Look>, wanted: usize) -> (Vec<u64>, u64, bool) {
        let found = Found::of(looks, wanted, 1, 20);
        (found.taken.iter().map(|event| event.sequence).collect(), found.cursor, found.more)
    }

    #[test]
    fn queues_are_merged_in_the_logs_order() {
        assert_eq!(found(vec![look(&[3, 9], 4, None), look(&[5], 4, None)], 4), (vec![3, 5, 9], 20, false));
    }

    #[test]
    fn nothing_beyond_the_nearest_stop_is_taken() {
        // The first queue stopped at 6 although it may have a wanted event at 7.
        assert_eq!(found(vec![look(&[3], 4, Some(6)), look(&[5, 8], 4, None)], 4), (vec![3, 5], 6, true));
        assert_eq!(found(vec![look(&[], 4, Some(6)), look(&[8], 4, None)], 4), (vec![], 6, true));
    }

    #[test]
    fn the_cursor_stays_at_the_last_that_was_wanted() {
        assert_eq!(found(vec![look(&[3, 4], 2, None), look(&[5], 2, None)], 2), (vec![3, 4], 4, true));
        assert_eq!(found(vec![look(&[3, 9], 2, None), look(&[5, 6], 2, None)], 2), (vec![3, 5], 5, true));
    }
}
