//! How a command ends: the exit codes of cli.md and the one sentence that goes with each.

use std::fmt;

use perilune_proto::scalar::EventId;

/// Everything went well.
pub(crate) const DONE: u8 = 0;
/// The command failed.
const FAILED: u8 = 1;
/// The command was called wrongly.
pub(crate) const USAGE: u8 = 2;
/// The platform refused for good.
const PERMANENT: u8 = 3;
/// A stop ran out of its time.
const SHUTDOWN_TIMEOUT: u8 = 4;
/// A second SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// What a command's body gives back.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command didn't end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was called wrongly: a flag, a variable or the configuration file.
    Usage(String),
    /// It failed; another try may do better.
    Failed(anyhow::Error),
    /// The platform refused for good.
    Permanent {
        /// The platform's code, such as `SUBSCRIPTION_NOT_FOUND`.
        code: String,
        /// What that means, one clause.
        reason: String,
        /// What a consumer had to leave.
        left: Left,
    },
    /// A consumer's stop ran out of its time.
    ShutdownTimeout(Left),
}

/// What a consumer had to leave; the platform delivers it again.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Events known here and unconfirmed.
    pub(crate) unconfirmed: Vec<EventId>,
    /// Events whose handler still runs.
    pub(crate) running: Vec<EventId>,
}

impl Left {
    const fn is_empty(&self) -> bool {
        self.unconfirmed.is_empty() && self.running.is_empty()
    }
}

/// Counts, then an event a line.
impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} unconfirmed, {} running", self.unconfirmed.len(), self.running.len())?;
        for (what, events) in [("unconfirmed", &self.unconfirmed), ("running", &self.running)] {
            for event in events {
                write!(f, "\n  {what} {event}")?;
            }
        }
        Ok(())
    }
}

impl Failure {
    /// A usage error.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self::Usage(sentence.into())
    }

    /// A failure with one sentence.
    pub(crate) fn failed(sentence: impl Into<String>) -> Self {
        Self::Failed(anyhow::Error::msg(sentence.into()))
    }

    /// The process's exit code.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Failed(_) => FAILED,
            Self::Permanent { .. } => PERMANENT,
            Self::ShutdownTimeout(_) => SHUTDOWN_TIMEOUT,
        }
    }

    /// Tells it on stderr.
    pub(crate) fn report(&self) {
        super::stderr::tell(format_args!("error: {}", self.text()));
    }

    fn text(&self) -> String {
        match self {
            Self::Usage(sentence) => format!("{sentence}\n\nFor more information, try '--help'."),
            // `{:#}` is the whole chain on one line: what, then why.
            Self::Failed(error) => format!("{error:#}"),
            Self::Permanent { code, reason, left } if left.is_empty() => format!("{code}: {reason}"),
            Self::Permanent { code, reason, left } => format!("{code}: {reason}; {left}"),
            Self::ShutdownTimeout(left) => format!("shutdown timeout: {left}"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_timeout_tells_counts_and_event_ids() {
        let failure = Failure::ShutdownTimeout(Left {
            unconfirmed: vec![EventId::from_u128(1)],
            running: vec![EventId::from_u128(2), EventId::from_u128(3)],
        });
        let text = failure.text();
        assert!(text.starts_with("shutdown timeout: 1 unconfirmed, 2 running\n"), "{text}");
        assert!(text.contains("unconfirmed 00000000000000000000000000000001"), "{text}");
        assert!(text.contains("running 00000000000000000000000000000003"), "{text}");
        assert_eq!(failure.code(), 4);
    }
}
