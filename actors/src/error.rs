//! How a run ends badly: a matchable kind with its source.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use perilune_proto::consumer::{CauseCode, EndReason, FinishReport};
use perilune_proto::scalar::EventId;
use perilune_proto::wire::{CloseCode, ErrorCode};

/// Why a run did not end well, and what it had to leave.
///
/// `Display` is one clause without remote text; the [`source`](Error::source) is the connection's own error, where one
/// led to it. Clones share the source.
#[derive(Debug, Clone)]
pub struct RunError {
    kind: RunErrorKind,
    unconfirmed: Vec<EventId>,
    running: Vec<EventId>,
    source: Option<Source>,
}

/// What led to an end, shared by every waiter.
pub(crate) type Source = Arc<dyn Error + Send + Sync>;

/// What ended a run, sorted by whose fault it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunErrorKind {
    /// The caller: this consumer has been run before. Build another one.
    AlreadyRan,
    /// The caller: there is no actix system on this thread, or no thread could be made for the consumer.
    NoArbiter,
    /// The caller or the peer: a cause that does not mend by itself, such as a refused credential.
    Permanent {
        /// The cause's code.
        code: CauseCode,
    },
    /// The environment: the stop ran out of its time with something left.
    ShutdownTimeout {
        /// Events known here and unconfirmed, oldest first; those whose handler still runs are among them. The
        /// platform delivers them again.
        unconfirmed: Vec<EventId>,
        /// Events whose handler still runs. It can't be killed, and its effects are not claimed undone.
        running: Vec<EventId>,
    },
    /// This library: one of its actors crashed more often than the budget of 5 in 60 s allows.
    Crashed {
        /// The actor, as one lower-case word.
        actor: &'static str,
    },
    /// The environment: the actix system or the consumer's arbiter was stopped under it.
    Aborted,
}

impl RunError {
    pub(crate) const fn new(kind: RunErrorKind) -> Self {
        Self { kind, unconfirmed: Vec::new(), running: Vec::new(), source: None }
    }

    /// A subscription that kept crashing, with what it had committed.
    pub(crate) const fn crashed(unconfirmed: Vec<EventId>) -> Self {
        let kind = RunErrorKind::Crashed { actor: "subscription" };
        Self { kind, unconfirmed, running: Vec::new(), source: None }
    }

    pub(crate) fn with_source(mut self, source: Option<Source>) -> Self {
        self.source = source;
        self
    }

    /// Reads a run's end.
    pub(crate) fn check(report: FinishReport, source: Option<Source>) -> Result<(), Self> {
        let unconfirmed: Vec<_> = report.unconfirmed().collect();
        let (kind, source) = match report.end {
            EndReason::Stopped | EndReason::MaxEvents if report.committed.is_empty() && report.running.is_empty() => {
                return Ok(());
            }
            EndReason::Permanent(cause) => (RunErrorKind::Permanent { code: cause.code }, source),
            EndReason::ShellLost => (RunErrorKind::Crashed { actor: "subscription" }, None),
            EndReason::ChildLost(role) => (RunErrorKind::Crashed { actor: role.as_str() }, None),
            // Stopped, or enough events, with something left; so is an end that this version does not know.
            _ => {
                let (unconfirmed, running) = (unconfirmed.clone(), report.running.clone());
                (RunErrorKind::ShutdownTimeout { unconfirmed, running }, None)
            }
        };
        Err(Self { kind, unconfirmed, running: report.running, source })
    }

    /// What ended the run.
    #[must_use]
    pub const fn kind(&self) -> &RunErrorKind {
        &self.kind
    }

    /// Events known here and unconfirmed at the end, oldest first.
    #[must_use]
    pub fn unconfirmed(&self) -> &[EventId] {
        &self.unconfirmed
    }

    /// Events whose handler still ran at the end.
    #[must_use]
    pub fn running(&self) -> &[EventId] {
        &self.running
    }

