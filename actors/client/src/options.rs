//! The options of a client, checked when it is built.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use perilune_proto::limits;

use crate::base_url::{BaseUrl, Plaintext};
use crate::credential::CredentialProvider;
use crate::error::ConfigError;
use crate::tls::{Identity, Roots, Tls};

/// How to reach the platform. Cheap to clone; holds no connection.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Options>);

pub(crate) struct Options {
    pub(crate) base: BaseUrl,
    pub(crate) plaintext: Plaintext,
    pub(crate) credential: Arc<dyn CredentialProvider>,
    pub(crate) tls: Tls,
    pub(crate) timeouts: Timeouts,
}

impl Client {
    /// Begins with the platform's address: `https`, `wss`, or on loopback `http`, `ws`.
    ///
    /// A path is kept and its trailing slash dropped.
    pub fn builder(base_url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            base_url: base_url.into(),
            plaintext: Plaintext::LoopbackOnly,
            credential: None,
            roots: Roots::default(),
            identity: None,
            timeouts: Timeouts::default(),
        }
    }

    /// The URL of an HTTP resource of the platform, for [`Client::http`]; `path` begins with a slash.
    #[must_use]
    pub fn http_url(&self, path: &str) -> String {
        self.0.base.http(path)
    }

    /// The WebSocket's URL.
    #[must_use]
    pub fn events_url(&self) -> String {
        self.0.base.events()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { base, plaintext, tls, timeouts, .. } = &*self.0;
        f.debug_struct("Client")
            .field("base", base)
            .field("plaintext", plaintext)
            .field("tls", tls)
            .field("timeouts", timeouts)
            .finish_non_exhaustive()
    }
}

/// Collects a [`Client`]'s options.
#[must_use]
pub struct ClientBuilder {
    base_url: String,
    plaintext: Plaintext,
    credential: Option<Arc<dyn CredentialProvider>>,
    roots: Roots,
    identity: Option<Identity>,
    timeouts: Timeouts,
}

impl ClientBuilder {
    /// Who gives the credential: a [`crate::Credential`] itself, a [`crate::CredentialFile`], a
    /// [`crate::credential_fn`], or a provider of your own. Required.
    pub fn credential(mut self, provider: impl CredentialProvider) -> Self {
        self.credential = Some(Arc::new(provider));
        self
    }

    /// Allows `http` and `ws` beyond loopback. Whoever can read the traffic then has the credential.
    pub const fn allow_plaintext(mut self) -> Self {
        self.plaintext = Plaintext::Anywhere;
        self
    }

    /// Which authorities may vouch for the platform; those of the operating system by default.
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// Trusts the authorities in this PEM file and no others. It is read afresh at each dial.
    pub fn ca_file(self, path: impl Into<PathBuf>) -> Self {
        self.roots(Roots::File(path.into()))
    }

    /// Presents a certificate: PEM files with the chain and with its key, read afresh at each dial.
    pub fn client_certificate(mut self, certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some(Identity { certificates: certificates.into(), key: key.into() });
        self
    }

    /// Replaces the contract's times. For tests: with other times than its own a client breaks the contract.
    #[doc(hidden)]
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    /// [`ConfigError`] names the option: a bad address, plaintext beyond loopback, no credential provider.
    pub fn build(self) -> Result<Client, ConfigError> {
        let base = BaseUrl::parse(&self.base_url, self.plaintext)?;
        let credential = self.credential.ok_or(ConfigError::credential("is required"))?;
        let tls = Tls::new(self.roots, self.identity);
        Ok(Client(Arc::new(Options { base, plaintext: self.plaintext, credential, tls, timeouts: self.timeouts })))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the address: before it is checked it may hold a password.
        f.debug_struct("ClientBuilder").field("plaintext", &self.plaintext).finish_non_exhaustive()
    }
}

/// The times of one connection. [`Default`] is the contract's.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// The whole handshake.
    pub handshake: Duration,
    /// A control request, its time in the write queue included.
    pub request: Duration,
    /// A write without progress.
    pub write: Duration,
    /// What a peer has to answer a close.
    pub parting: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: limits::HANDSHAKE_TIMEOUT,
            request: limits::CONTROL_REQUEST_TIMEOUT,
            write: limits::CONTROL_REQUEST_TIMEOUT,
            parting: Duration::from_secs(1),
        }
    }
}
