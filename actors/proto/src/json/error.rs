//! What a text or a field can be refused for. No error repeats what the text says.

use std::borrow::Cow;
use std::fmt;

use super::Document;

/// Why a text is not one strict JSON value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flaw} at byte {at}{}", inside(.pointer))]
pub struct Malformed {
    /// What is wrong.
    pub flaw: Flaw,
    /// The offset in bytes at which reading ended.
    pub at: usize,
    /// JSON pointer of the innermost known field that reading had entered; empty outside of one.
    pub pointer: String,
}

fn inside(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" inside {pointer}") }
}

/// What makes a text no strict JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The text ends inside a value, or is empty.
    #[error("json ends too early")]
    Truncated,
    /// A character that JSON does not have in that place.
    #[error("a character that json does not allow")]
    Unexpected,
    /// The text begins with a byte order mark.
    #[error("a byte order mark")]
    ByteOrderMark,
    /// The text is one JSON value but no object.
    #[error("another json value than an object")]
    NotAnObject,
    /// Something but white space follows the value.
    #[error("something after the json value")]
    Trailing,
    /// A number that JSON's grammar does not have.
    #[error("a number that json does not allow")]
    Number,
    /// A control character inside a string.
    #[error("an unescaped control character in a string")]
    Control,
    /// An escape that JSON does not have.
    #[error("an escape that json does not allow")]
    Escape,
    /// A surrogate without its other half, in a key.
    #[error("a lone surrogate in a key")]
    LoneSurrogate,
    /// Two keys of one object are the same after unescaping.
    #[error("a duplicate key")]
    DuplicateKey,
    /// Objects and arrays are nested deeper than allowed.
    #[error("nesting deeper than allowed")]
    TooDeep,
    /// The text is longer than allowed.
    #[error("text longer than allowed")]
    TooLong,
}

/// A field that is missing, mistyped or out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer} {fault}")]
pub struct FieldError {
    /// JSON pointer of the field. It names known keys and array indexes only.
    pub pointer: String,
    /// What is wrong with it.
    pub fault: FieldFault,
}

impl FieldError {
    /// A field that must be something else.
    #[must_use]
    pub fn expected(pointer: impl Into<String>, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { pointer: pointer.into(), fault: FieldFault::Expected(expected.into()) }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldFault {
    /// It is required and absent.
    Missing,
    /// Another key differs from its name only in ASCII case.
    CaseTwin,
    /// It must be what the noun phrase says.
    Expected(Cow<'static, str>),
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::CaseTwin => f.write_str("must be spelled exactly so: another key differs only in case"),
            Self::Expected(expected) => write!(f, "must be {expected}"),
        }
    }
}

/// Collects the bad fields of one document, for an answer that names them all.
#[derive(Debug, Default)]
pub struct Faults(Vec<FieldError>);

impl Faults {
    /// Starts with the document's case twins, which no access to a field would tell.
    #[must_use]
    pub fn of(document: &Document<'_>) -> Self {
        Self(document.case_twins())
    }

    /// Takes a good value out, or keeps the error and gives nothing.
    pub fn keep<T>(&mut self, read: Result<T, FieldError>) -> Option<T> {
        read.map_err(|error| self.push(error)).ok()
    }

    /// Adds a fault that the caller found.
    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// Whether every field was good.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bad fields in the order in which they were found.
    #[must_use]
    pub fn into_vec(self) -> Vec<FieldError> {
        self.0
    }
}
