//! Deliveries: leased to sessions, confirmed by proofs.
//!
//! Source: events-v1.md section 5; the rules are [`perilune_proto::lease`] and
//! [`perilune_proto::dispatch`].

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use perilune_proto::event::Status;
use perilune_proto::scalar::{
    DeliveryId, EventId, Generation, Secret, Sequence, SessionId, SubscriptionId, TaskId, TaskVersion, Timestamp,
};

use super::{Answer, Page, SecretHash, Subscription, SubscriptionKey};

/// Questions about sessions and deliveries.
pub trait Deliveries {
    /// Whether the bearer may have a session on the subscription, judged afresh: at `register` and at each
    /// `ping`. It writes nothing.
    fn standing(&self, request: SessionRequest) -> Answer<'_, Standing>;

    /// Leases deliveries to sessions by their free credit, taking events off the log as the window allows.
    ///
    /// A session's credit is its capacity less its live leases, which the store counts itself: confirmed,
    /// lapsed and dropped deliveries free it at once, whoever confirmed them. One call grants a bounded number
    /// of deliveries and bytes; [`Leases::again_in`] says when to ask again.
    fn lease(&self, request: LeaseRequest) -> Answer<'_, Leases>;

    /// Confirms a delivery with its proof, after checking the bearer as [`Self::standing`] does.
    fn confirm(&self, confirmation: Confirmation) -> Answer<'_, Confirmed>;

    /// A subscription's deliveries, by their ids: the open ones, and the confirmed ones that are still kept, where they
    /// are asked for. A page of confirmed ones may have fewer than `limit`, none even, before the last.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](super::StoreError::NotFound) for the subscription.
    fn deliveries(&self, list: ListDeliveries) -> Answer<'_, Page<DeliveryRecord, DeliveryId>>;

    /// Lets an EXPIRED delivery be leased more often.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](super::StoreError::NotFound) for the subscription or the delivery,
    /// [`StoreError::NotExpired`](super::StoreError::NotExpired) for a delivery in another state.
    fn add_budget(&self, add: AddBudget) -> Answer<'_, DeliveryRecord>;

    /// Does so for every EXPIRED delivery of the subscription; says how many there were.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](super::StoreError::NotFound) for the subscription.
    fn add_budget_to_expired(&self, key: SubscriptionKey, add: u32) -> Answer<'_, u64>;
}

/// Who wants or has a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionRequest {
    /// What the bearer presented when it dialled: a secret past its overlap ends its sessions too.
    pub presented: SecretHash,
    /// The subscription.
    pub subscription_id: SubscriptionId,
}

/// Whether a session may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may; these are the subscription's settings.
    Active(Box<Subscription>),
    /// `UNAUTHENTICATED`: the credential is unknown, expired or revoked.
    Unauthenticated,
    /// `PERMISSION_DENIED`: the credential lacks the `consume` scope or one of the queues.
    PermissionDenied,
    /// `SUBSCRIPTION_NOT_FOUND`: no such subscription for this credential.
    NotFound,
    /// `HISTORY_GAP`: the log no longer holds the subscription's next event.
    HistoryGap,
}

/// A session that takes deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionCredit {
    /// The session.
    pub session_id: SessionId,
    /// How many unconfirmed, unlapsed deliveries it may have, 1 to 32.
    pub capacity: u8,
}

/// A wish for deliveries.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// How long each lease lasts, in [`LEASE_MS`](perilune_proto::limits::LEASE_MS).
    pub lease: Duration,
    /// The caller's sessions on the subscription that can take deliveries, oldest first.
    pub sessions: Vec<SessionCredit>,
}

/// What was leased, and what to do next.
#[derive(Debug)]
pub struct Leases {
    /// The new leases, in the order to send them.
    pub granted: Vec<Lease>,
    /// When they began, by this host's monotonic clock, taken before the store's clock was read: what is left
    /// of a lease is its length less the time since. Never later than the store's own reckoning.
    pub began: Instant,
    /// When to ask again although nothing woke the caller: a lease lapses, a backoff ends, or there was more
    /// than one call may do (then zero). `None` where only a [`Wake`](super::Wake) changes anything.
    pub again_in: Option<Duration>,
    /// How the subscription stands.
    pub supply: Supply,
}

