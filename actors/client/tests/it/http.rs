//! Plain requests with the same options, and what may travel between threads.

use perilune_client::{AckError, Client, ConfigError, ConnectionError, Credential, DialError, PingError};

use crate::peer::Peer;
use crate::peer::tls::Authority;
use crate::{TOKEN, client};

#[actix_rt::test]
async fn a_plain_request_has_the_base_path_and_the_credential() {
    let peer = Peer::plain().await;
    let credential = Credential::new(TOKEN).expect("a credential");
    let client = Client::builder(peer.url() + "/base/").credential(credential).build().expect("options");
    assert_eq!(client.http_url("/v1/subscriptions"), format!("{}/base/v1/subscriptions", peer.url()));
    let http = client.http().await.expect("no TLS");
    let authorization = client.authorization().await.expect("a credential");
    assert!(authorization.is_sensitive() && !format!("{authorization:?}").contains(TOKEN));
    let request = http.get(client.http_url("/v1/subscriptions")).insert_header(("authorization", authorization));
    let (answer, head) = tokio::join!(request.send(), async {
        let request = peer.accept().await;
        let head = (request.head.clone(), request.header("authorization").map(str::to_owned));
        (head, request.refuse(200, "", "{}").await)
    });
    assert_eq!(answer.expect("an answer").status(), 200);
    let (head, authorization) = head.0;
    assert!(head.starts_with("GET /base/v1/subscriptions HTTP/1.1\r\n"));
    assert_eq!(authorization, Some(format!("Bearer {TOKEN}")));
}

#[actix_rt::test]
async fn a_plain_request_follows_no_redirect() {
    let (peer, elsewhere) = (Peer::plain().await, Peer::plain().await);
    let client = client(&peer);
    let http = client.http().await.expect("no TLS");
    let location = format!("location: {}\r\n", elsewhere.url());
    let (answer, _socket) = tokio::join!(http.get(client.http_url("/")).send(), async {
        peer.accept().await.refuse(307, &location, "").await
    });
    assert_eq!(answer.expect("an answer").status(), 307);
}

#[actix_rt::test]
async fn a_plain_request_trusts_whom_a_dial_trusts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, other) = (Authority::named("ours"), Authority::named("ours"));
    let ca = ours.write(folder.path(), "ca.pem");
    for (authority, trusted) in [(&ours, true), (&other, false)] {
        let peer = Peer::encrypted(authority.issue("localhost").server(None)).await;
        let credential = Credential::new(TOKEN).expect("a credential");
        let client = Client::builder(peer.url()).credential(credential).ca_file(&ca).build().expect("options");
        let http = client.http().await.expect("a CA file");
        let (answer, _) = tokio::join!(http.get(client.http_url("/")).send(), async {
            Some(peer.try_accept().await.ok()?.refuse(204, "", "").await)
        });
        assert_eq!(answer.is_ok(), trusted);
    }
}

#[test]
fn a_client_and_every_error_may_go_to_other_threads() {
    const fn travels<T: Send + Sync + Clone + 'static>() {}
    travels::<Client>();
    travels::<Credential>();
    travels::<DialError>();
    travels::<ConnectionError>();
    travels::<AckError>();
    travels::<PingError>();
    travels::<ConfigError>();
}
