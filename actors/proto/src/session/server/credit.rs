//! Which deliveries of a session count against its capacity.

use std::time::Instant;

use super::NotDelivered;
use crate::scalar::{DeliveryId, Generation};

/// The deliveries that were sent and are neither confirmed nor lapsed: never more than the capacity.
///
/// Lapses are judged here by the session's own clock, and decide nothing but when more may be sent.
/// What a lease is worth, the store's clock alone decides.
#[derive(Debug, Default)]
pub(super) struct Credit {
    capacity: u8,
    outstanding: Vec<Outstanding>,
}

#[derive(Debug)]
struct Outstanding {
    delivery_id: DeliveryId,
    generation: Generation,
    lapses_at: Instant,
}

impl Credit {
    pub(super) const fn new(capacity: u8) -> Self {
        Self { capacity, outstanding: Vec::new() }
    }

    pub(super) fn free(&self, now: Instant) -> u8 {
        let live = self.outstanding.iter().filter(|sent| sent.lapses_at > now).count();
        self.capacity.saturating_sub(u8::try_from(live).unwrap_or(u8::MAX))
    }

    /// Counts a delivery; an older generation of it counts no longer.
    pub(super) fn take(
        &mut self,
        delivery_id: DeliveryId,
        generation: Generation,
        lapses_at: Instant,
        now: Instant,
    ) -> Result<(), NotDelivered> {
        self.forget_lapsed(now);
        let sent = Outstanding { delivery_id, generation, lapses_at };
        if let Some(older) = self.outstanding.iter_mut().find(|other| other.delivery_id == delivery_id) {
            *older = sent;
        } else if self.outstanding.len() < usize::from(self.capacity) {
            self.outstanding.push(sent);
        } else {
            return Err(NotDelivered::NoCredit);
        }
        Ok(())
    }

    /// A generation that is over counts no longer. A newer one of the same delivery still does.
    pub(super) fn settle(&mut self, delivery_id: DeliveryId, generation: Generation) {
        self.outstanding.retain(|sent| sent.delivery_id != delivery_id || sent.generation > generation);
    }

    pub(super) fn forget_lapsed(&mut self, now: Instant) {
        self.outstanding.retain(|sent| sent.lapses_at > now);
    }

    pub(super) fn next_lapse(&self) -> Option<Instant> {
        self.outstanding.iter().map(|sent| sent.lapses_at).min()
    }
}
