//! A session's place among those of its subscription: what it is granted, what it holds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use perilune_proto::limits::FRAME_BYTES_MAX;
use perilune_proto::proof::EventProof;
use perilune_proto::scalar::{DeliveryId, Generation};
use perilune_proto::session::server::{NotDelivered, Refusal};

use tokio::sync::watch;

use super::Session;
use crate::server::backlog::Room;
use crate::server::lanes::{Grant, Seated};
use crate::server::socket::outbox::Outbox;
use crate::server::state::State;

/// The place, given up when it is dropped.
pub(super) struct Seat {
    state: Arc<State>,
    seated: Seated,
    /// What was sent and has no receipt, oldest first: never more than the capacity.
    held: VecDeque<(DeliveryId, Generation)>,
    over: bool,
}

impl Seat {
    pub(super) const fn new(state: Arc<State>, seated: Seated) -> Self {
        Self { state, seated, held: VecDeque::new(), over: false }
    }

    /// A delivery has its receipt.
    pub(super) fn settle(&mut self, delivery_id: DeliveryId) {
        self.held.retain(|(held, _)| *held != delivery_id);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.state.lanes.leave(&self.seated);
    }
}

/// What a seat brings.
pub(super) enum Seating {
    /// The lane ends its sessions.
    Ended(Refusal),
    /// A lease.
    Granted(Grant),
}

/// Waits for the lane to end the session, which is said once, or for a lease and for the client to have read
/// most of what was sent before. Dropping the future loses nothing.
pub(super) async fn next(seat: &mut Option<Seat>, outbox: &Outbox) -> Seating {
    let Some(seat) = seat else { return std::future::pending().await };
    let Seated { grants, end, backlog, lane, .. } = &mut seat.seated;
    let granted = async {
        outbox.below(FRAME_BYTES_MAX).await;
        grants.recv().await
    };
    tokio::select! {
        Ok(refusal) = told(end), if !seat.over => {
            seat.over = true;
            Seating::Ended(refusal)
        }
        Some(grant) = granted => {
            if backlog.remove(grant.lease.event_json.len()) == Room::Again {
                lane.look_again();
            }
            Seating::Granted(grant)
        }
        // The lane drops a session's ends only after the session has left.
        else => std::future::pending().await,
    }
}

async fn told(end: &mut watch::Receiver<Option<Refusal>>) -> Result<Refusal, ()> {
    let refusal = end.wait_for(Option::is_some).await.map_err(|_| ())?;
    refusal.clone().ok_or(())
}

impl Session {
    /// Sends a delivery, if anything of its lease is left.
    pub(super) fn deliver(&mut self, grant: Grant, now: Instant) {
        let Some(seat) = &mut self.seat else { return };
        let lease = grant.lease;
        // What has begun has passed: a client must never take a lease for longer than it is.
        let passed = now.saturating_duration_since(grant.began).as_micros().div_ceil(1_000);
        let left = u128::from(self.state.config.lease_ms).saturating_sub(passed);
        let proof = EventProof {
            subscription_id: seat.seated.lane.subscription_id,
            delivery_id: lease.delivery_id,
            event_id: lease.event_id,
            generation: lease.generation,
            secret: lease.secret,
        };
        let sent = u32::try_from(left).ok().filter(|left| *left > 0).is_some_and(|left| {
            loop {
                match self.machine.deliver(&proof, left, &lease.event_json, now) {
                    Ok(()) => break true,
                    // The store counts what is outstanding, and says that there is credit: something that is
                    // counted here was confirmed elsewhere or dropped.
                    Err(NotDelivered::NoCredit) => match seat.held.pop_front() {
                        Some((delivery_id, generation)) => self.machine.settle(delivery_id, generation),
                        None => break false,
                    },
                    Err(_) => break false,
                }
            }
        });
        let metrics = &self.state.metrics;
        if !sent {
            metrics.deliveries_unsent.increment(1);
            return;
        }
        seat.settle(proof.delivery_id);
        seat.held.push_back((proof.delivery_id, proof.generation));
        match proof.generation {
            Generation(1) => metrics.deliveries_first.increment(1),
            _ => metrics.deliveries_again.increment(1),
        }
    }
}
