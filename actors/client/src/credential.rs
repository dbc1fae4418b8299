//! Where the credential comes from. It is asked for at each dial, so a rotated one is used at once.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, fs};

use awc::http::header::HeaderValue;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// A bearer credential. It never prints, and its memory is wiped when it is dropped.
///
/// The HTTP library keeps a copy of its own while a request is written; that copy is not wiped.
#[derive(Clone)]
pub struct Credential(Zeroizing<String>);

impl Credential {
    /// Takes a credential.
    ///
    /// # Errors
    /// [`CredentialError`] (permanent) unless it is 1 or more visible ASCII characters without spaces.
    pub fn new(text: impl Into<String>) -> Result<Self, CredentialError> {
        let text = Zeroizing::new(text.into());
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CredentialError { source: None, permanent: true });
        }
        Ok(Self(text))
    }

    /// The credential itself. Keep it out of logs.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The `Authorization` header's value, marked as sensitive.
    pub(crate) fn authorization(&self) -> HeaderValue {
        let text = Zeroizing::new(format!("Bearer {}", self.expose()));
        let mut value = HeaderValue::from_str(&text).expect("visible ASCII is a header value");
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Why there is no credential. The dial fails with [`crate::DialErrorKind::Credential`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("the credential can't be had")]
pub struct CredentialError {
    #[source]
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    permanent: bool,
}

impl CredentialError {
    /// Asking again later may help: a consumer dials again after its usual wait.
    pub fn temporary(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into().into()), permanent: false }
    }

    /// Asking again is pointless: a consumer stops.
    pub fn permanent(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into().into()), permanent: true }
    }

    /// Whether asking again is pointless.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        self.permanent
    }
}

/// The future of [`CredentialProvider::credential`].
pub type CredentialFuture<'a> = Pin<Box<dyn Future<Output = Result<Credential, CredentialError>> + Send + 'a>>;

/// Gives the credential of each dial.
///
/// It runs on a thread where it may block, counts towards the dial's time and is dropped with the dial.
/// A panic in it fails that dial as a temporary error would, and nothing else.
pub trait CredentialProvider: Send + Sync + 'static {
    /// Asked once for each dial.
    fn credential(&self) -> CredentialFuture<'_>;
}

impl CredentialProvider for Credential {
    fn credential(&self) -> CredentialFuture<'_> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

/// A credential in a file that is read anew at each dial; white space around it is dropped.
///
/// A file that can't be read or holds no credential is a temporary error: it may be being replaced.
#[derive(Debug, Clone)]
pub struct CredentialFile(pub PathBuf);

impl CredentialProvider for CredentialFile {
    fn credential(&self) -> CredentialFuture<'_> {
        Box::pin(async {
            let text = fs::read_to_string(&self.0).map(Zeroizing::new).map_err(CredentialError::temporary)?;
            Credential::new(text.trim()).map_err(|_| CredentialError::temporary("the file holds no credential"))
        })
    }
}

/// Makes a provider of a closure.
pub fn credential_fn<F, Fut>(closure: F) -> impl CredentialProvider
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Credential, CredentialError>> + Send + 'static,
{
    FromFn(closure)
}

struct FromFn<F>(F);

impl<F, Fut> CredentialProvider for FromFn<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Credential, CredentialError>> + Send + 'static,
{
    fn credential(&self) -> CredentialFuture<'_> {
        Box::pin((self.0)())
    }
}

/// Asks the provider away from the caller's thread; dropping the future drops the provider's.
pub(crate) async fn ask(provider: Arc<dyn CredentialProvider>) -> Result<Credential, CredentialError> {
    // Dropped with this future, which tells the other thread that nobody waits any more.
    let (_waiting, gone) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let asked = tokio::task::spawn_blocking(move || {
        runtime.block_on(async {
            tokio::select! {
                credential = async { provider.credential().await } => credential,
                _ = gone => Err(CredentialError::temporary("the dial was given up")),
            }
        })
    });
    asked.await.unwrap_or_else(|_| Err(CredentialError::temporary("the credential provider panicked")))
}
