//! A connection that breaks at the commit: the error says that nobody knows, and the next delivery finds out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use perilune::inbox::{Applied, ApplyErrorKind, Inbox, OpenTransaction};
use perilune::sql::PoolSettings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::apply;
use crate::engines::{Site, TestEngine, on_servers};
use crate::events::event;

on_servers! {
    a_commit_whose_answer_is_lost_took_place,
    a_commit_that_never_arrived_did_not_take_place,
    a_connection_lost_before_the_commit_is_no_unknown_commit,
}

/// What the link does with the next bytes from the client.
const PASS: u8 = 0;
/// Passes them on and loses the answer.
const LOSE_ANSWER: u8 = 1;
/// Loses them.
const LOSE_REQUEST: u8 = 2;

/// A link to the database that can be cut at a chosen moment.
struct Link {
    port: u16,
    next: Arc<AtomicU8>,
}

fn address(url: &str) -> (String, String) {
    let rest = url.split_once('@').map_or_else(|| url.split_once("//").expect("a URL").1, |(_, rest)| rest);
    let host = rest.split('/').next().expect("a host");
    let port = if url.starts_with("mysql") { 3306 } else { 5432 };
    let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
    (host.to_owned(), with_port)
}

impl Link {
    async fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let next = Arc::new(AtomicU8::new(PASS));
        let (_, target) = address(url);
        let how = Arc::clone(&next);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&target).await.expect("the server answers");
                tokio::spawn(carry(client, server, Arc::clone(&how)));
            }
        });
        Self { port, next }
    }

    async fn inbox<DB: TestEngine>(&self, site: &Site<DB>) -> Inbox<DB> {
        let (host, _) = address(&site.url);
        let url = site.url.replacen(&host, &format!("127.0.0.1:{}", self.port), 1);
        let settings = PoolSettings { max_connections: 1, ..site.settings };
        let pool = DB::open(&url.parse().expect("a URL"), &settings).await.expect("the link works");
        Inbox::with_prefix(pool, "billing", &site.prefix).expect("a name")
    }
}

async fn carry(client: TcpStream, server: TcpStream, next: Arc<AtomicU8>) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let up = async {
        let mut bytes = [0; 16_384];
        loop {
            let n = from_client.read(&mut bytes).await.unwrap_or(0);
            if n == 0 {
                return;
            }
            match next.swap(PASS, Ordering::SeqCst) {
                PASS => to_server.write_all(&bytes[..n]).await.expect("the server reads"),
                LOSE_ANSWER => {
                    to_server.write_all(&bytes[..n]).await.expect("the server reads");
                    // The server works on it while nobody listens any more; its FIN comes when it has.
                    to_server.shutdown().await.expect("half closed");
                    return;
                }
                _ => return,
            }
        }
    };
    let down = async {
        let mut bytes = [0; 16_384];
        while let Ok(n @ 1..) = from_server.read(&mut bytes).await {
            to_client.write_all(&bytes[..n]).await.expect("the client reads");
        }
    };
    // Whichever ends first closes both.
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

async fn apply_and_cut<DB: TestEngine>(site: &Site<DB>, link: &Link, how: u8) -> ApplyErrorKind {
    let inbox = link.inbox(site).await;
    let (effect, next) = (site.effect("x"), Arc::clone(&link.next));
    let error = inbox
        .apply_once(&event(1), move |mut tx: OpenTransaction<DB>| {
            let (effect, next) = (effect.clone(), Arc::clone(&next));
            async move {
                DB::run(&mut tx, &effect).await?;
                // The next bytes are the commit.
                next.store(how, Ordering::SeqCst);
                Ok::<_, sqlx::Error>(())
            }
        })
        .await
        .expect_err("the link is cut");
    error.kind()
}

async fn a_commit_whose_answer_is_lost_took_place<DB: TestEngine>(site: Site<DB>) {
    let link = Link::to(&site.url).await;
    assert_eq!(apply_and_cut(&site, &link, LOSE_ANSWER).await, ApplyErrorKind::UnknownCommit);
    // The next delivery waits for whatever the server still has open.
    assert_eq!(apply(&site, &site.inbox("billing"), &event(1), "x").await.expect("known"), Applied::Duplicate);
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

async fn a_commit_that_never_arrived_did_not_take_place<DB: TestEngine>(site: Site<DB>) {
    let link = Link::to(&site.url).await;
    assert_eq!(apply_and_cut(&site, &link, LOSE_REQUEST).await, ApplyErrorKind::UnknownCommit);
    assert_eq!(apply(&site, &site.inbox("billing"), &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(site.effects("x").await, 1);
    site.close().await;
}

async fn a_connection_lost_before_the_commit_is_no_unknown_commit<DB: TestEngine>(site: Site<DB>) {
    let link = Link::to(&site.url).await;
    let inbox = link.inbox(&site).await;
    let (effect, next) = (site.effect("x"), Arc::clone(&link.next));
    let error = inbox
        .apply_once(&event(1), move |mut tx: OpenTransaction<DB>| {
            let (effect, next) = (effect.clone(), Arc::clone(&next));
            async move {
                next.store(LOSE_REQUEST, Ordering::SeqCst);
                DB::run(&mut tx, &effect).await.map(drop)
            }
        })
        .await
        .expect_err("the link is cut");
    assert!(matches!(error.kind(), ApplyErrorKind::Database(_)), "{error:?}");
    assert_eq!(apply(&site, &site.inbox("billing"), &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}
