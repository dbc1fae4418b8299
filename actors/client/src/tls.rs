//! TLS by rustls with ring: roots, client certificate, HTTP/1.1 only.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use zeroize::Zeroizing;

/// Which authorities may vouch for the platform.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Roots {
    /// Those of the operating system.
    #[default]
    Native,
    /// Mozilla's, as compiled in.
    WebPki,
    /// Only those in this PEM file.
    File(PathBuf),
}

/// The client's certificate chain and its key, both PEM files.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
}

/// TLS settings whose files are read afresh at each dial.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    pub(crate) roots: Roots,
    pub(crate) identity: Option<Identity>,
    last_good: LastGood,
}

/// What the files said when they last made sense: they may be caught half written.
#[derive(Default)]
struct LastGood(Mutex<Option<Arc<ClientConfig>>>);

impl fmt::Debug for LastGood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[..]")
    }
}

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsFileError {
    #[error("a PEM file can't be read")]
    Pem(#[from] pem::Error),
    #[error("a PEM file can't be read")]
    Io(#[from] std::io::Error),
    #[error("the certificates or the key can't be used")]
    Unusable(#[from] rustls::Error),
    #[error("no root certificate was found")]
    NoRoots,
}

impl Tls {
    pub(crate) fn new(roots: Roots, identity: Option<Identity>) -> Self {
        Self { roots, identity, last_good: LastGood::default() }
    }

    /// Reads every file. Blocks; call it where that is allowed.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, TlsFileError> {
        let loaded = self.load_strictly().map(Arc::new);
        let mut last_good = self.last_good.0.lock().unwrap_or_else(PoisonError::into_inner);
        match loaded {
            Ok(config) => Ok(Arc::clone(last_good.insert(config))),
            Err(error) => {
                let kept = last_good.clone().ok_or(error)?;
                tracing::warn!("TLS files can't be used just now; dialling with what they last held");
                Ok(kept)
            }
        }
    }

    fn load_strictly(&self) -> Result<ClientConfig, TlsFileError> {
        // Named explicitly: the process-wide default panics where none or two are linked.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.with_root_certificates(self.load_roots()?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates(&identity.certificates)?;
                let key = Zeroizing::new(std::fs::read(&identity.key)?);
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
            }
        };
        // A server that takes h2 can't upgrade, and h2 0.3 has an open advisory.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn load_roots(&self) -> Result<RootCertStore, TlsFileError> {
        let mut roots = RootCertStore::empty();
        match &self.roots {
            Roots::WebPki => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Roots::Native => {
                // A single unreadable certificate of the system's must not lock everybody out.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Roots::File(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate)?;
                }
            }
        }
        if roots.is_empty() { Err(TlsFileError::NoRoots) } else { Ok(roots) }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?)
}
