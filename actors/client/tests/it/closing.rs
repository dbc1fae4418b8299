//! How a connection ends.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use perilune_client::{ConnectionErrorKind, MessageId, NewMessageId as _, RequestErrorKind};

use crate::peer::{Got, Peer};
use crate::{impatient, open, open_with};

#[actix_rt::test]
async fn close_says_goodbye_and_waits_for_the_read_loop() {
    let (connection, mut socket) = open(4).await;
    let ((), ()) = tokio::join!(connection.close(), async {
        assert_eq!(socket.got().await, Got::Close(Some(1000)));
        assert_eq!(socket.got().await, Got::End);
        assert_eq!(connection.closed().now_or_never(), None, "the peer's end is still open");
        drop(socket);
    });
    assert_eq!(connection.closed().now_or_never(), Some(()));
    assert_eq!(connection.error().expect("ended").kind(), ConnectionErrorKind::ClosedHere);
    assert!(connection.next().await.is_err());
    connection.close().await;
}

#[actix_rt::test]
async fn close_fails_requests_in_flight() {
    let (connection, mut socket) = open(4).await;
    let (failed, ()) = tokio::join!(connection.ping(MessageId::new()), async {
        socket.ping().await;
        tokio::join!(connection.close(), async { drop(socket) });
    });
    let failed = failed.expect_err("closed");
    assert_eq!(failed.kind(), RequestErrorKind::Connection);
}

#[actix_rt::test]
async fn a_peer_that_answers_no_close_is_not_waited_for_long() {
    let peer = Peer::plain().await;
    let (connection, socket) = open_with(&peer, impatient(), 4).await;
    let begun = Instant::now();
    connection.close().await;
    assert!(begun.elapsed() >= impatient().parting && begun.elapsed() < Duration::from_secs(5));
    drop(socket);
}

#[actix_rt::test]
async fn the_last_handle_to_go_closes() {
    let (connection, mut socket) = open(4).await;
    let other = connection.clone();
    drop(connection);
    let (pong, ()) = tokio::join!(other.ping(MessageId::new()), async {
        let ping = socket.ping().await.message_id;
        socket.pong(ping).await;
    });
    assert!(pong.is_ok(), "one handle is left");
    drop(other);
    assert_eq!(socket.got().await, Got::Close(Some(1000)));
    assert_eq!(socket.got().await, Got::End);
}

#[actix_rt::test]
async fn closed_resolves_for_everybody_when_the_peer_goes() {
    let (connection, socket) = open(4).await;
    let other = connection.clone();
    tokio::join!(connection.closed(), other.closed(), async { drop(socket) });
    assert_eq!(other.error().expect("ended").kind(), ConnectionErrorKind::Closed(1006));
}

#[actix_rt::test]
async fn a_reset_is_a_network_error() {
    let peer = Peer::plain().await.resetting();
    let (connection, socket) = open_with(&peer, impatient(), 4).await;
    drop(socket);
    let error = connection.next().await.expect_err("reset");
    assert_eq!((error.kind(), error.is_retriable()), (ConnectionErrorKind::Network, true));
    assert!(std::error::Error::source(&error).is_some());
}

#[actix_rt::test]
async fn a_connection_whose_thread_ends_is_over() {
    let tasks = tokio::task::LocalSet::new();
    let (connection, socket) = tasks.run_until(open(4)).await;
    assert!(connection.error().is_none());
    drop(tasks);
    assert_eq!(connection.closed().now_or_never(), Some(()));
    assert!(connection.error().expect("ended").is_retriable());
    let failed = connection.ping(MessageId::new()).await.expect_err("ended");
    assert_eq!(failed.kind(), RequestErrorKind::Connection);
    drop(socket);
}
