//! `next()`.

use std::time::Duration;

use futures_util::FutureExt as _;
use perilune_client::Connection;

use crate::open;

fn number(connection: &Connection) -> Option<u128> {
    let received = connection.next().now_or_never()?.expect("open");
    Some(u128::from_be_bytes(*received.event().event_id.as_bytes()))
}

#[actix_rt::test]
async fn deliveries_come_in_order_with_their_lease() {
    let (connection, mut socket) = open(4).await;
    for n in 1..=3 {
        socket.deliver(n).await;
    }
    for n in 1..=3u128 {
        let received = connection.next().await.expect("a delivery");
        assert_eq!(*received.event().event_id.as_bytes(), n.to_be_bytes());
        assert_eq!(*received.proof().delivery_id.as_bytes(), n.to_be_bytes());
        assert_eq!(received.lease(), Duration::from_secs(30));
        assert_eq!(received.lease_ends(), received.arrived() + Duration::from_secs(30));
    }
}

#[actix_rt::test]
async fn dropping_next_loses_no_delivery_and_closes_nothing() {
    let (connection, mut socket) = open(32).await;
    let mut read = Vec::new();
    for n in 1..=500u128 {
        socket.deliver(n).await;
        // Half of the futures are dropped, in every state that a few polls lead to.
        for polls in 0..4 {
            let mut next = Box::pin(connection.next());
            for _ in 0..polls {
                if let Some(received) = next.as_mut().now_or_never() {
                    read.push(u128::from_be_bytes(*received.expect("open").event().event_id.as_bytes()));
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        while let Some(number) = number(&connection) {
            read.push(number);
        }
    }
    while read.len() < 500 {
        let received = connection.next().await.expect("open");
        read.push(u128::from_be_bytes(*received.event().event_id.as_bytes()));
    }
    assert!(read.iter().copied().eq(1..=500));
}

#[actix_rt::test]
async fn two_waiting_readers_get_one_delivery_each() {
    let (connection, mut socket) = open(4).await;
    let (first, second, ()) = tokio::join!(connection.next(), connection.next(), async {
        socket.deliver(1).await;
        socket.deliver(2).await;
    });
    let mut numbers = [first, second].map(|received| *received.expect("a delivery").event().event_id.as_bytes());
    numbers.sort_unstable();
    assert_eq!(numbers.map(u128::from_be_bytes), [1, 2]);
}

#[actix_rt::test]
async fn as_many_as_the_capacity_may_be_unread_again_and_again() {
    let (connection, mut socket) = open(2).await;
    for _ in 0..5 {
        socket.deliver(1).await;
        socket.deliver(2).await;
        connection.next().await.expect("a delivery");
        connection.next().await.expect("a delivery");
    }
    assert!(connection.error().is_none());
}
