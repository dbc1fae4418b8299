//! `secret`: 32 bytes, written as 43 characters of base64url without padding.

use std::fmt;
use std::str::FromStr;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{ScalarError, Written, push_ascii};

/// Characters of the wire form.
const CHARACTERS: usize = 43;
/// The same, filled up to whole groups of four characters and three bytes, and those to a round number.
const PADDED: usize = 48;

const EXPECTED: ScalarError = ScalarError::new("43 characters of unpadded base64url that decode to 32 bytes");

/// The secret of one generation of one delivery.
///
/// It never prints, and its memory is wiped when it is dropped. Comparison takes the same time
/// whatever the bytes are.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Makes a secret from 32 random bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret's bytes. Keep them out of logs and files.
    #[must_use]
    pub const fn expose_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The secret's wire form. Keep it out of logs and files.
    #[must_use]
    pub fn expose_text(&self) -> Zeroizing<String> {
        let mut text = String::with_capacity(CHARACTERS);
        self.push_to(&mut text);
        text.into()
    }
}

impl Written for Secret {
    fn push_to(&self, text: &mut String) {
        push_ascii(text, &write(&self.0)[..CHARACTERS]);
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // No early exit: the time tells nothing about where two secrets differ.
        self.0.iter().zip(&other.0).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl FromStr for Secret {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        read(text.as_bytes()).ok_or(EXPECTED)
    }
}

/// Every character takes the same way, whatever it is: neither the time nor the caches tell anything about it. And
/// all go it together, in a few wide instructions.
fn read(text: &[u8]) -> Option<Secret> {
    let text: &[u8; CHARACTERS] = text.try_into().ok()?;
    // Filled up with zeros.
    let mut sextets = Zeroizing::new([b'A'; PADDED]);
    sextets[..CHARACTERS].copy_from_slice(text);
    let mut strange = 0;
    for place in &mut *sextets {
        let c = *place;
        let pick = |is: bool, value: u8| if is { value } else { 0 };
        let (upper, lower, digit) = (c.wrapping_sub(b'A'), c.wrapping_sub(b'a'), c.wrapping_sub(b'0'));
        let known = (upper < 26) | (lower < 26) | (digit < 10) | (c == b'-') | (c == b'_');
        strange |= u8::from(!known);
        *place = pick(upper < 26, upper)
            | pick(lower < 26, lower.wrapping_add(26))
            | pick(digit < 10, digit.wrapping_add(52))
            | pick(c == b'-', 62)
            | pick(c == b'_', 63);
    }
    let mut bytes = Zeroizing::new([0; PADDED / 4 * 3]);
    for (three, four) in bytes.as_chunks_mut().0.iter_mut().zip(sextets.as_chunks().0) {
        let word = u32::from_be_bytes(*four);
        let word = word & 0x003f_003f | word >> 2 & 0x0fc0_0fc0;
        let [_, packed @ ..] = (word & 0x0fff | word >> 4 & 0x00ff_f000).to_be_bytes();
        *three = packed;
    }
    let (secret, spare) = bytes.split_first_chunk()?;
    let canonical = strange == 0 && spare.iter().all(|&byte| byte == 0);
    canonical.then_some(Secret(*secret))
}

/// The wire form, and a few characters more.
fn write(secret: &[u8; 32]) -> Zeroizing<[u8; PADDED]> {
    let mut bytes = Zeroizing::new([0; PADDED / 4 * 3]);
    bytes[..32].copy_from_slice(secret);
    let mut characters = Zeroizing::new([0; PADDED]);
    for ([s, t, u, v], [a, b, c]) in characters.as_chunks_mut().0.iter_mut().zip(bytes.as_chunks().0) {
        (*s, *t, *u, *v) = (a >> 2, (a << 4 | b >> 4) & 63, (b << 2 | c >> 6) & 63, c & 63);
    }
    for character in &mut *characters {
        let sextet = *character;
        let pick = |is: bool, value: u8| if is { value } else { 0 };
        *character = pick(sextet < 26, sextet.wrapping_add(b'A'))
            | pick((26..52).contains(&sextet), sextet.wrapping_add(b'a' - 26))
            | pick((52..62).contains(&sextet), sextet.wrapping_sub(52).wrapping_add(b'0'))
            | pick(sextet == 62, b'-')
            | pick(sextet == 63, b'_');
    }
    characters
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_secret_is_written_as_by_everybody_else(bytes in any::<[u8; 32]>()) {
            let text = Secret::from_bytes(bytes).expose_text();
            prop_assert_eq!(&*text, &URL_SAFE_NO_PAD.encode(bytes));
            prop_assert_eq!(text.parse(), Ok(Secret::from_bytes(bytes)));
        }

        #[test]
        fn a_text_is_a_secret_for_everybody_or_for_nobody(text in "[A-Za-z0-9_+/=-]{42}[A-Za-z0-9_-]|[ -~\u{0}é]{42,43}") {
            let decoded = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
            prop_assert_eq!(text.parse().ok(), decoded.map(Secret::from_bytes));
        }
    }

    #[test]
    fn every_character_is_judged_alike_at_every_place() {
        let good = Secret::from_bytes(std::array::from_fn(|n| n as u8 * 7)).expose_text();
        for place in 0..43 {
            for c in 0..0x80_u8 {
                let mut text = good.as_bytes().to_vec();
                text[place] = c;
                let text = String::from_utf8(text).expect("ASCII");
                let decoded = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
                assert_eq!(text.parse().ok(), decoded.map(Secret::from_bytes), "{text}");
            }
        }
    }

    #[test]
    fn only_the_canonical_form_of_32_bytes_is_a_secret() {
        let secret = Secret::from_bytes([0xfb; 32]);
        let text = secret.expose_text();
        assert_eq!(text.len(), 43);
        assert_eq!(text.parse::<Secret>(), Ok(secret));
        let spare_bits_set = format!("{}9", &text[..42]);
        for bad in
            ["", &text[..42], &format!("{}=", *text), &spare_bits_set, &text.replace('-', "+"), &text.replace('-', "é")]
        {
            assert_eq!(bad.parse::<Secret>(), Err(EXPECTED), "{bad}");
        }
    }

    #[test]
    fn a_secret_never_prints() {
        assert_eq!(format!("{:?}", Secret::from_bytes([7; 32])), "[redacted]");
    }
}
