//! A server's life: start, serve, stop.
//!
//! A server has a thread of its own for what it does unasked (accepting, leasing, sweeping) and as many as
//! configured for connections, so that an application that embeds it may block its own runtime.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::config::ServerConfig;
use super::dispatcher::listen;
use super::keep::keep;
use super::listener::{Connections, Listener, bind};
use super::routes::Serves;
use super::state::{Phase, State};
use super::store::Store;
use super::sweeper::{retain, sweep};
use super::tls::{Certificate, TlsError};

/// Why a server did not start. Nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Somebody else listens there.
    #[error("{address} is in use by another process")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address can't be listened on.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The certificate or its key can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The TLS configuration can't be built.
    #[error("tls cannot be set up")]
    TlsSetup(#[source] rustls::Error),
    /// The system gives no thread or runtime.
    #[error("the system gives the server no thread")]
    System(#[source] io::Error),
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request was answered and every connection closed.
    Cleanly,
    /// Some were cut off when `shutdown_timeout` was over.
    AtTheDeadline,
    /// It ended by itself: the threads that serve could not go on.
    Failed,
}

/// Starts servers. See [`Self::start`].
#[derive(Debug)]
pub struct Server;

/// A server that runs. Dropping it stops the server, too, without waiting for its end.
#[derive(Debug)]
#[must_use = "a server that is dropped stops"]
pub struct RunningServer {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    certificate: Option<Arc<Certificate>>,
    stop: Option<oneshot::Sender<()>>,
    done: oneshot::Receiver<Stopped>,
}

impl Server {
    /// Binds the addresses and serves. The store stays the caller's to close, after [`RunningServer::stop`].
    ///
    /// With TLS the server reads certificate and key again whenever the process gets SIGHUP.
    ///
    /// # Errors
    /// [`StartError`], with one sentence that names what and why.
    pub async fn start(config: ServerConfig, store: Arc<dyn Store>) -> Result<RunningServer, StartError> {
        let sockets = Sockets::bind(&config)?;
        let (address, metrics_address) = sockets.addresses();
        let certificate = config.tls.clone().map(Certificate::load).transpose()?;
        let tls = certificate.as_ref().map(Certificate::server_config).transpose().map_err(StartError::TlsSetup)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::System)?;
        let (stop, stop_asked) = oneshot::channel();
        let (done_in, done) = oneshot::channel();
        let body = {
            let certificate = certificate.clone();
            move || {
                let stopped = runtime.block_on(async move {
                    let state = State::new(config, store);
                    serve(state, sockets, tls, certificate, stop_asked).await
                });
                // The runtime ends with whatever still runs on it; nobody may wait for the news.
                drop(runtime);
                let _heard = done_in.send(stopped);
            }
        };
        std::thread::Builder::new().name("perilune-server".to_owned()).spawn(body).map_err(StartError::System)?;
        tracing::info!(%address, tls = certificate.is_some(), "serving");
        Ok(RunningServer { address, metrics_address, certificate, stop: Some(stop), done })
    }
}

impl RunningServer {
    /// Where the API listens; the port that was taken where the configuration asked for any.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Where `/metrics` listens, if it has a listener of its own.
    #[must_use]
    pub const fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Reads certificate and key again, as SIGHUP makes it do. Connections that are open keep theirs.
    ///
    /// # Errors
    /// [`TlsError`] where the pair is not whole; the old one stays in use.
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        self.certificate.as_ref().map_or(Ok(()), |certificate| certificate.reload())
    }

    /// Stops: nothing new is accepted, sessions get `UNAVAILABLE` and close 1012, idle connections close at
    /// once, running requests have `shutdown_timeout` to finish.
    pub async fn stop(mut self) -> Stopped {
        drop(self.stop.take());
        self.ended().await
    }

    /// Waits for the server to end: by itself, since nobody has stopped it.
    pub async fn ended(&mut self) -> Stopped {
        // A thread that is gone without a word has panicked.
        (&mut self.done).await.unwrap_or(Stopped::Failed)
    }
}

struct Sockets {
    api: TcpListener,
    api_address: SocketAddr,
    metrics: Option<(TcpListener, SocketAddr)>,
}

impl Sockets {
    fn bind(config: &ServerConfig) -> Result<Self, StartError> {
        let (api, api_address) = bind_named(config.listen)?;
        let metrics = config.metrics_listen.map(bind_named).transpose()?;
        Ok(Self { api, api_address, metrics })
    }

