//! TLS: who vouches for the platform, and who we are.

use std::net::SocketAddr;
use std::path::Path;

use perilune_client::{Client, ClientBuilder, Credential, DialError, DialErrorKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::ServerConfig;

use crate::peer::Peer;
use crate::peer::tls::{Authority, Leaf};
use crate::registration;

fn builder(peer: &Peer) -> ClientBuilder {
    Client::builder(peer.url()).credential(Credential::new("credential").expect("a credential"))
}

/// Dials a peer that says welcome where it gets that far.
async fn dial(peer: &Peer, client: &Client) -> Result<(), DialError> {
    let (dialled, _socket) = tokio::join!(client.dial_events(registration(1)), async {
        let mut socket = peer.try_accept().await.ok()?.upgrade().await;
        socket.welcome().await;
        Some(socket)
    });
    dialled.map(drop)
}

async fn dial_with(
    server: ServerConfig,
    options: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<(), DialError> {
    let peer = Peer::encrypted(server).await;
    let client = options(builder(&peer)).build().expect("options");
    dial(&peer, &client).await
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[actix_rt::test]
async fn the_authority_in_the_file_is_trusted() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    dial_with(authority.issue("localhost").server(None), |client| client.ca_file(ca)).await.expect("trusted");
}

#[actix_rt::test]
async fn only_http_1_1_is_offered() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    let mut server = authority.issue("localhost").server(None);
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A server that could choose h2 would.
    dial_with(server, |client| client.ca_file(ca)).await.expect("upgraded");
}

#[actix_rt::test]
async fn another_authority_is_not_trusted_even_with_the_same_name() {
    let folder = folder();
    for name in ["other", "ours"] {
        let ca = Authority::named("ours").write(folder.path(), "ca.pem");
        let server = Authority::named(name).issue("localhost").server(None);
        let error = dial_with(server, |client| client.ca_file(ca)).await.expect_err("not trusted");
        assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Tls, false), "{name}");
    }
}

#[actix_rt::test]
async fn public_roots_do_not_trust_a_private_authority() {
    let server = Authority::named("ours").issue("localhost").server(None);
    let error = dial_with(server, |client| client.roots(perilune_client::Roots::WebPki)).await.expect_err("private");
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Tls, false));
}

#[actix_rt::test]
async fn a_certificate_for_another_name_is_refused() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    let server = authority.issue("elsewhere.example").server(None);
    let error = dial_with(server, |client| client.ca_file(ca)).await.expect_err("another name");
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Tls, false));
    assert!(!format!("{error} {error:?}").contains("elsewhere"), "remote text stays out");
}

#[actix_rt::test]
async fn the_client_presents_its_certificate() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    let us = authority.issue("client");
    let (certificate, key) = (us.write_certificate(folder.path(), "c.pem"), us.write_key(folder.path(), "k.pem"));
    let server = authority.issue("localhost").server(Some(&authority));
    dial_with(server, |client| client.ca_file(ca).client_certificate(certificate, key)).await.expect("known");
}

#[actix_rt::test]
async fn a_missing_or_wrong_client_certificate_is_told_from_a_network_error() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    let server = || authority.issue("localhost").server(Some(&authority));
    let missing = dial_with(server(), |client| client.ca_file(&ca)).await.expect_err("none");
    let stranger = Authority::named("ours").issue("client");
    let (certificate, key) = write(&stranger, folder.path());
    let wrong = dial_with(server(), |client| client.ca_file(&ca).client_certificate(certificate, key)).await;
    for error in [missing, wrong.expect_err("a stranger")] {
        assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::ClientCertificate, false));
    }
}

fn write(leaf: &Leaf, folder: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    (leaf.write_certificate(folder, "client.pem"), leaf.write_key(folder, "client.key"))
}

#[actix_rt::test]
async fn files_are_read_afresh_at_each_dial() {
    let (old, new, folder) = (Authority::named("old"), Authority::named("new"), folder());
    let ca = old.write(folder.path(), "ca.pem");
    let peer = Peer::encrypted(new.issue("localhost").server(None)).await;
    let client = builder(&peer).ca_file(ca).build().expect("options");
    assert_eq!(dial(&peer, &client).await.expect_err("the old authority").kind(), DialErrorKind::Tls);
    new.write(folder.path(), "ca.pem");
    dial(&peer, &client).await.expect("the new authority");
}

