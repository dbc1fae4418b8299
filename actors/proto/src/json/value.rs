//! Where in its text a value stands.

use std::borrow::Cow;
use std::fmt;

use super::text::unescape;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The key is not there.
    Absent,
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// A slot: the part of the text that a known key's value is.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) kind: Kind,
    /// Whether it is a string with escapes.
    pub(super) escaped: bool,
    /// Levels of nesting inside the value: 0 for a scalar.
    pub(super) levels: u8,
    /// Whether another key differs from this one only in case.
    pub(super) twin: bool,
}

impl Value {
    pub(super) const ABSENT: Self =
        Self { start: 0, end: 0, kind: Kind::Absent, escaped: false, levels: 0, twin: false };

    /// The value as it stands in its text.
    #[inline(always)]
    pub(super) fn raw<'a>(&self, text: &'a str) -> &'a str {
        &text[self.start as usize..self.end as usize]
    }

    /// What a string says; `None` for another kind or a lone surrogate.
    #[inline(always)]
    pub(super) fn text<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        if self.kind != Kind::String {
            return None;
        }
        let inside = &text[self.start as usize + 1..self.end as usize - 1];
        if self.escaped { unescape(inside).map(Cow::Owned) } else { Some(Cow::Borrowed(inside)) }
    }
}

// The text may be a secret or business data.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.kind, self.end - self.start)
    }
}
