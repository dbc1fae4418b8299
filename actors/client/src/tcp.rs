//! TCP with the options that awc leaves unset, to whichever of a name's addresses answers.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_rt::net::TcpStream;
use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection, Resolver, ResolverService};
use awc::http::Uri;
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use socket2::{SockRef, TcpKeepalive};

/// Silence after which the kernel begins to probe the peer.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
/// The time between two probes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// How long sent bytes or probes may go unacknowledged before the kernel gives the connection up.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// An address's head start before the next one is tried beside it (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Where a connection may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Anywhere,
    LoopbackOnly,
}

/// The connector that awc is given.
#[derive(Clone)]
pub(crate) struct Tcp {
    resolver: ResolverService,
    reach: Reach,
}

impl Tcp {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { resolver: Resolver::default().service(), reach }
    }
}

impl Service<ConnectInfo<Uri>> for Tcp {
    type Response = Connection<Uri, TcpStream>;
    type Error = ConnectError;
    type Future = LocalBoxFuture<'static, Result<Self::Response, ConnectError>>;

    fn poll_ready(&self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&self, target: ConnectInfo<Uri>) -> Self::Future {
        // Names are resolved here, each time anew.
        let resolving = self.resolver.call(target);
        let reach = self.reach;
        Box::pin(async move {
            let mut target = resolving.await?;
            let addresses = target.take_addrs().collect();
            let stream = first_to_answer(addresses, TcpStream::connect).await.map_err(ConnectError::Io)?;
            tune(&stream, reach).map_err(ConnectError::Io)?;
            Ok(Connection::new(target.request().clone(), stream))
        })
    }
}

/// Tries the addresses in order, each with a head start: one that swallows packets must not use up the
/// handshake's time while another would answer.
async fn first_to_answer<T, F: Future<Output = io::Result<T>>>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut untried = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    loop {
        match untried.next() {
            Some(address) => attempts.push(connect(address)),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        tokio::select! {
            Some(outcome) = attempts.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            },
            () = tokio::time::sleep(HEAD_START), if untried.len() > 0 => {}
        }
    }
}

/// Without these a vanished peer is never noticed, and a small frame may wait for a large one.
fn tune(stream: &TcpStream, reach: Reach) -> io::Result<()> {
    if reach == Reach::LoopbackOnly && !stream.peer_addr()?.ip().is_loopback() {
        // A name such as localhost can be made to point elsewhere.
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "unencrypted beyond loopback"));
    }
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY))?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: u8) -> Vec<SocketAddr> {
        (1..=count).map(|n| SocketAddr::from(([127, 0, 0, n], 1))).collect()
    }

    #[actix_rt::test]
    async fn the_kernel_is_told_to_notice_a_vanished_peer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let uri: Uri = format!("ws://{}", listener.local_addr().expect("bound")).parse().expect("a URI");
        let connection = Tcp::new(Reach::LoopbackOnly).call(ConnectInfo::new(uri)).await.expect("connected");
        let socket = SockRef::from(connection.io_ref());
        assert!(socket.tcp_nodelay().expect("readable"));
        assert!(socket.keepalive().expect("readable"));
        assert_eq!(socket.tcp_keepalive_time().expect("readable"), KEEPALIVE_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().expect("readable"), KEEPALIVE_EVERY);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().expect("readable"), Some(UNACKNOWLEDGED_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_swallows_packets_delays_the_next_one_by_its_head_start() {
        let begun = tokio::time::Instant::now();
        let winner = first_to_answer(addresses(3), |address| async move {
            if address.to_string() != "127.0.0.3:1" {
                std::future::pending::<()>().await;
            }
            Ok(address)
        });
        assert_eq!(winner.await.expect("answered").to_string(), "127.0.0.3:1");
        assert_eq!(begun.elapsed(), 2 * HEAD_START);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_refuses_makes_way_at_once() {
        let begun = tokio::time::Instant::now();
        let winner = first_to_answer(addresses(2), |address| async move {
            if address.to_string() == "127.0.0.1:1" {
                Err(io::ErrorKind::ConnectionRefused.into())
            } else {
                Ok(address)
            }
        });
        assert_eq!(winner.await.expect("answered").to_string(), "127.0.0.2:1");
        assert!(begun.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_failure_is_the_one_that_is_told() {
        let lost = first_to_answer(addresses(2), |address| async move {
            let first = address.to_string() == "127.0.0.1:1";
            let kind = if first { io::ErrorKind::ConnectionRefused } else { io::ErrorKind::HostUnreachable };
            Err::<(), _>(kind.into())
        });
        assert_eq!(lost.await.expect_err("nobody answers").kind(), io::ErrorKind::HostUnreachable);
        assert!(first_to_answer(Vec::new(), |_| async { Ok(()) }).await.is_err());
    }
}
