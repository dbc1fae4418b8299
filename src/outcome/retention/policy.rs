//! How long each target is kept.

use std::fmt;
use std::time::Duration;

/// What can be purged of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Target {
    /// Its input payload.
    Input,
    /// Its journal.
    Journal,
    /// Its outcome.
    Outcome,
    /// Why it was dead-lettered.
    DeadLetter,
}

impl Target {
    /// Every target, in the order in which a purge takes them.
    pub const ALL: [Self; 4] = [Self::Input, Self::Journal, Self::Outcome, Self::DeadLetter];

    /// The target as the audit writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Journal => "journal",
            Self::Outcome => "outcome",
            Self::DeadLetter => "dead_letter",
        }
    }

    pub(super) fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.as_str() == text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A period is no period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the retention of {target} must be from 1 s to 36500 days")]
pub struct RetentionPolicyError {
    /// Which target's.
    pub target: Target,
}

/// How long each target is kept after its operation ended. There is no default: somebody must have decided.
///
/// ```
/// use std::time::Duration;
/// use perilune::outcome::retention::{RetentionPolicy, Target};
///
/// let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
/// let policy = RetentionPolicy::builder().input(days(30)).journal(days(365)).outcome(days(90)).dead_letter(days(90)).build()?;
/// assert_eq!(policy.period(Target::Outcome), days(90));
/// // A period that nobody gave is refused, not guessed.
/// assert_eq!(RetentionPolicy::builder().input(days(30)).build().unwrap_err().target, Target::Journal);
/// # Ok::<(), perilune::outcome::retention::RetentionPolicyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    periods: [Duration; 4],
}

const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

impl RetentionPolicy {
    /// Begins with no period at all.
    #[must_use]
    pub fn builder() -> RetentionPolicyBuilder {
        RetentionPolicyBuilder::default()
    }

    /// How long a target is kept after its operation ended.
    #[must_use]
    pub const fn period(&self, target: Target) -> Duration {
        self.periods[target as usize]
    }

    /// The latest end, in microseconds since 1970, of an operation whose target is due at `now`.
    pub(super) fn cutoff(&self, target: Target, now: i64) -> i64 {
        now.saturating_sub(i64::try_from(self.period(target).as_micros()).unwrap_or(i64::MAX))
    }
}

/// Gives each target its period.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetentionPolicyBuilder {
    periods: [Option<Duration>; 4],
}

impl RetentionPolicyBuilder {
    const fn with(mut self, target: Target, period: Duration) -> Self {
        self.periods[target as usize] = Some(period);
        self
    }

    /// How long the input payload is kept: 1 s to 36500 days.
    #[must_use]
    pub const fn input(self, period: Duration) -> Self {
        self.with(Target::Input, period)
    }

    /// How long the journal is kept: 1 s to 36500 days.
    #[must_use]
    pub const fn journal(self, period: Duration) -> Self {
        self.with(Target::Journal, period)
    }

    /// How long the outcome is kept: 1 s to 36500 days.
    #[must_use]
    pub const fn outcome(self, period: Duration) -> Self {
        self.with(Target::Outcome, period)
    }

    /// How long a dead-letter reason is kept: 1 s to 36500 days.
    #[must_use]
    pub const fn dead_letter(self, period: Duration) -> Self {
        self.with(Target::DeadLetter, period)
    }

    /// The policy.
    ///
    /// # Errors
    /// [`RetentionPolicyError`] names the first target whose period is missing or out of range.
    pub fn build(self) -> Result<RetentionPolicy, RetentionPolicyError> {
        let mut periods = [PERIOD_MIN; 4];
        for target in Target::ALL {
            let given = self.periods[target as usize].filter(|period| (PERIOD_MIN..=PERIOD_MAX).contains(period));
            periods[target as usize] = given.ok_or(RetentionPolicyError { target })?;
        }
        Ok(RetentionPolicy { periods })
    }
}