/// Whether deliveries can come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// They come as events and credit allow.
    Flowing,
    /// The subscription is paused.
    Paused,
    /// Its window is full of EXPIRED deliveries: an operator must act.
    Blocked,
    /// `HISTORY_GAP`: end its sessions.
    HistoryGap,
    /// Its credential was revoked or has expired: its sessions get nothing, and learn why at their next `ping` or `ack`.
    Unauthenticated,
    /// It was deleted (`SUBSCRIPTION_NOT_FOUND`): end its sessions.
    Gone,
}

/// One delivery under a lease.
#[derive(Clone)]
pub struct Lease {
    /// The session it goes to.
    pub session_id: SessionId,
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// Its event.
    pub event_id: EventId,
    /// Which lease of it this is, 1 or more.
    pub generation: Generation,
    /// What its receiver proves it with. The store keeps a hash alone, so it exists nowhere else.
    pub secret: Secret,
    /// The event as it was frozen: one JSON object.
    pub event_json: Box<str>,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("session_id", &self.session_id)
            .field("delivery_id", &self.delivery_id)
            .field("event_id", &self.event_id)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// A proof to judge.
#[derive(Debug, Clone)]
pub struct Confirmation {
    /// Whose session it came on.
    pub session: SessionRequest,
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// Which lease of it.
    pub generation: Generation,
    /// Its secret.
    pub secret: Secret,
}

/// What a proof came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// It confirms, and that is on disk.
    Acked {
        /// The delivery's event.
        event_id: EventId,
        /// Whether the same proof had confirmed before.
        replayed: bool,
    },
    /// `PROOF_LOST`: superseded, or no longer kept.
    Lost,
    /// `PROOF_INVALID`: a security event.
    Invalid,
    /// `UNAUTHENTICATED`.
    Unauthenticated,
    /// `PERMISSION_DENIED`.
    PermissionDenied,
    /// `SUBSCRIPTION_NOT_FOUND`.
    NotFound,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryState {
    /// It waits to be leased, in backoff or not.
    Ready,
    /// It is under a live lease.
    Leased,
    /// Its budget is spent.
    Expired,
    /// It is confirmed, and kept for as long as its proof is answered as replayed.
    Acknowledged,
}

impl DeliveryState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Leased, Self::Expired, Self::Acknowledged];

    /// The state as the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Expired => "expired",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// A part of a subscription's deliveries.
#[derive(Debug, Clone)]
pub struct ListDeliveries {
    /// The subscription.
    pub key: SubscriptionKey,
    /// Only these states; the open ones (all but acknowledged) where it is empty.
    pub states: BTreeSet<DeliveryState>,
    /// Only ids after this one.
    pub after: Option<DeliveryId>,
    /// How many at the most, at least 1.
    pub limit: u32,
}

/// Budget for one delivery.
#[derive(Debug, Clone, Copy)]
pub struct AddBudget {
    /// The subscription.
    pub key: SubscriptionKey,
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// How many more leases, in [`BUDGET_ADD`](perilune_proto::limits::BUDGET_ADD).
    pub add: u32,
}

/// What tells an event from another one under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventBrief {
    /// How its task stood.
    pub status: Status,
    /// Its task.
    pub task_id: TaskId,
    /// Its task's version.
    pub task_version: TaskVersion,
}

/// A delivery as an operator sees it. Never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// Its event.
    pub event_id: EventId,
    /// Its event's place in the log.
    pub sequence: Sequence,
    /// What the log says of its event; none once it is no longer there.
    pub event: Option<EventBrief>,
    /// How it stands.
    pub state: DeliveryState,
    /// How often it was leased.
    pub generation: Generation,
    /// How often it may be leased in all.
    pub budget: u64,
    /// When its state ends by itself: the backoff's end or the lease's; for an EXPIRED one, when it lapsed;
    /// for an acknowledged one, when it was.
    pub due_at: Timestamp,
}
