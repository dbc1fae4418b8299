//! Credentials: who may report, consume and manage which queues.
//!
//! Source: http-api.md, "Credentials". An operator makes them on the server's host, so another process may
//! write them while a server runs: every question here reads the database, nothing is cached.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use perilune_proto::scalar::{Name, Secret, Timestamp};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::Answer;

/// Questions about credentials.
pub trait Credentials {
    /// Creates a credential.
    ///
    /// # Errors
    /// [`StoreError::NameTaken`](super::StoreError::NameTaken) where one that isn't revoked has the name.
    fn create_credential(&self, new: NewCredential) -> Answer<'_, CredentialRecord>;

    /// Every credential, revoked and expired ones too, by name and then by age.
    fn credentials(&self) -> Answer<'_, Vec<CredentialRecord>>;

    /// Gives the credential of that name a second secret; the one it had works until the overlap ends.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](super::StoreError::NotFound) where no live credential has the name.
    fn rotate_credential(&self, rotation: Rotation) -> Answer<'_, CredentialRecord>;

    /// Revokes the credential of that name for good, all its secrets with it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](super::StoreError::NotFound) where no live credential has the name.
    fn revoke_credential(&self, name: Name) -> Answer<'_, CredentialRecord>;

    /// Who presents the secret with this hash; `None` where it is unknown, revoked, expired or past its overlap.
    fn authenticate(&self, presented: SecretHash) -> Answer<'_, Option<Principal>>;
}

/// Names a credential.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialId(u128);

impl CredentialId {
    /// Makes the id from its 128 bits.
    #[must_use]
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The id's 128 bits, the highest first.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a credential may do on its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Report results and read tasks.
    Report,
    /// Open sessions.
    Consume,
    /// Manage subscriptions and deliveries.
    Manage,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Report, Self::Consume, Self::Manage];

    /// The scope as a command line writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Consume => "consume",
            Self::Manage => "manage",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}

/// A text that names no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of report, consume, manage")]
pub struct UnknownScope;

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Whether the set has this scope.
    #[must_use]
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & Self::bit(scope) != 0
    }

    /// The set's scopes, in their order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }

    /// The set as the stores keep it: one bit a scope.
    #[must_use]
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Reads what [`Self::bits`] wrote; unknown bits are dropped.
    #[must_use]
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & 0b111)
    }

    const fn bit(scope: Scope) -> u8 {
        match scope {
            Scope::Report => 0b001,
            Scope::Consume => 0b010,
            Scope::Manage => 0b100,
        }
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | Self::bit(scope)))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A new credential's secret, shown once: 256 random bits behind a prefix that secret scanners can find.
///
/// It never prints in `Debug` and is wiped when it is dropped.
pub struct CredentialSecret(Zeroizing<String>);

impl CredentialSecret {
    /// Draws a secret.
    #[must_use]
    pub fn generate() -> Self {
        let bits = Secret::from_bytes(rand::random());
        Self(Zeroizing::new(format!("prl_{}", *bits.expose_text())))
    }

    /// The text that the bearer presents. Show it once; keep it out of logs and files.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What the store keeps of it.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl fmt::Debug for CredentialSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The SHA-256 of a secret. The secrets are random, so no slow hash is needed; comparison takes the same time
/// whatever the bytes are.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Hashes what somebody presents.
    #[must_use]
    pub fn of(presented: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(presented).into())
    }

    /// The hash's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads what a store kept.
    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

/// A credential to create.
#[derive(Debug, Clone)]
pub struct NewCredential {
    /// Its name, unique among those that aren't revoked.
    pub name: Name,
    /// The queues it reaches, for good; at least one.
    pub queues: BTreeSet<Name>,
    /// What it may do there, for good.
    pub scopes: Scopes,
    /// Its secret's hash.
    pub secret: SecretHash,
    /// When it ends by itself, counted from now by the store's clock.
    pub expires_in: Option<Duration>,
}

/// A second secret for a credential.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// The credential's name.
    pub name: Name,
    /// The new secret's hash.
    pub secret: SecretHash,
    /// How long the secret it had goes on to work.
    pub overlap: Duration,
}

/// A credential as an operator sees it. No secret and no hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRecord {
    /// The credential.
    pub credential_id: CredentialId,
    /// Its name.
    pub name: Name,
    /// The queues it reaches.
    pub queues: BTreeSet<Name>,
    /// What it may do there.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When the secret that it had before its latest rotation stops working, where that is still to come.
    pub overlap_until: Option<Timestamp>,
}

/// Who presented a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The credential.
    pub credential_id: CredentialId,
    /// Its name.
    pub name: Name,
    /// The queues it reaches.
    pub queues: BTreeSet<Name>,
    /// What it may do there.
    pub scopes: Scopes,
    /// When the presented secret stops working: the credential's expiry or its overlap's end.
    pub expires_at: Option<Timestamp>,
}
