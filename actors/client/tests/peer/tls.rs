//! Certificates made for one test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Leaf {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    /// Two authorities may have the same name and different keys.
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub fn issue(&self, name: &str) -> Leaf {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        Leaf { certificate: params.signed_by(&key, &self.0).expect("signed"), key }
    }

    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder, name, &self.0.pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        roots
    }
}

impl Leaf {
    pub fn write_certificate(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder, name, &self.certificate.pem())
    }

    pub fn write_key(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder, name, &self.key.serialize_pem())
    }

    /// A server with this certificate. With `clients`, only certificates of that authority may connect.
    pub fn server(&self, clients: Option<&Authority>) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("TLS 1.2 and 1.3");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(authority.roots());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.expect("a verifier"))
            }
        };
        let chain: Vec<CertificateDer<'static>> = vec![self.certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        builder.with_single_cert(chain, key).expect("a certificate with its key")
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path
}
