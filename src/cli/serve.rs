//! `serve`: the server, until a signal ends it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use perilune_proto::limits::{HEARTBEAT_MS, LEASE_MS};

use super::blame::setting;
use super::database::{self, DatabaseArgs};
use super::duration;
use super::exit::{Failure, Outcome};
use super::output::print_text;
use super::signals::{self, Hangup};
use crate::server::store::{PastCursors, Role};
use crate::server::{Limits, RunningServer, Server, ServerConfig, Stopped, TlsFiles};

/// How long the database has to answer what it was asked last, and to let go, where nobody has set a time.
const CLOSE_MAX: Duration = Duration::from_secs(10);
/// How long it has at the least, though requests used up all of `--shutdown-timeout`.
const CLOSE_MIN: Duration = Duration::from_millis(500);

/// Run the server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SIGTERM and SIGINT end it in an orderly way, a second SIGINT at once. SIGHUP reads --tls-cert and --tls-key anew,
without them it does nothing.

Example:
  perilune serve --listen 127.0.0.1:7878 --database sqlite:perilune.db --retain-age 30d")]
pub(crate) struct ServeArgs {
    /// Where the API listens; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", env = "PERILUNE_LISTEN", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// Moves /metrics to a listener of its own
    #[arg(long, value_name = "ADDRESS", env = "PERILUNE_METRICS_LISTEN")]
    metrics_listen: Option<SocketAddr>,
    #[command(flatten)]
    database: DatabaseArgs,
    /// How long a lease lasts; less than 30000 is for development
    #[arg(
        long,
        value_name = "MILLISECONDS",
        env = "PERILUNE_LEASE_MS",
        default_value = "30000",
        value_parser = clap::value_parser!(u32).range(i64::from(*LEASE_MS.start())..=i64::from(*LEASE_MS.end()))
    )]
    lease_ms: u32,
    /// How often clients ping; less than 15000 is for development
    #[arg(
        long,
        value_name = "MILLISECONDS",
        env = "PERILUNE_HEARTBEAT_MS",
        default_value = "15000",
        value_parser = clap::value_parser!(u32).range(i64::from(*HEARTBEAT_MS.start())..=i64::from(*HEARTBEAT_MS.end()))
    )]
    heartbeat_ms: u32,
    /// Remove events from the log that are older than this
    #[arg(long, value_name = "DURATION", env = "PERILUNE_RETAIN_AGE", value_parser = duration::parse)]
    retain_age: Option<Duration>,
    /// Remove events from the log beyond the newest so many
    #[arg(long, value_name = "EVENTS", env = "PERILUNE_RETAIN_COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    retain_count: Option<u64>,
    /// Let retention pass the cursors of live subscriptions, which then meet HISTORY_GAP
    #[arg(
        long,
        env = "PERILUNE_RETAIN_PAST_CURSORS",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    retain_past_cursors: bool,
    /// Sessions of one subscription at once, on this server: several servers of one database count each their own
    #[arg(long, value_name = "SESSIONS", env = "PERILUNE_SESSIONS_PER_SUBSCRIPTION", default_value = "64")]
    sessions_per_subscription: usize,
    /// Sessions of one credential at once, on this server
    #[arg(long, value_name = "SESSIONS", env = "PERILUNE_SESSIONS_PER_CREDENTIAL", default_value = "256")]
    sessions_per_credential: usize,
    /// Sessions in all at once, on this server
    #[arg(long, value_name = "SESSIONS", env = "PERILUNE_SESSIONS", default_value = "10000")]
    sessions: usize,
    /// How long a stop waits for running requests and the database: up to 5m
    #[arg(
        long,
        value_name = "DURATION",
        env = "PERILUNE_SHUTDOWN_TIMEOUT",
        default_value = "10s",
        value_parser = duration::within(Duration::from_millis(1)..=Duration::from_secs(300))
    )]
    shutdown_timeout: Duration,
    /// Serve TLS with the certificate chain in this PEM file
    #[arg(long, value_name = "PATH", env = "PERILUNE_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, a PEM file
    #[arg(long, value_name = "PATH", env = "PERILUNE_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// Threads that serve connections; one a processor if left out
    #[arg(long, value_name = "THREADS", env = "PERILUNE_WORKERS")]
    workers: Option<usize>,
}

pub(crate) async fn run(args: ServeArgs) -> Outcome {
    let config = config(&args)?;
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let stop = signals::listen(Hangup::Other, || {})?;
    #[cfg(unix)]
    signals::outlive_hangups(args.tls_cert.is_some())?;
    let store = database::open(&args.database.database, Role::Server).await?;
    let server = Server::start(config, store.clone()).await.map_err(|error| Failure::Failed(error.into()));
    let mut close_within = CLOSE_MAX;
    let stopped = match server {
        Ok(mut server) => {
            announce(&server, scheme)?;
            tokio::select! {
                ended = server.ended() => Ok(ended),
                () = stop.wait() => {
                    let asked = Instant::now();
                    let stopped = server.stop().await;
                    close_within = args.shutdown_timeout.saturating_sub(asked.elapsed()).max(CLOSE_MIN);
                    Ok(stopped)
                }
            }
        }
        Err(failure) => Err(failure),
    };
    let closed = tokio::time::timeout(close_within, store.close()).await;
    if closed.is_err() {
        // What was answered is on disk, and the locks go with the process.
        tracing::warn!("the database did not let go before the shutdown timeout was over");
    }
    match stopped? {
        Stopped::Cleanly => closed.unwrap_or(Ok(())).map_err(|error| Failure::Failed(error.into())),
        Stopped::AtTheDeadline => {
            tracing::warn!("requests or sessions were cut off when the shutdown timeout was over");
            Ok(())
        }
        Stopped::Failed => Err(Failure::failed("the server ended by itself; its log says why")),
    }
}

/// One line once it listens, with the port that was taken.
fn announce(server: &RunningServer, scheme: &str) -> Outcome {
    let metrics = server.metrics_addr().map(|address| format!(", metrics on http://{address}/metrics"));
    print_text(&format!("listening on {scheme}://{}{}", server.addr(), metrics.unwrap_or_default()))
}

fn config(args: &ServeArgs) -> Outcome<ServerConfig> {
    let limits = Limits {
        sessions_per_subscription: args.sessions_per_subscription,
        sessions_per_credential: args.sessions_per_credential,
        sessions: args.sessions,
        ..Limits::default()
    };
    let mut builder = ServerConfig::builder()
        .listen(args.listen)
        .lease_ms(args.lease_ms)
        .heartbeat_ms(args.heartbeat_ms)
        .limits(limits)
        .shutdown_timeout(args.shutdown_timeout);
    if let Some(address) = args.metrics_listen {
        builder = builder.metrics_listen(address);
    }
    if let Some(age) = args.retain_age {
        builder = builder.retain_age(age);
    }
    if let Some(count) = args.retain_count {
        builder = builder.retain_count(count);
    }
    if args.retain_past_cursors {
        builder = builder.retain_past_cursors(PastCursors::Forget);
    }
    if let Some(workers) = args.workers {
        builder = builder.workers(workers);
    }
    match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => builder = builder.tls(TlsFiles { cert: cert.clone(), key: key.clone() }),
        (None, None) => {}
        (Some(_), None) => return Err(Failure::usage("--tls-cert needs --tls-key")),
        (None, Some(_)) => return Err(Failure::usage("--tls-key needs --tls-cert")),
    }
    builder.build().map_err(|error| {
        Failure::usage(format!(
            "{} is {} and must be {}",
            setting(&error.field.replace('_', "-")),
            error.value,
            error.range
        ))
    })
}
