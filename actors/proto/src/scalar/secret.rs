//! `secret`: 32 bytes, written as 43 characters of base64url without padding.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::ScalarError;

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
    pub fn expose_text(&self) -> zeroize::Zeroizing<String> {
        URL_SAFE_NO_PAD.encode(self.0).into()
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
        if text.len() != 43 {
            return Err(EXPECTED);
        }
        // The engine refuses padding and non-zero spare bits. It wants room for 33 bytes.
        let mut bytes = zeroize::Zeroizing::new([0; 33]);
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut *bytes).map_err(|_| EXPECTED)?;
        let exact = bytes.get(..length).and_then(|decoded| decoded.try_into().ok());
        exact.map(Self).ok_or(EXPECTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
