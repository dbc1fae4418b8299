//! TLS on the listener.

use std::sync::Arc;

use awc::http::Version;
use perilune::server::TlsFiles;
use rcgen::{CertifiedKey, KeyPair};

use crate::http_harness::{PATIENCE, TestServer};

struct Site {
    folder: tempfile::TempDir,
    server: TestServer,
    pair: CertifiedKey<KeyPair>,
}

impl Site {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pair = new_pair();
        let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        std::fs::write(&files.cert, pair.cert.pem()).expect("written");
        std::fs::write(&files.key, pair.signing_key.serialize_pem()).expect("written");
        let server = TestServer::start_with(|config| config.tls(files)).await;
        Self { folder, server, pair }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("written");
    }

    /// The status and version of an answer, for a client that trusts one certificate alone.
    async fn get(&self, trusted: &CertifiedKey<KeyPair>, alpn: &[&str]) -> Option<(u16, Version)> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(trusted.cert.der().clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let connector = awc::Connector::new().rustls_0_23(Arc::new(config));
        let client = awc::Client::builder().timeout(PATIENCE).connector(connector).finish();
        let url = format!("https://localhost:{}/healthz", self.server.running.addr().port());
        let answer = client.get(url).send().await.ok()?;
        Some((answer.status().as_u16(), answer.version()))
    }
}

fn new_pair() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate")
}

#[actix_web::test]
async fn a_client_that_offers_h2_is_served_http_1_1() {
    let site = Site::start().await;
    assert_eq!(site.get(&site.pair, &["h2", "http/1.1"]).await, Some((200, Version::HTTP_11)));
    assert_eq!(site.get(&site.pair, &["h2"]).await, None);
}

#[actix_web::test]
async fn a_whole_pair_is_taken_up_and_a_half_written_one_keeps_the_old() {
    let site = Site::start().await;
    let other = new_pair();
    site.write("cert.pem", &other.cert.pem());
    assert!(site.server.running.reload_tls().is_err());
    assert!(site.get(&site.pair, &[]).await.is_some(), "the old one is still served");
    assert!(site.get(&other, &[]).await.is_none());
    site.write("key.pem", &other.signing_key.serialize_pem());
    site.server.running.reload_tls().expect("a whole pair");
    assert!(site.get(&other, &[]).await.is_some(), "the new one is served");
    assert!(site.get(&site.pair, &[]).await.is_none());
}

#[actix_web::test]
async fn plain_http_on_a_tls_port_gets_no_answer() {
    let site = Site::start().await;
    let client = awc::Client::builder().timeout(PATIENCE).finish();
    let url = format!("http://{}/healthz", site.server.running.addr());
    assert!(client.get(url).send().await.is_err());
    assert!(site.get(&site.pair, &[]).await.is_some(), "the server goes on");
}
