//! Which status an operation has after which event. Pure: what stands and an event in, what changes out.
//!
//! Source: outcome.md section 1.
//!
//! ```text
//!              ┌────────────────────────────────┐
//! accepted ──▶ running ──▶ retry_scheduled ─────┤   an event applies iff its version is above the stored
//!     │           │               │             │   one, so any of these may be skipped
//!     └───────────┴───────┬───────┘◀────────────┘
//!                         ▼
//!     completed, rejected, failed, dead_lettered     nothing applies after these
//! ```

use perilune_proto::scalar::{TaskVersion, Timestamp};
use perilune_proto::{ResultEvent, Status};

/// An operation's public status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OperationState {
    /// It was accepted and has not begun.
    Accepted,
    /// A worker runs it.
    Running,
    /// It failed and will be tried again.
    RetryScheduled,
    /// It ended well; the only state with an outcome.
    Completed,
    /// It was refused for what it asks.
    Rejected,
    /// It ended in failure.
    Failed,
    /// It was given up after its tries.
    DeadLettered,
}

impl OperationState {
    /// Every state, in the order of an operation's life.
    pub const ALL: [Self; 7] = [
        Self::Accepted,
        Self::Running,
        Self::RetryScheduled,
        Self::Completed,
        Self::Rejected,
        Self::Failed,
        Self::DeadLettered,
    ];

    /// The state as the status resource and the database write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Running => "running",
            Self::RetryScheduled => "retry_scheduled",
            Self::Completed => "completed",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::DeadLettered => "dead_lettered",
        }
    }

    /// Reads a stored state; `None` for any other text.
    #[must_use]
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing follows it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Rejected | Self::Failed | Self::DeadLettered)
    }
}

/// Why an operation was rejected, in words that the status resource may show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// What kind of refusal, such as `validation`.
    pub category: String,
    /// Which refusal, such as `amount_too_large`.
    pub code: String,
}

impl Rejection {
    /// Where the event's error has no code that may be shown.
    const UNSPECIFIED: &'static str = "unspecified";
    /// Where the code names no category.
    const CATEGORY_DEFAULT: &'static str = "business";

    /// Reads `category/code` or `code` from a task's error. Whatever is not 1 to 64 of `A-Z a-z 0-9 . _ -`
    /// might be a person's words, so it is not shown.
    fn from_event(event: &ResultEvent) -> Self {
        let code = event.snapshot.error.as_ref().map_or("", |error| &error.code);
        let (category, code) = code.split_once('/').unwrap_or((Self::CATEGORY_DEFAULT, code));
        let shown = |text: &str, otherwise: &str| {
            let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
            let fits = (1..=64).contains(&text.len()) && text.bytes().all(plain);
            if fits { text.to_owned() } else { otherwise.to_owned() }
        };
        Self { category: shown(category, Self::CATEGORY_DEFAULT), code: shown(code, Self::UNSPECIFIED) }
    }
}

/// How an operation stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its public status.
    pub state: OperationState,
    /// The version of the last event that applied; 0 where none has.
    pub task_version: TaskVersion,
    /// Whether a person must look. Only while it is running.
    pub review_required: bool,
    /// When it will be tried again, where the platform said so. Only while a retry is scheduled.
    pub retry_at: Option<Timestamp>,
    /// Why it was rejected. Only where it was.
    pub rejection: Option<Rejection>,
}

impl Standing {
    /// What `accept()` writes: no event has been seen yet.
    #[must_use]
    pub const fn accepted() -> Self {
        Self {
            state: OperationState::Accepted,
            task_version: TaskVersion(0),
            review_required: false,
            retry_at: None,
            rejection: None,
        }
    }
}

/// What an event changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// The operation stands as given from now on.
    Applies(Standing),
    /// Its version is not above the stored one: it came late or again.
    Stale,
    /// The operation has ended.
    Ended,
}

/// What `event` changes in an operation that stands as `current`; `None` where it is not known yet.
pub fn apply(current: Option<&Standing>, event: &ResultEvent) -> Change {
    if let Some(current) = current {
        if current.state.is_terminal() {
            return Change::Ended;
        }
        if event.task_version() <= current.task_version {
            return Change::Stale;
        }
    }
    let accepted = Standing { task_version: event.task_version(), ..Standing::accepted() };
    Change::Applies(match event.snapshot.status {
        Status::Started => Standing { state: OperationState::Running, ..accepted },
        Status::NeedsReview => Standing { state: OperationState::Running, review_required: true, ..accepted },
        Status::RetryScheduled => {
            Standing { state: OperationState::RetryScheduled, retry_at: retry_at(event), ..accepted }
        }
        Status::Succeeded => Standing { state: OperationState::Completed, ..accepted },
        Status::Rejected => {
            Standing { state: OperationState::Rejected, rejection: Some(Rejection::from_event(event)), ..accepted }
        }
        Status::Failed => Standing { state: OperationState::Failed, ..accepted },
        Status::DeadLettered => Standing { state: OperationState::DeadLettered, ..accepted },
        // `accepted`, and whatever a later contract adds: it is known and has not ended.
        _ => accepted,
    })
}

/// The time in `{"retryAt": "<time>"}`, which a `retry_scheduled` event's result may be.
fn retry_at(event: &ResultEvent) -> Option<Timestamp> {
    #[derive(serde::Deserialize)]
    struct Schedule {
        #[serde(rename = "retryAt")]
        retry_at: Timestamp,
    }
    serde_json::from_str::<Schedule>(event.snapshot.result.as_str()).ok().map(|schedule| schedule.retry_at)
}
