//! Keys and where they come from.

use std::collections::BTreeMap;
use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::ProtectError;

/// Names a key in a blob's header. Not secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A key: 32 bytes. It never prints and is wiped when it is dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key {
    #[zeroize(skip)]
    id: KeyId,
    bytes: [u8; 32],
}

impl Key {
    /// Makes a key from 32 random bytes.
    #[must_use]
    pub const fn new(id: KeyId, bytes: [u8; 32]) -> Self {
        Self { id, bytes }
    }

    /// The key's id.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    pub(super) const fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, [redacted])", self.id)
    }
}

/// Gives the keys: the active one for writing, any by id for reading.
///
/// It is asked for each blob, so a provider that fetches keys from afar keeps them itself.
pub trait KeyProvider: Send + Sync {
    /// The key that new blobs are written with.
    ///
    /// # Errors
    /// [`ProtectError::KeyProvider`] where none can be had now.
    fn active_key(&self) -> Result<Key, ProtectError>;

    /// A key by its id; `None` where it is unknown or lost for good.
    ///
    /// # Errors
    /// [`ProtectError::KeyProvider`] where it can't be had now.
    fn key(&self, id: KeyId) -> Result<Option<Key>, ProtectError>;
}

/// Keys held in memory, one of them active.
#[derive(Debug, Clone)]
pub struct KeyRing {
    active: Key,
    retired: BTreeMap<KeyId, Key>,
}

impl KeyRing {
    /// A ring with its active key alone.
    #[must_use]
    pub const fn new(active: Key) -> Self {
        Self { active, retired: BTreeMap::new() }
    }

    /// Adds a key that is read with and no longer written with.
    #[must_use]
    pub fn with_retired(mut self, key: Key) -> Self {
        self.retired.insert(key.id(), key);
        self
    }
}

impl KeyProvider for KeyRing {
    fn active_key(&self) -> Result<Key, ProtectError> {
        Ok(self.active.clone())
    }

    fn key(&self, id: KeyId) -> Result<Option<Key>, ProtectError> {
        if id == self.active.id() {
            return Ok(Some(self.active.clone()));
        }
        Ok(self.retired.get(&id).cloned())
    }
}
