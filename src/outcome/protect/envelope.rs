//! The bytes of a protected blob.
//!
//! ```text
//! 0      1          5                     29
//! | version | key id (BE) | nonce (24 bytes)    | ciphertext and tag |
//! ```
//! The header is authenticated too. The associated data is the header and every field of
//! [`BlobContext`], each behind its length, so that no two contexts have the same bytes.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rand::TryRng as _;
use zeroize::Zeroizing;

use super::{Key, KeyId, ProtectError};
use crate::outcome::OperationId;

/// The version that this build writes and reads.
pub(super) const FORMAT_VERSION: u8 = 1;
const HEADER_BYTES: usize = 5;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// What a blob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// An operation's input payload.
    Input,
    /// An operation's outcome.
    Outcome,
    /// Why an operation was dead-lettered.
    DeadLetterReason,
}

impl Purpose {
    const fn tag(self) -> &'static [u8] {
        match self {
            Self::Input => b"input",
            Self::Outcome => b"outcome",
            Self::DeadLetterReason => b"dead-letter-reason",
        }
    }
}

/// Where a blob belongs: it opens there alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobContext<'a> {
    /// What it is.
    pub purpose: Purpose,
    /// The operation's id.
    pub operation_id: OperationId,
    /// The operation's type name.
    pub operation_type: &'a str,
    /// The schema version of what is inside.
    pub schema_version: u32,
    /// The operation's tenant.
    pub tenant: Option<&'a str>,
}

impl BlobContext<'_> {
    fn associated_data(&self, header: &[u8]) -> Vec<u8> {
        let mut data = b"perilune-blob".to_vec();
        data.extend_from_slice(header);
        let tenant = self.tenant.map_or(&[][..], str::as_bytes);
        // No tenant and the tenant "" are two different things.
        let tenanted = [u8::from(self.tenant.is_some())];
        for field in [
            self.purpose.tag(),
            self.operation_id.as_bytes(),
            self.operation_type.as_bytes(),
            &self.schema_version.to_be_bytes(),
            &tenanted,
            tenant,
        ] {
            data.extend_from_slice(&(field.len() as u64).to_be_bytes());
            data.extend_from_slice(field);
        }
        data
    }
}

pub(super) fn seal(key: &Key, context: &BlobContext<'_>, plaintext: &[u8]) -> Result<Vec<u8>, ProtectError> {
    let mut header = [FORMAT_VERSION; HEADER_BYTES];
    header[1..].copy_from_slice(&key.id().0.to_be_bytes());
    let mut nonce = [0; NONCE_BYTES];
    rand::rngs::SysRng.try_fill_bytes(&mut nonce).map_err(|_| ProtectError::NoRandomness)?;
    let associated = context.associated_data(&header);
    // Encryption fails for a plaintext over 256 GiB alone.
    let sealed = cipher(key)
        .encrypt(&XNonce::from(nonce), Payload { msg: plaintext, aad: &associated })
        .map_err(|_| ProtectError::NotAuthentic)?;
    Ok([&header[..], &nonce, &sealed].concat())
}

pub(super) fn open(key: &Key, context: &BlobContext<'_>, blob: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProtectError> {
    key_id(blob)?;
    let (header, rest) = blob.split_at(HEADER_BYTES);
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(ProtectError::Truncated)?;
    let associated = context.associated_data(header);
    cipher(key)
        .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &associated })
        .map(Zeroizing::new)
        .map_err(|_| ProtectError::NotAuthentic)
}

pub(super) fn key_id(blob: &[u8]) -> Result<KeyId, ProtectError> {
    match blob {
        [version, ..] if *version != FORMAT_VERSION => Err(ProtectError::UnsupportedVersion(*version)),
        [_, a, b, c, d, rest @ ..] if rest.len() >= NONCE_BYTES + TAG_BYTES => {
            Ok(KeyId(u32::from_be_bytes([*a, *b, *c, *d])))
        }
        _ => Err(ProtectError::Truncated),
    }
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::protect::{KeyRing, ProtectedBlob, open, protect};

    fn context(tenant: Option<&str>) -> BlobContext<'_> {
        BlobContext {
            purpose: Purpose::Outcome,
            operation_id: OperationId::from_u128(7),
            operation_type: "GenerateReport",
            schema_version: 1,
            tenant,
        }
    }

    fn ring(id: u32, byte: u8) -> KeyRing {
        KeyRing::new(Key::new(KeyId(id), [byte; 32]))
    }

    #[test]
    fn a_blob_opens_in_its_own_place_alone() {
        let keys = ring(1, 9);
        let here = context(Some("acme"));
        let blob = protect(&keys, &here, b"plaintext").expect("protected");
        assert_eq!(*open(&keys, &here, &blob).expect("opens"), b"plaintext");
        let elsewhere = [
            BlobContext { purpose: Purpose::Input, ..here },
            BlobContext { operation_id: OperationId::from_u128(8), ..here },
            BlobContext { operation_type: "GenerateReports", ..here },
            BlobContext { schema_version: 2, ..here },
            BlobContext { tenant: Some("acm"), ..here },
            BlobContext { tenant: Some(""), ..here },
            BlobContext { tenant: None, ..here },
        ];
        for place in elsewhere {
            assert_eq!(open(&keys, &place, &blob), Err(ProtectError::NotAuthentic), "{place:?}");
        }
    }

    #[test]
    fn every_altered_or_cut_blob_is_refused() {
        let keys = ring(1, 9);
        let blob = protect(&keys, &context(None), b"plaintext").expect("protected").0;
        for at in 0..blob.len() {
            let cut = ProtectedBlob(blob[..at].to_vec());
            let refused = open(&keys, &context(None), &cut).expect_err("cut");
            assert!(matches!(refused, ProtectError::Truncated | ProtectError::NotAuthentic), "{at}: {refused}");
            let mut altered = blob.clone();
            altered[at] ^= 1;
            assert!(open(&keys, &context(None), &ProtectedBlob(altered)).is_err(), "{at}");
        }
    }

    #[test]
    fn a_future_version_and_a_lost_key_have_errors_of_their_own() {
        let mut blob = protect(&ring(1, 9), &context(None), b"x").expect("protected");
        assert_eq!(open(&ring(2, 9), &context(None), &blob), Err(ProtectError::UnknownKey(KeyId(1))));
        assert_eq!(open(&ring(1, 8), &context(None), &blob), Err(ProtectError::NotAuthentic));
        blob.0[0] = 2;
        assert_eq!(open(&ring(1, 9), &context(None), &blob), Err(ProtectError::UnsupportedVersion(2)));
    }

    #[test]
    fn a_retired_key_still_opens_what_it_wrote() {
        let old = Key::new(KeyId(1), [1; 32]);
        let blob = protect(&KeyRing::new(old.clone()), &context(None), b"x").expect("protected");
        let rotated = ring(2, 2).with_retired(old);
        assert_eq!(*open(&rotated, &context(None), &blob).expect("opens"), b"x");
        assert_eq!(protect(&rotated, &context(None), b"x").expect("protected").key_id(), Ok(KeyId(2)));
    }
}
