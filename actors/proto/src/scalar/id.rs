//! `id`: 128 bits, written as exactly 32 lowercase hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use super::ScalarError;

const EXPECTED: ScalarError = ScalarError::new("exactly 32 of 0-9 a-f");

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Eight digits at a time: every frame has half a dozen ids.
fn parse(text: &str) -> Result<[u8; 16], ScalarError> {
    let digits: &[u8; 32] = text.as_bytes().try_into().map_err(|_| EXPECTED)?;
    let [a, b, c, d] = digits.as_chunks::<8>().0 else { return Err(EXPECTED) };
    let half = |first: &[u8; 8], second: &[u8; 8]| {
        let high = eight_digits(u64::from_be_bytes(*first)).ok_or(EXPECTED)?;
        let low = eight_digits(u64::from_be_bytes(*second)).ok_or(EXPECTED)?;
        Ok(u64::from(high) << 32 | u64::from(low))
    };
    Ok((u128::from(half(a, b)?) << 64 | u128::from(half(c, d)?)).to_be_bytes())
}

/// The value of eight lowercase hexadecimal digits, the first in the highest byte.
fn eight_digits(word: u64) -> Option<u32> {
    const HIGHS: u64 = eight(0x80);
    // The high bit of each byte tells whether the byte is at least the limit: none borrows from its neighbour.
    let at_least = |limit: u8| (word | HIGHS).wrapping_sub(eight(limit));
    let decimal = at_least(b'0') & !at_least(b'9' + 1);
    let letter = at_least(b'a') & !at_least(b'f' + 1);
    if (decimal | letter) & !word & HIGHS != HIGHS {
        return None;
    }
    // The low nibbles of the letters begin at 1 and mean 10.
    let nibbles = (word & eight(0x0f)) + 9 * (letter >> 7 & eight(1));
    let bytes = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    // What is above the low half is a copy of it, shifted.
    Some((pairs | pairs >> 16) as u32)
}

const fn eight(byte: u8) -> u64 {
    u64::from_be_bytes([byte; 8])
}

fn write(bytes: [u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    // Only ASCII digits were written.
    f.pad(std::str::from_utf8(&text).unwrap_or_default())
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
