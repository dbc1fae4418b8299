//! Planted bugs: each breaks one rule, so that the simulator can show that it would notice.
//!
//! Without the feature `sim` nothing can be planted, every question is the constant `false`, and the
//! compiler removes the branch.

macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A bug that the simulator can plant into a [`super::Consumer`].
        #[doc(hidden)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "sim"), expect(unreachable_pub, reason = "exported for the simulator alone"))]
        pub enum Mutation {
            $($(#[$doc])* $name,)+
        }

        #[cfg(feature = "sim")]
        impl Mutation {
            /// Every planted bug.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

mutations! {
    /// The proof is reported when the handler starts.
    AckBeforeCommit,
    /// A handler that failed is acknowledged.
    FailureAcknowledged,
    /// Committed proofs are forgotten when the connection drops.
    ProofsForgottenAtLoss,
    /// A newer delivery of a committed event starts a second handler at once.
    StartsBesideCommitted,
    /// Replayed and older generations become successors.
    NoGenerationCheck,
    /// The first successor is kept instead of the newest.
    OldestSuccessorKept,
    /// The successor of a lost proof is dropped.
    SuccessorDropped,
    /// The successor of a confirmed proof runs.
    SuccessorOfConfirmedRuns,
    /// A successor's proof is reported for its predecessor.
    AnotherProof,
    /// Proofs are handed over again to the connection that has them.
    HandedOverTwice,
    /// The newest committed proof goes first.
    NewestProofFirst,
    /// A proof that was in flight when its connection dropped is never reported again.
    NoReportAfterLoss,
    /// `PROOF_LOST` is taken for an answer to try again.
    LostProofKept,
    /// A failed event keeps its slot.
    SlotLeak,
    /// One handler more than the capacity.
    OneSlotTooMany,
    /// The unread buffer has no bound.
    BufferUnbounded,
    /// A lease that lapsed before a slot was free starts a handler.
    LapsedStarts,
    /// A lease that lapses is not told to the running handler.
    LapseUntold,
    /// An ok after the lease has lapsed is not acknowledged.
    LateOkForgotten,
    /// The wait is the whole interval, always.
    NoJitter,
    /// The interval never grows.
    NoDoubling,
    /// The first attempt after a loss does not wait.
    FirstAttemptAtOnce,
    /// A server's `retry_after` is ignored.
    RetryAfterIgnored,
    /// A mere connect resets the count of attempts.
    ConnectResets,
    /// `PROOF_LOST` resets the count of attempts.
    LostProofResets,
    /// A confirmed ack does not reset the count of attempts.
    ReceiptDoesNotReset,
    /// News of an earlier connection is taken for the current one's.
    StaleEpochAccepted,
    /// The next dial does not wait for the end of the old reader.
    DialBesideOldReader,
    /// A permanent cause is retried.
    PermanentRetried,
    /// The heartbeat ends when the stop begins.
    HeartbeatEndsAtStop,
    /// Handlers start after the stop.
    StartsAfterStop,
    /// Running handlers are not told of the stop.
    StopUntold,
    /// The stop does not wait for committed proofs.
    StopForgetsProofs,
    /// The shutdown deadline passes unnoticed.
    DeadlineIgnored,
    /// The final report leaves the running handlers out.
    ReportOmitsRunning,
    /// A lost pool's runs stay in their slots.
    LostPoolForgotten,
    /// A lost heartbeat is replaced, but its connection goes on without one.
    LostHeartbeatForgotten,
    /// A child that has lost a message is waited for for ever.
    SilenceBorne,
    /// Crashed children are replaced for ever.
    NoCrashBudget,
    /// `max_events` does not hold handlers back.
    MaxEventsIgnored,
    /// Gauges keep their values at the end.
    GaugesStay,
}

/// What was planted into a machine: nothing, but in the simulator.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Planted {
    #[cfg(feature = "sim")]
    mutation: Option<Mutation>,
}

impl Planted {
    /// Plants a bug.
    #[cfg(feature = "sim")]
    pub(super) const fn new(mutation: Option<Mutation>) -> Self {
        Self { mutation }
    }

    /// Whether this bug was planted.
    #[cfg(feature = "sim")]
    pub(super) fn is(self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Nothing can be planted.
    #[cfg(not(feature = "sim"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the simulator")]
    pub(super) const fn is(self, _: Mutation) -> bool {
        false
    }
}
