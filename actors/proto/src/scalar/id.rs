//! `id`: 128 bits, written as exactly 32 lowercase hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, Written, push_ascii};

const EXPECTED: ScalarError = ScalarError::new("exactly 32 of 0-9 a-f");

/// Byte by byte, all 32 without a way out between: so it becomes a few wide instructions. Every frame has half a dozen
/// ids.
fn parse(text: &str) -> Result<[u8; 16], ScalarError> {
    let digits: &[u8; 32] = text.as_bytes().try_into().map_err(|_| EXPECTED)?;
    let mut nibbles = [0; 32];
    let mut strange = 0;
    for (nibble, c) in nibbles.iter_mut().zip(digits) {
        let (decimal, letter) = (c.wrapping_sub(b'0'), c.wrapping_sub(b'a'));
        strange |= u8::from(decimal > 9 && letter > 5);
        *nibble = if decimal < 10 { decimal } else { letter.wrapping_add(10) };
    }
    if strange != 0 {
        return Err(EXPECTED);
    }
    let mut bytes = [0; 16];
    for (byte, [high, low]) in bytes.iter_mut().zip(nibbles.as_chunks().0) {
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

/// The digits as they are written.
fn digits(bytes: [u8; 16]) -> [u8; 32] {
    let mut digits = [0; 32];
    for ([high, low], byte) in digits.as_chunks_mut().0.iter_mut().zip(bytes) {
        (*high, *low) = (byte >> 4, byte & 15);
    }
    digits.map(|nibble| if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble })
}

fn write(bytes: [u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // Only ASCII digits were written.
    f.pad(std::str::from_utf8(&digits(bytes)).unwrap_or_default())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Makes the id from its 128 bits.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Makes the id from its 128 bits as a number.
            #[must_use]
            pub const fn from_u128(bits: u128) -> Self {
                Self(bits.to_be_bytes())
            }

            /// The id's 128 bits.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl Written for $name {
            fn push_to(&self, text: &mut String) {
                push_ascii(text, &digits(self.0));
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write(self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = ScalarError;

            fn from_str(text: &str) -> Result<Self, ScalarError> {
                parse(text).map(Self)
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

id! {
    /// Names a subscription.
    SubscriptionId
}
id! {
    /// Names an event: one status change of one task.
    EventId
}
id! {
    /// Names a delivery: one event's journey to one subscription.
    DeliveryId
}
id! {
    /// Names a session: one registered WebSocket.
    SessionId
}
id! {
    /// Correlates one request with its one reply. It is never a deduplication key.
    MessageId
}
id! {
    /// Names a task of the platform.
    TaskId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_alike_at_every_place() {
        for place in 0..32 {
            for c in 0..=u8::MAX {
                let mut text = *b"00ff0123456789abcdef0123456789ab";
                text[place] = c;
                let Ok(text) = std::str::from_utf8(&text) else { continue };
                let allowed = matches!(c, b'0'..=b'9' | b'a'..=b'f');
                let bits = allowed.then(|| u128::from_str_radix(text, 16).expect("hexadecimal"));
                assert_eq!(text.parse().ok(), bits.map(EventId::from_u128), "{text}");
            }
        }
    }

    #[test]
    fn exactly_32_lowercase_hex_digits_are_an_id() {
        let text = "00ff0123456789abcdef0123456789ab";
        assert_eq!(text.parse::<EventId>().expect("valid").to_string(), text);
        for bad in [
            "",
            &text[1..],
            &text.to_uppercase(),
            "00ff0123456789abcdef0123456789ag",
            "00ff0123456789abcdef0123456789abc",
            "é0ff0123456789abcdef0123456789a",
        ] {
            assert_eq!(bad.parse::<EventId>(), Err(EXPECTED), "{bad}");
        }
    }
}