    /// The kind as one lower-case word, for logs.
    pub(crate) const fn kind_text(&self) -> &'static str {
        match self.kind {
            RunErrorKind::AlreadyRan => "already_ran",
            RunErrorKind::NoArbiter => "no_arbiter",
            RunErrorKind::Permanent { .. } => "permanent",
            RunErrorKind::ShutdownTimeout { .. } => "shutdown_timeout",
            RunErrorKind::Crashed { .. } => "crashed",
            RunErrorKind::Aborted => "aborted",
        }
    }

    /// A short code in upper case for programs and exit codes, such as `UNAUTHENTICATED` or `SHUTDOWN_TIMEOUT`.
    #[must_use]
    pub fn code(&self) -> String {
        match &self.kind {
            RunErrorKind::Permanent { code } => code.to_string(),
            RunErrorKind::AlreadyRan => "ALREADY_RAN".to_owned(),
            RunErrorKind::NoArbiter => "NO_ARBITER".to_owned(),
            RunErrorKind::ShutdownTimeout { .. } => "SHUTDOWN_TIMEOUT".to_owned(),
            RunErrorKind::Crashed { .. } => "CRASHED".to_owned(),
            RunErrorKind::Aborted => "ABORTED".to_owned(),
        }
    }

    const fn cause(&self) -> Option<&CauseCode> {
        match &self.kind {
            RunErrorKind::Permanent { code } => Some(code),
            _ => None,
        }
    }

    fn has_code(&self, wanted: &ErrorCode, wanted_status: Option<u16>) -> bool {
        match self.cause() {
            Some(CauseCode::Error(code) | CauseCode::Http { code: Some(code), .. }) if code == wanted => true,
            Some(CauseCode::Http { status, .. }) => Some(*status) == wanted_status,
            _ => false,
        }
    }

    /// The credential is unknown, expired or revoked.
    #[must_use]
    pub fn is_unauthenticated(&self) -> bool {
        self.has_code(&ErrorCode::Unauthenticated, Some(401))
    }

    /// The credential may not consume this subscription.
    #[must_use]
    pub fn is_permission_denied(&self) -> bool {
        self.has_code(&ErrorCode::PermissionDenied, Some(403))
    }

    /// There is no such subscription for this credential.
    #[must_use]
    pub fn is_subscription_not_found(&self) -> bool {
        self.has_code(&ErrorCode::SubscriptionNotFound, None)
    }

    /// The log no longer holds the subscription's next event; an operator has to seek.
    #[must_use]
    pub fn is_history_gap(&self) -> bool {
        self.has_code(&ErrorCode::HistoryGap, None)
    }

    /// The platform did not know a proof's secret: two platforms, or a forged delivery.
    #[must_use]
    pub fn is_proof_invalid(&self) -> bool {
        self.has_code(&ErrorCode::ProofInvalid, None)
    }

    /// One side broke the contract, whichever found it.
    #[must_use]
    pub fn is_protocol_error(&self) -> bool {
        const BROKEN: [CloseCode; 4] =
            [CloseCode::PROTOCOL, CloseCode::UNSUPPORTED, CloseCode::INVALID_TEXT, CloseCode::TOO_LARGE];
        match self.cause() {
            Some(CauseCode::Protocol | CauseCode::Error(ErrorCode::ProtocolError)) => true,
            Some(CauseCode::Close(code)) => BROKEN.contains(code),
            _ => false,
        }
    }

    /// Something local: configuration, a certificate file, the credential provider.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        matches!(self.cause(), Some(CauseCode::Local))
    }

    /// The stop ran out of its time with something left.
    #[must_use]
    pub const fn is_shutdown_timeout(&self) -> bool {
        matches!(self.kind, RunErrorKind::ShutdownTimeout { .. })
    }

    /// One of the consumer's actors crashed too often.
    #[must_use]
    pub const fn is_crash(&self) -> bool {
        matches!(self.kind, RunErrorKind::Crashed { .. })
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            RunErrorKind::AlreadyRan => f.write_str("this consumer has been run before"),
            RunErrorKind::NoArbiter => f.write_str("no actix system to run in, or no thread to be had"),
            // A code that this version does not know is remote text.
            RunErrorKind::Permanent { code: CauseCode::Error(ErrorCode::Other(_)) } => {
                f.write_str("the platform gave a reason that this version does not know")
            }
            RunErrorKind::Permanent { code } => write!(f, "stopped by {code}"),
            RunErrorKind::ShutdownTimeout { unconfirmed, running } => write!(
                f,
                "the stop ran out of its time with {} unconfirmed and {} running",
                unconfirmed.len(),
                running.len()
            ),
            RunErrorKind::Crashed { actor } => write!(f, "the {actor} actor crashed too often"),
            RunErrorKind::Aborted => f.write_str("the actix system stopped under the consumer"),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use perilune_proto::consumer::DisconnectCause;

    use super::*;

    fn ended(end: EndReason, committed: &[u128], running: &[u128]) -> Result<(), RunError> {
        let ids = |ids: &[u128]| ids.iter().copied().map(EventId::from_u128).collect();
        RunError::check(FinishReport { end, committed: ids(committed), running: ids(running) }, None)
    }

    fn permanent(code: CauseCode) -> RunError {
        ended(EndReason::Permanent(DisconnectCause::new(code)), &[], &[]).expect_err("permanent")
    }

    #[test]
    fn a_clean_stop_is_no_error_and_one_with_something_left_counts_it() {
        assert!(ended(EndReason::Stopped, &[], &[]).is_ok());
        assert!(ended(EndReason::MaxEvents, &[], &[]).is_ok());
        let error = ended(EndReason::Stopped, &[1, 2], &[3]).expect_err("something is left");
        assert!(error.is_shutdown_timeout());
        assert_eq!((error.unconfirmed().len(), error.running().len()), (3, 1));
        assert_eq!(error.to_string(), "the stop ran out of its time with 3 unconfirmed and 1 running");
    }

    #[test]
    fn permanent_causes_can_be_matched_however_they_came() {
        assert!(permanent(CauseCode::Error(ErrorCode::Unauthenticated)).is_unauthenticated());
        assert!(permanent(CauseCode::Http { status: 401, code: None }).is_unauthenticated());
        assert!(permanent(CauseCode::Http { status: 403, code: None }).is_permission_denied());
        assert!(permanent(CauseCode::Error(ErrorCode::HistoryGap)).is_history_gap());
        assert!(permanent(CauseCode::Error(ErrorCode::SubscriptionNotFound)).is_subscription_not_found());
        assert!(permanent(CauseCode::Error(ErrorCode::ProofInvalid)).is_proof_invalid());
        assert!(permanent(CauseCode::Close(CloseCode(1009))).is_protocol_error());
        assert!(permanent(CauseCode::Local).is_local());
        assert!(!permanent(CauseCode::Protocol).is_unauthenticated());
    }

    #[test]
    fn a_code_from_the_peer_that_is_unknown_here_is_not_displayed() {
        let error = permanent(CauseCode::Error(ErrorCode::from_wire("card 4111")));
        assert!(!error.to_string().contains("4111"));
    }
}
