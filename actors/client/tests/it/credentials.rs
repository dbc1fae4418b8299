//! The provider is asked at each dial, and its troubles stay its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use perilune_client::{
    Client, ConfigError, Credential, CredentialError, CredentialFile, CredentialProvider, DialError, DialErrorKind,
    Timeouts, credential_fn,
};

use crate::peer::Peer;
use crate::{hasty, registration};

/// The `Authorization` header of one dial, which the peer refuses.
async fn authorization(client: &Client, peer: &Peer) -> String {
    let (_, seen) = tokio::join!(client.dial_events(registration(1)), async {
        let request = peer.accept().await;
        let seen = request.header("authorization").expect("a credential").to_owned();
        request.refuse(503, "", "").await;
        seen
    });
    seen
}

/// A dial that must fail before anything is dialled.
async fn undialled(timeouts: Timeouts, provider: impl CredentialProvider) -> DialError {
    let client = Client::builder("http://127.0.0.1:9").credential(provider).timeouts(timeouts).build();
    client.expect("options").dial_events(registration(1)).await.expect_err("no credential")
}

fn credential(text: &str) -> Credential {
    Credential::new(text).expect("a credential")
}

#[actix_rt::test]
async fn the_provider_is_asked_at_each_dial() {
    let peer = Peer::plain().await;
    let asked = AtomicUsize::new(0);
    let provider = credential_fn(move || {
        let count = asked.fetch_add(1, Ordering::Relaxed);
        async move { Credential::new(format!("credential-{count}")) }
    });
    let client = Client::builder(peer.url()).credential(provider).build().expect("options");
    assert_eq!(authorization(&client, &peer).await, "Bearer credential-0");
    assert_eq!(authorization(&client, &peer).await, "Bearer credential-1");
}

#[actix_rt::test]
async fn a_file_is_read_at_each_dial() {
    let peer = Peer::plain().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("credential");
    let client = Client::builder(peer.url()).credential(CredentialFile(path.clone())).build().expect("options");
    let error = client.dial_events(registration(1)).await.expect_err("no file yet");
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Credential, true));
    for text in ["first", "second\n"] {
        std::fs::write(&path, text).expect("written");
        assert_eq!(authorization(&client, &peer).await, format!("Bearer {}", text.trim()));
    }
}

#[actix_rt::test]
async fn an_empty_file_is_taken_for_one_being_replaced() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = undialled(Timeouts::default(), CredentialFile(file.path().to_owned())).await;
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Credential, true));
}

#[actix_rt::test]
async fn the_provider_says_whether_asking_again_may_help() {
    let error =
        undialled(Timeouts::default(), credential_fn(async || Err(CredentialError::temporary("vault is down")))).await;
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Credential, true));
    let error =
        undialled(Timeouts::default(), credential_fn(async || Err(CredentialError::permanent("no such secret")))).await;
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Credential, false));
    assert!(!format!("{error} {error:?}").contains("no such secret"));
}

#[actix_rt::test]
async fn a_panic_of_the_provider_fails_that_dial_alone() {
    let peer = Peer::plain().await;
    let asked = AtomicUsize::new(0);
    let provider = credential_fn(move || {
        // The first panics before its future, the second inside.
        let count = asked.fetch_add(1, Ordering::Relaxed);
        assert_ne!(count, 0, "outside");
        async move {
            assert_ne!(count, 1, "inside");
            Ok(credential("third"))
        }
    });
    let client = Client::builder(peer.url()).credential(provider).build().expect("options");
    for _ in 0..2 {
        let error = client.dial_events(registration(1)).await.expect_err("panicked");
        assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Credential, true));
    }
    assert_eq!(authorization(&client, &peer).await, "Bearer third");
}

#[actix_rt::test]
async fn a_provider_that_hangs_is_given_up_with_the_handshakes_time_and_dropped() {
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let provider = credential_fn(move || {
        let held = Arc::clone(&held);
        async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(credential("never"))
        }
    });
    let begun = Instant::now();
    let error = undialled(hasty(), provider).await;
    assert_eq!((error.kind(), error.is_retriable()), (DialErrorKind::Timeout, true));
    assert!(begun.elapsed() >= hasty().handshake);
    // The hung future ends with its dial, on another thread.
    tokio::task::spawn_blocking(move || {
        while Arc::strong_count(&alive) > 1 {
            std::thread::yield_now();
        }
    })
    .await
    .expect("dropped");
}

#[actix_rt::test]
async fn a_provider_that_blocks_stalls_nothing_else() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let provider = credential_fn(move || {
        blocked.lock().expect("one dial").recv().expect("released");
        async { Ok(credential("late")) }
    });
    let peer = Peer::plain().await;
    let client = Client::builder(peer.url()).credential(provider).build().expect("options");
    let (seen, ()) = tokio::join!(authorization(&client, &peer), async {
        // Were the thread blocked, this would never run.
        tokio::task::yield_now().await;
        release.send(()).expect("waiting");
    });
    assert_eq!(seen, "Bearer late");
}

#[test]
fn only_visible_ascii_is_a_credential() {
    for bad in ["", " ", "a b", "a\r\nx: y", "é", "\u{7f}"] {
        let error = Credential::new(bad).expect_err("refused");
        assert!(error.is_permanent() && (bad.trim().is_empty() || !error.to_string().contains(bad)), "{bad:?}");
    }
    assert_eq!(credential("a.b-c_d~e+f/g==").expose(), "a.b-c_d~e+f/g==");
    assert_eq!(format!("{:?}", credential("s3cret")), "[redacted]");
}

#[test]
fn a_client_without_a_provider_or_with_a_bad_address_is_not_built() {
    let error = Client::builder("https://a.example").build().expect_err("no provider");
    assert_eq!(error.field, "credential");
    for bad in ["http://a.example", "ftp://localhost", "https://user:s3cret@a.example"] {
        let built: Result<Client, ConfigError> = Client::builder(bad).credential(credential("x")).build();
        let error = built.expect_err("refused");
        assert_eq!(error.field, "base_url", "{bad}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
    assert!(Client::builder("http://a.example").allow_plaintext().credential(credential("x")).build().is_ok());
}
