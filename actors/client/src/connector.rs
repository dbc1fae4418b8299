//! The HTTP client below a dial: one for each, so that names, certificates and sockets are fresh.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_rt::net::TcpStream;
use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection, Connector, ConnectorService};
use awc::http::Uri;
use futures_util::future::LocalBoxFuture;
use rustls::ClientConfig;
use socket2::{SockRef, TcpKeepalive};

use crate::base_url::Plaintext;
use crate::refusal::{Capture, Slot};

/// Silence after which the kernel begins to probe the peer.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
/// The time between two probes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// How long sent bytes or probes may go unacknowledged before the kernel gives the connection up.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// Above any deadline of ours: time limits are set around the calls, where the status can be kept.
const OUT_OF_THE_WAY: Duration = Duration::from_secs(3_600);

/// What is settled before a client is made.
pub(crate) struct Transport {
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) plaintext: Plaintext,
}

impl Transport {
    /// A client for one upgrade. A refusal's status and body end up in `slot`.
    pub(crate) fn upgrade_client(self, slot: Slot) -> awc::Client {
        let builder = awc::Client::builder().connector(self.connector());
        builder.disable_redirects().disable_timeout().wrap(Capture(slot)).finish()
    }

    /// A client for plain requests.
    pub(crate) fn http_client(self) -> awc::Client {
        awc::Client::builder().connector(self.connector()).disable_redirects().finish()
    }

    fn connector(
        self,
    ) -> awc::Connector<
        impl Service<ConnectInfo<Uri>, Response = Connection<Uri, TcpStream>, Error = ConnectError> + Clone + 'static,
    > {
        let loopback_only = self.tls.is_none() && self.plaintext == Plaintext::LoopbackOnly;
        let tcp = TunedTcp { inner: Rc::new(Connector::default().service()), loopback_only };
        // Without a limit of zero the hundred-and-first connection of a client waits for ever.
        let connector = awc::Connector::new().connector(tcp).limit(0);
        let connector = connector.timeout(OUT_OF_THE_WAY).handshake_timeout(OUT_OF_THE_WAY);
        // `max_http_version` would throw this configuration away for the public roots: never call it.
        match self.tls {
            Some(config) => connector.rustls_0_23(config),
            None => connector,
        }
    }
}

/// TCP with the options that awc leaves unset: without them a vanished peer is never noticed.
#[derive(Clone)]
struct TunedTcp {
    inner: Rc<ConnectorService>,
    loopback_only: bool,
}

impl Service<ConnectInfo<Uri>> for TunedTcp {
    type Response = Connection<Uri, TcpStream>;
    type Error = ConnectError;
    type Future = LocalBoxFuture<'static, Result<Self::Response, ConnectError>>;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        <ConnectorService as Service<ConnectInfo<Uri>>>::poll_ready(&self.inner, cx)
    }

    fn call(&self, target: ConnectInfo<Uri>) -> Self::Future {
        let connecting = self.inner.call(target);
        let loopback_only = self.loopback_only;
        Box::pin(async move {
            let connection = connecting.await?;
            tune(connection.io_ref(), loopback_only).map_err(ConnectError::Io)?;
            Ok(connection)
        })
    }
}

fn tune(stream: &TcpStream, loopback_only: bool) -> io::Result<()> {
    if loopback_only && !stream.peer_addr()?.ip().is_loopback() {
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
