//! Protected blobs: what an outcome, an input or a dead-letter reason is on disk.
//!
//! Source: outcome.md section 2. The cipher is XChaCha20-Poly1305 with a random nonce. What a blob belongs
//! to is bound to it, so that one which was moved to another row, tenant or purpose does not open.

mod envelope;
mod key;

use zeroize::Zeroizing;

pub use envelope::{BlobContext, Purpose};
pub use key::{Key, KeyId, KeyProvider, KeyRing};

/// A protected blob as it is stored: header, nonce, ciphertext and tag.
///
/// Without its key it tells its length and its key's id, nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedBlob(pub(crate) Vec<u8>);

impl ProtectedBlob {
    /// Takes a blob from its column, unchecked; opening it checks everything.
    #[must_use]
    pub const fn from_stored(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    #[must_use]
    pub fn as_stored(&self) -> &[u8] {
        &self.0
    }

    /// The id of the key that the blob was written with.
    ///
    /// # Errors
    /// [`ProtectError::Truncated`] and [`ProtectError::UnsupportedVersion`].
    pub fn key_id(&self) -> Result<KeyId, ProtectError> {
        envelope::key_id(&self.0)
    }
}

/// Why a blob can't be written or read. No message holds plaintext or key material.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// The blob ends before its header and tag do.
    #[error("the blob is truncated")]
    Truncated,
    /// The blob was written by a later version.
    #[error("the blob has format version {0}, this build reads version {known}", known = envelope::FORMAT_VERSION)]
    UnsupportedVersion(u8),
    /// The key provider does not know the blob's key.
    #[error("no key {0} to open the blob with")]
    UnknownKey(KeyId),
    /// The blob was altered, or belongs to another row, tenant or purpose.
    #[error("the blob does not belong here or was altered")]
    NotAuthentic,
    /// The key provider failed; its own words are kept out.
    #[error("the key provider failed")]
    KeyProvider,
    /// The system gave no randomness for a nonce.
    #[error("no randomness for a nonce")]
    NoRandomness,
}

/// Protects `plaintext` for its place with the provider's active key.
///
/// # Errors
/// [`ProtectError::KeyProvider`] and [`ProtectError::NoRandomness`].
pub fn protect(
    keys: &dyn KeyProvider,
    context: &BlobContext<'_>,
    plaintext: &[u8],
) -> Result<ProtectedBlob, ProtectError> {
    let key = keys.active_key()?;
    envelope::seal(&key, context, plaintext).map(ProtectedBlob)
}

/// Opens a blob in its place. The plaintext is wiped when it is dropped.
///
/// # Errors
/// Every [`ProtectError`] but [`ProtectError::NoRandomness`]; then there is no plaintext anywhere.
pub fn open(
    keys: &dyn KeyProvider,
    context: &BlobContext<'_>,
    blob: &ProtectedBlob,
) -> Result<Zeroizing<Vec<u8>>, ProtectError> {
    let key_id = blob.key_id()?;
    let key = keys.key(key_id)?.ok_or(ProtectError::UnknownKey(key_id))?;
    envelope::open(&key, context, &blob.0)
}
