//! The prefix of our tables in somebody else's database.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::AssertSqlSafe;

/// Longest prefix in characters: with the longest table and index name behind it, it stays below the 63 bytes
/// that PostgreSQL keeps of an identifier.
pub const PREFIX_CHARS_MAX: usize = 24;

/// What the names of our tables begin with; `perilune_` where nothing else is asked for.
///
/// It becomes part of SQL text, so only a small alphabet is a prefix: 1 to 24 of `a-z 0-9 _`, a letter or `_`
/// first. That is what makes the statements rendered with it safe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TablePrefix(Arc<str>);

/// A text is not a [`TablePrefix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a table prefix must be 1 to 24 of a-z 0-9 _, a letter or _ first")]
pub struct TablePrefixError;

impl TablePrefix {
    /// The prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Puts the prefix in place of every `{prefix}` of a statement.
    ///
    /// The template is a constant of this crate and the prefix is validated, so the result is safe SQL.
    #[must_use]
    pub fn render(&self, template: &'static str) -> Statement {
        Statement(template.replace("{prefix}", &self.0).into())
    }

    /// As [`TablePrefix::render`], for a text that this crate has put together from its own constants.
    #[cfg(feature = "inbox")]
    #[must_use]
    pub(crate) fn render_owned(&self, template: &str) -> Statement {
        Statement(template.replace("{prefix}", &self.0).into())
    }
}

impl Default for TablePrefix {
    fn default() -> Self {
        Self("perilune_".into())
    }
}

impl fmt::Display for TablePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for TablePrefix {
    type Err = TablePrefixError;

    fn from_str(text: &str) -> Result<Self, TablePrefixError> {
        let first = |c: u8| c.is_ascii_lowercase() || c == b'_';
        let allowed = |c: u8| first(c) || c.is_ascii_digit();
        if text.len() <= PREFIX_CHARS_MAX && text.bytes().next().is_some_and(first) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(TablePrefixError)
        }
    }
}

/// A statement of this crate with the prefix in its place. Cloning shares the text.
#[derive(Debug, Clone)]
pub struct Statement(Arc<str>);

impl Statement {
    /// The statement for a sqlx query.
    #[must_use]
    pub fn sql(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.0))
    }

    /// The statement's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_plain_lowercase_identifier() {
        for good in ["a", "_", "perilune_", "shop2_", &"p".repeat(24)] {
            assert!(good.parse::<TablePrefix>().is_ok(), "{good}");
        }
        for bad in ["", "2a", "A", "a-b", "a;drop table x", "é", "a b", &"p".repeat(25)] {
            assert_eq!(bad.parse::<TablePrefix>(), Err(TablePrefixError), "{bad}");
        }
    }

    #[test]
    fn every_placeholder_of_a_statement_is_replaced() {
        let prefix: TablePrefix = "shop_".parse().expect("valid");
        assert_eq!(prefix.render("x {prefix}a y {prefix}b").as_str(), "x shop_a y shop_b");
    }
}
