//! The oracle: every invariant of the specification as a check with a name of its own.
//!
//! Each consumer has a [`Shadow`] that hears the same inputs and is shown every action. It knows the rules
//! and none of the machine's code. What concerns the platform and the receivers is checked where it happens.

mod actions;
mod inputs;
mod shadow;

use std::fmt;
use std::time::Duration;

pub(super) use shadow::Shadow;

/// What a check found: nothing, or the check that failed with what it saw.
pub(super) type Judged = Result<(), (Check, String)>;

/// An invariant of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Check {
    /// A proof is reported only after its handler said ok.
    AckFollowsCommit,
    /// A proof that was confirmed or lost is never reported again.
    SettledIsNotReported,
    /// A consumer reports proofs that it was given, each for the run that said ok.
    ProofsAreOwn,
    /// At most one `ack` is in flight on a connection.
    OneAckInFlight,
    /// The oldest committed proof goes first, and none is handed over twice to one connection.
    OldestProofFirst,
    /// A committed proof is handed over as soon as a session is open.
    ReportsWhenItCan,
    /// A proof is reported on an open session only.
    AcksOnOpenSession,
    /// Running and committed events never exceed the capacity.
    HeldWithinCapacity,
    /// What is unread never exceeds the capacity.
    UnreadWithinCapacity,
    /// No slot stays free while something waits.
    SlotsAreUsed,
    /// An event that runs or is committed starts no second handler.
    NoSecondHandler,
    /// A handler gets what was delivered on a connection of its own time, and nothing else.
    StartsWhatWasDelivered,
    /// A generation is handled at most once.
    GenerationHandledOnce,
    /// A successor runs at once when the held proof is lost or the handler failed: the newest one.
    SuccessorsTurn,
    /// A lease that has lapsed before a slot was free starts no handler.
    LapsedNeverStarts,
    /// A running handler's token tells at once that its lease has lapsed, and once.
    LapseIsTold,
    /// What runs is running and what is committed stays so until it is settled; the gauges say so.
    GaugesAreTrue,
    /// Every dial but the first waits between half the interval and the interval, or what the server asked.
    WaitWithinBounds,
    /// Waits are spread.
    WaitsAreSpread,
    /// The next dial waits for the end of the old reader.
    OldReaderEnded,
    /// A stop dials only to report proofs.
    DialsForProofsOnly,
    /// After a permanent cause nothing is dialled.
    NoDialAfterPermanent,
    /// The heartbeat runs as long as a session is open, at the interval of its `welcome`.
    HeartbeatRuns,
    /// A crashed child is replaced within the budget, and not beyond it.
    CrashesAreBorne,
    /// A child that has lost a message is not waited for for ever.
    SilenceIsEnded,
    /// Nothing starts after a stop.
    StopStartsNothing,
    /// Running handlers are told of a stop at once.
    StopIsTold,
    /// The end comes at the deadline at the latest.
    DeadlineKept,
    /// Before the deadline a run ends only when nothing is left to wait for.
    EndsOnlyWhenDone,
    /// The final report names exactly what is committed and what runs, and the right reason.
    ReportIsTrue,
    /// Gauges are zero and no timer is armed after the end.
    QuietAfterTheEnd,
    /// No more receipts and no more handlers than `max_events` allows.
    MaxEventsKept,
    /// Each receipt, loss, failure and session is noticed once.
    NoticesAreTrue,
    /// The timer is never due at once again.
    TimerIsAhead,
    /// An event has one business effect in the receivers' database.
    OneEffect,
    /// What the platform confirms has had its effect.
    ConfirmedWasApplied,
    /// Open deliveries never exceed the window.
    WindowKept,
    /// A paused subscription leases nothing.
    PausedLeasesNothing,
    /// A lease is the only live one of its delivery: its generation is the next.
    OneLiveGeneration,
    /// Only the latest generation confirms.
    OnlyTheLatestConfirms,
    /// A session is leased no more than its capacity allows.
    CreditKept,
    /// Every frame is valid to its receiver.
    FramesAreValid,
    /// A session's control requests fit.
    ControlRequestsFit,
    /// Once nothing goes wrong any more, every event is confirmed.
    EverythingIsConfirmed,
    /// Once nothing goes wrong any more, everything ends, and cleanly.
    ComesToAnEnd,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{check} broken {at:?} after the start: {detail}")]
pub struct Violation {
    /// Which.
    pub check: Check,
    /// When, by the world's clock.
    pub at: Duration,
    /// What was seen.
    pub detail: String,
}

/// Holds, or names what does not.
pub(super) fn holds(check: Check, condition: bool, detail: impl FnOnce() -> String) -> Judged {
    if condition { Ok(()) } else { Err((check, detail())) }
}
