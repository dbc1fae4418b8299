//! Events and deliveries for tests, told apart by small numbers.

use std::sync::Arc;

use perilune_actors::proto::scalar::{
    DeliveryId, EventId, Generation, Secret, Sequence, SessionId, SubscriptionId, TaskId, TaskVersion,
};
use perilune_actors::proto::wire::Delivery;
use perilune_actors::proto::{EventProof, RawJson, ResultEvent, Snapshot, Status};

/// The subscription that every test consumes.
pub fn subscription_id() -> SubscriptionId {
    SubscriptionId::from_u128(0x5ab5)
}

/// The n-th event: succeeded, of operation `GenerateReport`.
pub fn event(n: u64) -> ResultEvent {
    let at = "2026-01-01T00:00:00Z".parse().expect("a time");
    ResultEvent {
        event_id: EventId::from_u128(n.into()),
        sequence: Sequence(n),
        occurred_at: at,
        snapshot: Snapshot {
            task_id: TaskId::from_u128(0x7a5c_0000 + u128::from(n)),
            queue: "reports".parse().expect("a name"),
            operation: "GenerateReport".parse().expect("a name"),
            status: Status::Succeeded,
            version: TaskVersion(1),
            created_at: at,
            updated_at: at,
            payload: RawJson::null(),
            result: RawJson::null(),
            error: None,
        },
    }
}

/// What a peer has sent under a lease: the n-th event in one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Which event.
    pub n: u64,
    /// Which generation.
    pub generation: u64,
}

impl Sent {
    /// What confirms it.
    pub fn proof(self) -> EventProof {
        let mut secret = [0x5e; 32];
        secret[..8].copy_from_slice(&self.n.to_be_bytes());
        secret[8..16].copy_from_slice(&self.generation.to_be_bytes());
        EventProof {
            subscription_id: subscription_id(),
            delivery_id: DeliveryId::from_u128(0xde11_0000_0000 + u128::from(self.n)),
            event_id: EventId::from_u128(self.n.into()),
            generation: Generation(self.generation),
            secret: Secret::from_bytes(secret),
        }
    }

    /// The frame that delivers it.
    pub fn delivery(self, session_id: SessionId, lease_ms: u32) -> Delivery {
        Delivery { session_id, proof: self.proof(), lease_ms, event: Arc::new(event(self.n)) }
    }
}