    fn addresses(&self) -> (SocketAddr, Option<SocketAddr>) {
        (self.api_address, self.metrics.as_ref().map(|(_, address)| *address))
    }
}

fn bind_named(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = bind(address).and_then(|socket| socket.local_addr().map(|local| (socket, local)));
    bound.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::InUse { address },
        _ => StartError::Bind { address, source },
    })
}

/// Serves until `stop` is asked or dropped.
async fn serve(
    state: Arc<State>,
    sockets: Sockets,
    tls: Option<rustls::ServerConfig>,
    certificate: Option<Arc<Certificate>>,
    stop: oneshot::Receiver<()>,
) -> Stopped {
    start_housekeeping(&state, certificate);
    let connections = Connections::new();
    let server = match listen_on(&state, &connections, sockets, tls) {
        Ok(server) => server,
        Err(error) => {
            tracing::error!(%error, "the listeners could not be set up");
            return Stopped::Failed;
        }
    };
    let handle = server.handle();
    let mut server = Box::pin(server);
    tokio::select! {
        ended = &mut server => {
            if let Err(error) = ended {
                tracing::error!(%error, "the server ended by itself");
            }
            return Stopped::Failed;
        }
        _ = stop => {}
    }
    tracing::info!("stopping");
    state.phase.send_replace(Phase::Stopping);
    // The command is on its way once the future is made; its end is the server's, awaited below.
    let _stopping = handle.stop(true);
    let stopped = tokio::select! {
        _ = &mut server => Stopped::Cleanly,
        () = quiet(&state, &connections) => Stopped::Cleanly,
        () = tokio::time::sleep(state.config.shutdown_timeout) => Stopped::AtTheDeadline,
    };
    // Ends whatever is left of it.
    drop(server);
    stopped
}

/// Waits until nothing is open. actix-server itself looks but once a second.
async fn quiet(state: &State, connections: &Connections) {
    /// Connections that were accepted before the stop are counted by then.
    const SETTLE: Duration = Duration::from_millis(20);
    tokio::time::sleep(SETTLE.min(state.config.shutdown_timeout)).await;
    connections.none_open().await;
}

fn listen_on(
    state: &Arc<State>,
    connections: &Connections,
    sockets: Sockets,
    tls: Option<rustls::ServerConfig>,
) -> io::Result<actix_server::Server> {
    let timeout = state.config.shutdown_timeout.as_secs() + 1;
    let mut builder =
        actix_server::Server::build().workers(state.config.workers).disable_signals().shutdown_timeout(timeout);
    let listener =
        |serves, stopping| Listener { state: Arc::clone(state), serves, connections: connections.clone(), stopping };
    let serves = if sockets.metrics.is_some() { Serves::Api } else { Serves::Everything };
    let api = listener(serves, builder.graceful_shutdown_signal());
    builder = match tls {
        Some(config) => api.tls(builder, sockets.api, config)?,
        None => api.plain(builder, sockets.api)?,
    };
    if let Some((socket, _)) = sockets.metrics {
        builder = listener(Serves::Metrics, builder.graceful_shutdown_signal()).plain(builder, socket)?;
    }
    Ok(builder.run())
}

/// Starts what the server does unasked.
fn start_housekeeping(state: &Arc<State>, certificate: Option<Arc<Certificate>>) {
    let new = || Arc::clone(state);
    let (one, two, three) = (new(), new(), new());
    tokio::spawn(keep("news", move || listen(Arc::clone(&one))));
    tokio::spawn(keep("sweeper", move || sweep(Arc::clone(&two))));
    tokio::spawn(keep("retention", move || retain(Arc::clone(&three))));
    #[cfg(unix)]
    if let Some(certificate) = certificate {
        tokio::spawn(keep("certificates", move || reload_on_hangup(Arc::clone(&certificate))));
    }
}

#[cfg(unix)]
async fn reload_on_hangup(certificate: Arc<Certificate>) {
    use tokio::signal::unix::{SignalKind, signal};

    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            tracing::error!(%error, "SIGHUP cannot be listened for: certificates are not read again");
            return;
        }
    };
    while hangups.recv().await.is_some() {
        match certificate.reload() {
            Ok(()) => tracing::info!("certificate and key were read again"),
            Err(error) => tracing::warn!(%error, "the old certificate stays in use"),
        }
    }
}
