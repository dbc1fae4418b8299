//! What an operation is: its id, its type, its outcome's type.
//!
//! Source: outcome.md, the opening and section 1.

use std::fmt;
use std::str::FromStr;

use perilune_proto::scalar::{ScalarError, TaskId};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Names an operation: the platform's task id, a UUIDv7 written as 32 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(TaskId);

impl OperationId {
    /// A new id: the wall clock's milliseconds and 74 random bits.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "no two are equal, so none is the default")]
    pub fn new() -> Self {
        Self(TaskId::from_bytes(*uuid::Uuid::now_v7().as_bytes()))
    }

    /// Makes the id from its 128 bits.
    #[must_use]
    pub const fn from_u128(bits: u128) -> Self {
        Self(TaskId::from_u128(bits))
    }

    /// The id's 128 bits.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The platform's name for it.
    #[must_use]
    pub const fn task_id(self) -> TaskId {
        self.0
    }
}

impl From<TaskId> for OperationId {
    fn from(task_id: TaskId) -> Self {
        Self(task_id)
    }
}

impl FromStr for OperationId {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for OperationId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

/// A type of operation: what it takes and how it ends.
///
/// `TYPE` is on disk and on the wire, so it outlives every renaming of the Rust type.
pub trait Operation: 'static {
    /// The stable name: 1 to 128 of `A-Z a-z 0-9 . _ -`, such as `GenerateReport`.
    const TYPE: &'static str;
    /// What it takes.
    type Input: Serialize + DeserializeOwned;
    /// What it leaves when it completes.
    type Outcome: Outcome;
}

/// What a completed operation leaves: kept, protected, and asked for by type.
///
/// A value that must be seen once and never kept is an [`EphemeralOutcome`], which is no `Outcome`:
///
/// ```compile_fail
/// use perilune::outcome::{EphemeralOutcome, Outcome};
///
/// fn store<O: Outcome>(_outcome: O) {}
/// store(EphemeralOutcome::new("a credential, shown once"));
/// ```
pub trait Outcome: Serialize + DeserializeOwned + JsonSchema + 'static {
    /// The stable name, never a Rust path.
    const TYPE: &'static str;
    /// Grows by one with each change that an older reader could not read. From 1.
    const SCHEMA_VERSION: u32;
}

/// The outcome of an operation that leaves nothing but the fact that it completed. It is kept like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyOutcome {}

impl Outcome for EmptyOutcome {
    const TYPE: &'static str = "Empty";
    const SCHEMA_VERSION: u32 = 1;
}

/// A value for one response alone: a credential that is shown once.
///
/// It has no `Serialize`, `Debug` or `Clone`, and it is no [`Outcome`], so nothing can keep it. Only an
/// inline operation may end with one; its journal record holds an empty outcome.
pub struct EphemeralOutcome<T>(T);

impl<T> EphemeralOutcome<T> {
    /// Wraps the value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Hands the value over, for the one response.
    pub fn into_response_value(self) -> T {
        self.0
    }
}
