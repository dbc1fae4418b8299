//! Sockets to HTTP: binds, accepts, speaks TLS, counts connections.
//!
//! actix-web's own `HttpServer` is not used: it pushes h2 into the ALPN list whenever something in the build
//! turns that feature on (awc does), and it lets nobody stand between the socket and TLS.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::HttpService;
use actix_http::error::DispatchError;
use actix_rt::net::TcpStream;
use actix_server::{GracefulShutdownSignal, ServerBuilder};
use actix_service::{IntoServiceFactory as _, ServiceFactory, ServiceFactoryExt as _, fn_service, map_config};
use actix_tls::accept::TlsError;
use actix_tls::accept::rustls_0_23::{Acceptor, TlsStream};
use actix_web::App;
use actix_web::dev::AppConfig;
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpSocket;
use tokio::sync::watch;

use super::connection::{Watched, Wire};
use super::routes::{self, Serves, observe};
use super::state::State;

/// Connections that wait to be accepted at the most.
const ACCEPT_QUEUE: u32 = 2_048;
/// How long a connection may idle between two requests.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How long a request's head may take to come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a connection that is being closed may take, and TLS's handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const TLS_TIMEOUT: Duration = Duration::from_secs(8);

/// Counts the connections of a server.
#[derive(Debug, Clone)]
pub(crate) struct Connections(watch::Sender<usize>);

/// One connection that is open.
#[derive(Debug)]
pub(crate) struct Counted(watch::Sender<usize>);

impl Connections {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    fn count(&self) -> Counted {
        self.0.send_modify(|open| *open += 1);
        Counted(self.0.clone())
    }

    /// Waits until none is open.
    pub(crate) async fn none_open(&self) {
        let mut open = self.0.subscribe();
        // The sender lives in `self`, so the wait can't fail.
        let _none = open.wait_for(|open| *open == 0).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// Binds an address, which may have been in use a moment ago.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(ACCEPT_QUEUE)?.into_std()
}

/// What a listener is made of.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) state: Arc<State>,
    pub(crate) serves: Serves,
    pub(crate) connections: Connections,
    /// Says when connections finish what they do and close.
    pub(crate) stopping: GracefulShutdownSignal,
}

impl Listener {
    /// Serves plain HTTP.
    pub(crate) fn plain(self, builder: ServerBuilder, socket: TcpListener) -> io::Result<ServerBuilder> {
        builder.listen("http", socket, move || {
            let connections = self.connections.clone();
            fn_service(move |stream: TcpStream| {
                let watched = Watched::new(stream, connections.count());
                let peer = watched.peer_addr();
                async move { Ok::<_, DispatchError>((watched, peer)) }
            })
            .and_then(self.http(Watched::wire))
        })
    }

    /// Serves HTTP over TLS.
    pub(crate) fn tls(
        self,
        builder: ServerBuilder,
        socket: TcpListener,
        config: rustls::ServerConfig,
    ) -> io::Result<ServerBuilder> {
        let mut acceptor = Acceptor::new(config);
        acceptor.set_handshake_timeout(TLS_TIMEOUT);
        builder.listen("https", socket, move || {
            let connections = self.connections.clone();
            let http = self.http(|stream: &TlsStream<Watched<Counted>>| stream.get_ref().0.wire());
            fn_service(move |stream: TcpStream| {
                let watched = Watched::new(stream, connections.count());
                async move { Ok::<_, TlsError<io::Error, DispatchError>>(watched) }
            })
            .and_then(acceptor.clone().map_err(TlsError::into_service_error))
            .map(|stream: TlsStream<Watched<Counted>>| {
                let peer = stream.get_ref().0.peer_addr();
                (stream, peer)
            })
            .and_then(http.map_err(TlsError::Service))
        })
    }

    /// The application on a stream, HTTP/1.1 alone.
    fn http<T>(
        &self,
        wire: fn(&T) -> Rc<Wire>,
    ) -> impl ServiceFactory<(T, Option<SocketAddr>), Config = (), Response = (), Error = DispatchError, InitError = ()>
    + use<T>
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let (data, serves) = (Data::from(Arc::clone(&self.state)), self.serves);
        let app = App::new()
            .app_data(data)
            .wrap(from_fn(observe))
            .configure(move |config| routes::configure(config, serves))
            .into_factory()
            .map_err(|error: actix_web::Error| error.as_response_error().error_response());
        let stopping = self.stopping.clone();
        HttpService::<T, _, _>::build()
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(HEAD_TIMEOUT)
            .client_disconnect_timeout(CLOSE_TIMEOUT)
            // As actix-web's own server does: idle connections close when the server is told to stop.
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .on_connect_ext(move |stream: &T, data| {
                data.insert(wire(stream));
            })
            .h1(map_config(app, |()| AppConfig::default()))
    }
}
