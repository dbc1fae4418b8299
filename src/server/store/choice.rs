//! What one lease call grants, and when to ask again.

use std::time::Duration;

use perilune_proto::lease::{Moment, is_blocked};
use perilune_proto::scalar::{DeliveryId, EventId};

use super::Supply;
use super::bounds::{LEASE_BYTES_MAX, LEASES_MAX};
use super::scan::Found;

/// A delivery that can be leased.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) delivery_id: DeliveryId,
    pub(super) sequence: u64,
    pub(super) event_id: EventId,
    /// The leases it had before.
    pub(super) generation: u64,
    /// Length of its event's text.
    pub(super) bytes: usize,
    pub(super) origin: Origin,
}

/// Where a candidate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is a delivery already.
    Window,
    /// It comes off the log now.
    Log,
}

/// The deliveries of one call, within its bounds.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) candidates: Vec<Candidate>,
    /// Where the cursor is once they are leased.
    pub(super) cursor: u64,
    limit: usize,
    bytes: usize,
    /// There was one more, but the call's bytes were used up.
    full: bool,
    /// There may be more behind the cursor for the same credit.
    unseen: bool,
}

impl Choice {
    /// No deliveries yet, for so much credit.
    pub(super) fn new(credit: u64, cursor: u64) -> Self {
        let limit = usize::try_from(credit).unwrap_or(usize::MAX).min(LEASES_MAX);
        Self { candidates: Vec::new(), cursor, limit, bytes: 0, full: false, unseen: false }
    }

    /// How many more it takes.
    pub(super) fn room(&self) -> usize {
        if self.full { 0 } else { self.limit - self.candidates.len() }
    }

    /// Adds one unless that is too much; the first goes whatever its size.
    pub(super) fn push(&mut self, candidate: Candidate) -> bool {
        self.full |= !self.candidates.is_empty() && self.bytes + candidate.bytes > LEASE_BYTES_MAX;
        if self.room() == 0 {
            return false;
        }
        self.bytes += candidate.bytes;
        self.candidates.push(candidate);
        true
    }

    /// Adds what was found in the log, of which the window let `wanted` be looked for.
    pub(super) fn extend(&mut self, found: Found, window_room: usize, wanted: usize) {
        let mut last = self.cursor;
        self.cursor = found.cursor;
        for new in found.taken {
            let (delivery_id, sequence, event_id, bytes) = (new.delivery_id, new.sequence, new.event_id, new.bytes);
            let origin = Origin::Log;
            if !self.push(Candidate { delivery_id, sequence, event_id, generation: 0, bytes, origin }) {
                self.cursor = last;
                break;
            }
            last = sequence;
        }
        // Where the window is what ended it, only a confirmation brings more.
        self.unseen = found.more && wanted < window_room;
    }

    /// When to ask again although nothing woke the caller.
    pub(super) fn again_in(&self, credit_left: u64, next: Option<Moment>, now: Moment) -> Option<Duration> {
        let more = self.full || self.unseen || self.candidates.len() >= LEASES_MAX;
        if more && credit_left > 0 { Some(Duration::ZERO) } else { next.map(|next| next.since(now)) }
    }
}

/// How a subscription that can be leased from stands.
pub(super) fn supply(window: u32, expired: u32) -> Supply {
    if is_blocked(window, expired) { Supply::Blocked } else { Supply::Flowing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(bytes: usize) -> Candidate {
        let (delivery_id, event_id) = (DeliveryId::from_u128(0), EventId::from_u128(0));
        Candidate { delivery_id, sequence: 1, event_id, generation: 0, bytes, origin: Origin::Window }
    }

    #[test]
    fn the_first_goes_whatever_its_size_and_bytes_bound_the_rest() {
        let mut choice = Choice::new(10, 0);
        assert!(choice.push(candidate(LEASE_BYTES_MAX * 2)));
        assert!(!choice.push(candidate(1)));
        assert!(!choice.push(candidate(0)), "what came later would overtake it");
        assert_eq!(choice.again_in(9, Some(Moment(5)), Moment(1)), Some(Duration::ZERO));
        assert_eq!(choice.again_in(0, Some(Moment(5)), Moment(1)), Some(Duration::from_micros(4)));
    }

    #[test]
    fn credit_bounds_the_number() {
        let mut choice = Choice::new(2, 0);
        assert!(choice.push(candidate(1)) && choice.push(candidate(1)) && !choice.push(candidate(1)));
        assert_eq!(choice.again_in(0, None, Moment(1)), None);
    }
}