#[actix_rt::test]
async fn a_half_written_pair_keeps_the_old_one() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    let (certificate, key) = write(&authority.issue("client"), folder.path());
    let peer = Peer::encrypted(authority.issue("localhost").server(Some(&authority))).await;
    let client = builder(&peer).ca_file(ca).client_certificate(certificate, &key).build().expect("options");
    dial(&peer, &client).await.expect("the first pair");
    // The next certificate without its key yet.
    authority.issue("client").write_certificate(folder.path(), "client.pem");
    dial(&peer, &client).await.expect("the first pair still");
    std::fs::write(&key, "-----BEGIN PRIV").expect("written");
    dial(&peer, &client).await.expect("the first pair still");
}

#[actix_rt::test]
async fn files_that_never_made_sense_fail_the_dial() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let missing = folder.path().join("missing.pem");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    for ca in [missing, empty] {
        // No connection is made: nobody has to accept it.
        let peer = Peer::encrypted(authority.issue("localhost").server(None)).await;
        let client = builder(&peer).ca_file(ca).build().expect("options");
        let error = client.dial_events(registration(1)).await.expect_err("no roots");
        assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Tls, false));
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[actix_rt::test]
async fn tls_to_a_plain_port_and_plain_to_a_tls_port_fail_within_the_handshakes_time() {
    let plain = Peer::plain().await;
    let url = plain.url().replace("http:", "https:");
    let credential = Credential::new("credential").expect("a credential");
    let client = Client::builder(url).credential(credential.clone()).build().expect("options");
    let (dialled, _tcp) = tokio::join!(client.dial_events(registration(1)), async {
        let mut tcp = plain.accept_tcp().await;
        let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        tcp
    });
    let error = dialled.expect_err("no TLS there");
    // Somebody else may have that port for a while: a proxy that is being restarted answers like that.
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Tls, true));

    let authority = Authority::named("ours");
    let encrypted = Peer::encrypted(authority.issue("localhost").server(None)).await;
    let url = encrypted.url().replace("https:", "http:");
    let client = Client::builder(url).credential(credential).build().expect("options");
    let (dialled, _) = tokio::join!(client.dial_events(registration(1)), encrypted.try_accept());
    assert!(dialled.is_err());
}

#[actix_rt::test]
async fn a_whole_session_runs_over_tls() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    let peer = Peer::encrypted(authority.issue("localhost").server(None)).await;
    let client = builder(&peer).ca_file(ca).build().expect("options");
    let (dialled, mut socket) = tokio::join!(client.dial_events(registration(1)), peer.welcome());
    let connection = dialled.expect("welcomed");
    socket.deliver(1).await;
    let received = connection.next().await.expect("a delivery");
    use perilune_client::{MessageId, NewMessageId as _};
    let (receipt, ()) = tokio::join!(connection.ack(MessageId::new(), received.proof()), async {
        let ack = socket.ack().await;
        socket.acked(&ack).await;
    });
    assert!(receipt.is_ok());
    let ((), ()) = tokio::join!(connection.close(), async {
        assert_eq!(socket.got().await, crate::peer::Got::Close(Some(1000)));
        assert_eq!(socket.got().await, crate::peer::Got::End);
        drop(socket);
    });
}

/// Carries one connection to `peer`, and changes the byte at `place` of what the peer sends.
async fn change_a_byte(listener: TcpListener, peer: SocketAddr, place: usize) {
    let (client, _) = listener.accept().await.expect("a connection");
    let server = TcpStream::connect(peer).await.expect("the peer");
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let there = async {
        let _ends = tokio::io::copy(&mut from_client, &mut to_server).await;
    };
    let back = async {
        let mut place = Some(place);
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            if let Some(at) = place {
                place = at.checked_sub(count);
                if place.is_none() {
                    bytes[at] ^= 1;
                }
            }
            if to_client.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(there, back);
}

#[actix_rt::test]
async fn a_byte_that_is_changed_on_its_way_is_the_network_s_doing() {
    let (authority, folder) = (Authority::named("ours"), folder());
    let ca = authority.write(folder.path(), "ca.pem");
    // The record's head, the hello within, and what is encrypted after it.
    for place in [0, 1, 5, 40, 140, 300, 600] {
        let peer = Peer::encrypted(authority.issue("localhost").server(None)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let credential = Credential::new("credential").expect("a credential");
        let client = Client::builder(format!("https://localhost:{port}")).credential(credential).ca_file(&ca);
        let client = client.build().expect("options");
        let carried = actix_rt::spawn(change_a_byte(listener, peer.address(), place));
        let (dialled, _) = tokio::join!(client.dial_events(registration(1)), peer.try_accept());
        let error = dialled.expect_err("no handshake");
        assert!(error.is_retriable(), "byte {place}: {error:?}");
        carried.abort();
    }
}
