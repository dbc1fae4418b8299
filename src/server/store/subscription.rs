//! Subscriptions: what is read off the log for whom, and how far.
//!
//! Source: http-api.md, "Subscriptions". A subscription belongs to the credential that created it; every
//! question names both, and one of another credential is not there.

use std::collections::BTreeSet;

use perilune_proto::backoff::Backoff;
use perilune_proto::event::Status;
use perilune_proto::scalar::{Name, Sequence, SubscriptionId, Timestamp};

use super::{Answer, CredentialId, Page};

/// Questions about subscriptions. Each but the first and the list fails with
/// [`StoreError::NotFound`](super::StoreError::NotFound) where the credential has no such subscription.
pub trait Subscriptions {
    /// Creates a subscription.
    fn create_subscription(&self, new: NewSubscription) -> Answer<'_, SubscriptionRecord>;

    /// A credential's subscriptions, by their ids.
    fn subscriptions(&self, list: ListSubscriptions) -> Answer<'_, Page<SubscriptionRecord, SubscriptionId>>;

    /// One subscription with its live figures.
    fn subscription(&self, key: SubscriptionKey) -> Answer<'_, SubscriptionRecord>;

    /// Pauses or resumes it; as often as one likes.
    fn switch_subscription(&self, key: SubscriptionKey, to: Switch) -> Answer<'_, SubscriptionRecord>;

    /// Starts it afresh from another place of the log: its open deliveries go, their proofs are lost; what was
    /// confirmed is still answered as replayed.
    fn seek_subscription(&self, key: SubscriptionKey, to: Start) -> Answer<'_, SubscriptionRecord>;

    /// Deletes it with its open deliveries.
    fn delete_subscription(&self, key: SubscriptionKey) -> Answer<'_, ()>;
}

/// Names a subscription among those that a credential may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriptionKey {
    /// Who asks.
    pub credential_id: CredentialId,
    /// The subscription.
    pub subscription_id: SubscriptionId,
}

/// A subscription to create. Its values were checked before.
#[derive(Debug, Clone)]
pub struct NewSubscription {
    /// Whom it belongs to, for good.
    pub credential_id: CredentialId,
    /// Its name, 1 to 128 characters; not unique.
    pub name: String,
    /// The queues it reads, for good; at least one, each of them the credential's.
    pub queues: BTreeSet<Name>,
    /// Only events with one of these statuses; all where it is empty.
    pub statuses: BTreeSet<Status>,
    /// Only events of one of these operations; all where it is empty.
    pub operations: BTreeSet<Name>,
    /// Where in the log it begins.
    pub start: Start,
    /// Open deliveries at the most, in [`WINDOW`](perilune_proto::limits::WINDOW).
    pub window: u32,
    /// Generations of each delivery, at least 1.
    pub budget: u32,
    /// How long lapsed deliveries wait.
    pub backoff: Backoff,
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Behind its newest event.
    Latest,
    /// At the oldest event that it holds of the subscription's queues.
    Earliest,
    /// At the first event whose sequence is this or more.
    Sequence(Sequence),
}

/// Whether a subscription gets deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// It gets none; what was delivered can still be confirmed.
    Pause,
    /// It gets deliveries.
    Resume,
}

/// A part of a credential's subscriptions.
#[derive(Debug, Clone, Copy)]
pub struct ListSubscriptions {
    /// Whose.
    pub credential_id: CredentialId,
    /// Only ids after this one.
    pub after: Option<SubscriptionId>,
    /// How many at the most, at least 1.
    pub limit: u32,
}

/// A subscription's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// Whom it belongs to.
    pub credential_id: CredentialId,
    /// Its name.
    pub name: String,
    /// Whether it gets deliveries; `false` while it is paused.
    pub enabled: bool,
    /// The queues it reads.
    pub queues: BTreeSet<Name>,
    /// The statuses it wants; all where it is empty.
    pub statuses: BTreeSet<Status>,
    /// The operations it wants; all where it is empty.
    pub operations: BTreeSet<Name>,
    /// Open deliveries at the most.
    pub window: u32,
    /// Generations of each delivery.
    pub budget: u32,
    /// How long lapsed deliveries wait.
    pub backoff: Backoff,
    /// When it was created.
    pub created_at: Timestamp,
}

/// How a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Every event up to this sequence was taken or passed over.
    pub cursor: Sequence,
    /// Events of its queues behind the cursor, before its filters.
    pub lag: u64,
    /// Deliveries that wait to be leased, in backoff or not.
    pub ready: u32,
    /// Deliveries under a live lease.
    pub leased: u32,
    /// EXPIRED deliveries.
    pub expired: u32,
    /// Deliveries confirmed in its life.
    pub acknowledged: u64,
}

/// A subscription with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionRecord {
    /// Its settings.
    pub subscription: Subscription,
    /// How it stands.
    pub figures: Figures,
}

impl SubscriptionRecord {
    /// Whether its window is full of EXPIRED deliveries: it doesn't move until an operator acts.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        perilune_proto::lease::is_blocked(self.subscription.window, self.figures.expired)
    }
}
