//! The name of a queue or an operation: 1 to 128 of `A-Z a-z 0-9 . _ -`.

use std::fmt;
use std::str::FromStr;

use smol_str::SmolStr;

use super::{ScalarError, Written};
use crate::limits::NAME_CHARS;

const EXPECTED: ScalarError = ScalarError::new("1 to 128 of A-Z a-z 0-9 . _ -");

/// The name of a queue or an operation. Cloning is cheap, and a name of up to 23 characters takes no
/// memory of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(SmolStr);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Written for Name {
    fn push_to(&self, text: &mut String) {
        text.push_str(self.as_str());
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for Name {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        if NAME_CHARS.contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(EXPECTED)
        }
    }
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_128_plain_characters_at_most() {
        for good in ["a", "Generate.Report_v2-x", &"q".repeat(128)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", "a b", "a/b", "é", &"q".repeat(129)] {
            assert_eq!(bad.parse::<Name>(), Err(EXPECTED), "{bad}");
        }
    }
}
