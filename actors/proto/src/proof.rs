//! The proof that a delivery was received: delivery, generation, secret.
//!
//! Source: events-v1.md section 5.

use crate::scalar::{DeliveryId, EventId, Generation, Secret, SubscriptionId};

/// What confirms one generation of one delivery, with the two ids that its receipt is checked against.
///
/// A proof outlives its connection: it may be reported on any later session of the same subscription.
/// Its secret never prints and is wiped when the proof is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventProof {
    /// The subscription that the delivery belongs to.
    pub subscription_id: SubscriptionId,
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The event that was delivered.
    pub event_id: EventId,
    /// Which lease of the delivery.
    pub generation: Generation,
    /// What only the receiver of that lease knows.
    pub secret: Secret,
}
