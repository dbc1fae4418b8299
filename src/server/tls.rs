//! TLS on the listener: HTTP/1.1 alone, with a certificate that can be exchanged while serving.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::config::TlsFiles;

/// Why a certificate and its key can't be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {path}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds no PEM of the kind that is asked for.
    #[error("{path} holds no {what} in pem form", path = .path.display())]
    NoPem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// The key is not the certificate's, or of a kind that is not supported.
    #[error("the key in {key} does not belong to the certificate in {cert}", key = .key.display(), cert = .cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What rustls said.
        source: rustls::Error,
    },
}

/// The certificate that new connections get.
pub(crate) struct Certificate {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl Certificate {
    /// Reads the files.
    pub(crate) fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let current = RwLock::new(Arc::new(read_pair(&files)?));
        Ok(Arc::new(Self { files, current }))
    }

    /// Reads the files again. A pair that is not whole changes nothing.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let pair = Arc::new(read_pair(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = pair;
        Ok(())
    }

    /// What a listener is set up with.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<rustls::ServerConfig, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        // Never h2: the contract is HTTP/1.1, and the h2 in the tree is not to be exposed.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

fn read_pair(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let no_chain = || TlsError::NoPem { path: files.cert.clone(), what: "certificate" };
    let no_key = || TlsError::NoPem { path: files.key.clone(), what: "private key" };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&read(&files.cert)?).collect::<Result<_, _>>().map_err(|_| no_chain())?;
    if chain.is_empty() {
        return Err(no_chain());
    }
    let key = PrivateKeyDer::from_pem_slice(&zeroize::Zeroizing::new(read(&files.key)?)).map_err(|_| no_key())?;
    let provider = rustls::crypto::ring::default_provider();
    // Compares the two public keys, so that a pair that is half exchanged is refused.
    CertifiedKey::from_der(chain, key, &provider).map_err(|source| TlsError::Mismatch {
        cert: files.cert.clone(),
        key: files.key.clone(),
        source,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> TlsFiles {
        TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") }
    }

    fn write_pair(files: &TlsFiles) -> rcgen::CertifiedKey<rcgen::KeyPair> {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&files.cert, pair.cert.pem()).expect("written");
        std::fs::write(&files.key, pair.signing_key.serialize_pem()).expect("written");
        pair
    }

    fn served(certificate: &Certificate) -> Vec<u8> {
        certificate.current.read().expect("not poisoned").cert[0].to_vec()
    }

    #[test]
    fn a_whole_pair_is_exchanged_and_a_half_written_one_keeps_the_old() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path());
        let first = write_pair(&files);
        let certificate = Certificate::load(files.clone()).expect("a whole pair");

        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&files.cert, other.cert.pem()).expect("written");
        assert!(matches!(certificate.reload(), Err(TlsError::Mismatch { .. })));
        assert_eq!(served(&certificate), first.cert.der().to_vec());

        std::fs::write(&files.key, other.signing_key.serialize_pem()).expect("written");
        certificate.reload().expect("a whole pair");
        assert_eq!(served(&certificate), other.cert.der().to_vec());
    }

    #[test]
    fn a_missing_or_empty_file_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path());
        let missing = Certificate::load(files.clone()).expect_err("no file");
        assert!(missing.to_string().contains("cert.pem"), "{missing}");
        write_pair(&files);
        std::fs::write(&files.key, "").expect("written");
        let empty = Certificate::load(files).expect_err("no key");
        assert!(empty.to_string().ends_with("key.pem holds no private key in pem form"), "{empty}");
    }

    #[test]
    fn only_http_1_1_is_negotiated() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files(folder.path());
        write_pair(&files);
        let config = Certificate::load(files).expect("a pair").server_config().expect("a configuration");
        assert_eq!(config.alpn_protocols, [b"http/1.1".to_vec()]);
    }
}
