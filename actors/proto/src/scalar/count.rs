//! `u64`: a string with the canonical decimal of an unsigned 64-bit integer.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, Written, push_ascii};

const EXPECTED: ScalarError = ScalarError::new("a string with a canonical decimal from 0 to 18446744073709551615");

/// Reads a canonical decimal: `0` or no leading zero, no sign, at most 18446744073709551615.
///
/// # Errors
/// [`ScalarError`] for any other text.
pub fn parse_u64(text: &str) -> Result<u64, ScalarError> {
    let digits = text.as_bytes();
    let canonical = match digits {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return Err(EXPECTED);
    }
    // Too large a number is the only way left to fail.
    text.parse().map_err(|_| EXPECTED)
}

/// Appends a canonical decimal.
fn push(text: &mut String, mut count: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (count % 10) as u8;
        count /= 10;
        if count == 0 {
            break;
        }
    }
    push_ascii(text, &digits[first..]);
}

macro_rules! count {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl Written for $name {
            fn push_to(&self, text: &mut String) {
                push(text, self.0);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = ScalarError;

            fn from_str(text: &str) -> Result<Self, ScalarError> {
                parse_u64(text).map(Self)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

count! {
    /// How many times a delivery has been leased. The first lease has generation 1.
    Generation
}
count! {
    /// An event's place in the platform's log.
    Sequence
}
count! {
    /// A task's version: grows by one with each of its events.
    TaskVersion
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_written_as_it_displays() {
        for count in (0..20).flat_map(|n| [10_u64.pow(n) - 1, 10_u64.pow(n)]).chain([u64::MAX]) {
            let mut text = String::new();
            Sequence(count).push_to(&mut text);
            assert_eq!(text, Sequence(count).to_string());
        }
    }

    #[test]
    fn only_canonical_decimals_are_counts() {
        assert_eq!(parse_u64("0"), Ok(0));
        assert_eq!(parse_u64("18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "00", "01", "+1", "-1", "1.0", "1e3", " 1", "1 ", "18446744073709551616", "١"] {
            assert_eq!(parse_u64(bad), Err(EXPECTED), "{bad}");
        }
    }
}
