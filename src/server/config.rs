//! How a server is set up. Every range is checked once, when the configuration is built.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use perilune_proto::limits::{HEARTBEAT_MS, HEARTBEAT_MS_DEFAULT, LEASE_MS, LEASE_MS_DEFAULT};

use super::store::{PastCursors, Retention};

/// Where `serve` listens by default.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7878);

/// `shutdown_timeout` may be this long.
const SHUTDOWN_TIMEOUT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(300);
/// Sessions and requests that a limit may allow.
const SESSIONS: RangeInclusive<usize> = 1..=1_000_000;
/// Bytes that a batch may be limited to: a single report of the largest size fits the least.
const BATCH_BYTES: RangeInclusive<usize> = 1 << 20..=1 << 30;
/// The shortest age by which events may be removed from the log.
const RETAIN_AGE_MIN: Duration = Duration::from_secs(1);

/// Certificate chain and private key, both PEM. Read anew on SIGHUP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then its intermediates.
    pub cert: PathBuf,
    /// Its private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// How many at once. One more is answered with 429 or `RATE_LIMITED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Sessions of one subscription.
    pub sessions_per_subscription: usize,
    /// Sessions of one credential.
    pub sessions_per_credential: usize,
    /// Sessions in all.
    pub sessions: usize,
    /// HTTP requests of one credential that are being answered.
    pub requests_per_credential: usize,
    /// HTTP requests in all that are being answered.
    pub requests: usize,
    /// Bytes of one batch of reports.
    pub batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_per_subscription: 64,
            sessions_per_credential: 256,
            sessions: 10_000,
            requests_per_credential: 256,
            requests: 1_024,
            batch_bytes: 64 << 20,
        }
    }
}

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) lease_ms: u32,
    pub(crate) heartbeat_ms: u32,
    pub(crate) retention: Retention,
    pub(crate) limits: Limits,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) workers: usize,
}

impl ServerConfig {
    /// Starts with the defaults: loopback port 7878, the contract's lease and heartbeat, no retention.
    pub fn builder() -> ServerConfigBuilder {
        ServerConfigBuilder::default()
    }

    /// How long a lease lasts, in milliseconds.
    #[must_use]
    pub const fn lease_ms(&self) -> u32 {
        self.lease_ms
    }
}

/// Collects a configuration. See [`ServerConfig::builder`].
#[derive(Debug, Clone)]
#[must_use = "nothing is configured before `build`"]
pub struct ServerConfigBuilder {
    config: ServerConfig,
}

impl Default for ServerConfigBuilder {
    fn default() -> Self {
        let parallelism = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            config: ServerConfig {
                listen: LISTEN_DEFAULT,
                metrics_listen: None,
                lease_ms: LEASE_MS_DEFAULT,
                heartbeat_ms: HEARTBEAT_MS_DEFAULT,
                retention: Retention { max_age: None, max_events: None, past_cursors: PastCursors::Keep },
                limits: Limits::default(),
                shutdown_timeout: Duration::from_secs(10),
                tls: None,
                workers: parallelism.clamp(1, 64),
            },
        }
    }
}

impl ServerConfigBuilder {
    /// The address of the HTTP server; port 0 takes a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.config.listen = address;
        self
    }

    /// Moves `/metrics` to a plain listener of its own.
    pub fn metrics_listen(mut self, address: SocketAddr) -> Self {
        self.config.metrics_listen = Some(address);
        self
    }

    /// How long a lease lasts, in milliseconds: 1,000 to 30,000. Less than 30,000 is for development.
    pub fn lease_ms(mut self, milliseconds: u32) -> Self {
        self.config.lease_ms = milliseconds;
        self
    }

    /// How often clients ping, in milliseconds: 1,000 to 15,000. Less than 15,000 is for development.
    pub fn heartbeat_ms(mut self, milliseconds: u32) -> Self {
        self.config.heartbeat_ms = milliseconds;
        self
    }

    /// Removes events from the log that are older than this: at least a second. By default none is.
    pub fn retain_age(mut self, age: Duration) -> Self {
        self.config.retention.max_age = Some(age);
        self
    }

    /// Removes events from the log beyond the newest so many: at least one. By default none is.
    pub fn retain_count(mut self, events: u64) -> Self {
        self.config.retention.max_events = Some(events);
        self
    }

    /// Whether retention may pass a live subscription's cursor, which then meets `HISTORY_GAP`. By default it
    /// may not.
    pub fn retain_past_cursors(mut self, past: PastCursors) -> Self {
        self.config.retention.past_cursors = past;
        self
    }

    /// How many sessions and requests at once.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// How long a stop waits for running requests: up to 5 minutes, 10 s by default.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.config.shutdown_timeout = timeout;
        self
    }

    /// Serves TLS with these files.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.config.tls = Some(files);
        self
    }

    /// Threads that serve connections: 1 to 64, by default one for each processor.
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = workers;
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`ConfigError`], which names the first field that is out of its range.
    pub fn build(self) -> Result<ServerConfig, ConfigError> {
        let config = self.config;
        check("lease_ms", config.lease_ms, &LEASE_MS)?;
        check("heartbeat_ms", config.heartbeat_ms, &HEARTBEAT_MS)?;
        check("workers", config.workers, &(1..=64))?;
        check_limits(&config.limits)?;
        if !SHUTDOWN_TIMEOUT.contains(&config.shutdown_timeout) {
            return Err(ConfigError::new("shutdown_timeout", config.shutdown_timeout.as_millis(), "0 to 300000 ms"));
        }
        if let Some(age) = config.retention.max_age.filter(|age| *age < RETAIN_AGE_MIN) {
            return Err(ConfigError::new("retain_age", age.as_millis(), "at least 1000 ms"));
        }
        if config.retention.max_events == Some(0) {
            return Err(ConfigError::new("retain_count", 0, "at least 1"));
        }
        Ok(config)
    }
}

fn check_limits(limits: &Limits) -> Result<(), ConfigError> {
    check("sessions_per_subscription", limits.sessions_per_subscription, &SESSIONS)?;
    check("sessions_per_credential", limits.sessions_per_credential, &SESSIONS)?;
    check("sessions", limits.sessions, &SESSIONS)?;
    check("requests_per_credential", limits.requests_per_credential, &SESSIONS)?;
    check("requests", limits.requests, &SESSIONS)?;
    check("batch_bytes", limits.batch_bytes, &BATCH_BYTES)
}

fn check<T: PartialOrd + fmt::Display>(
    field: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(field, value, format!("{} to {}", range.start(), range.end())))
}

/// A value outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value} and must be {range}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The option's name.
    pub field: &'static str,
    /// What was given.
    pub value: String,
    /// What is allowed.
    pub range: String,
}

impl ConfigError {
    fn new(field: &'static str, value: impl fmt::Display, range: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), range: range.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(builder: ServerConfigBuilder) -> Option<&'static str> {
        builder.build().err().map(|error| error.field)
    }

    #[test]
    fn the_contract_s_figures_are_the_defaults() {
        let config = ServerConfig::builder().build().expect("the defaults are in range");
        assert_eq!((config.lease_ms, config.heartbeat_ms), (30_000, 15_000));
        assert_eq!(config.shutdown_timeout, Duration::from_secs(10));
        let limits = config.limits;
        assert_eq!(
            (limits.sessions_per_subscription, limits.sessions_per_credential, limits.sessions),
            (64, 256, 10_000)
        );
    }

    #[test]
    fn a_value_out_of_range_is_refused_by_its_name() {
        let new = ServerConfig::builder;
        assert_eq!(field(new().lease_ms(999)), Some("lease_ms"));
        assert_eq!(field(new().lease_ms(30_001)), Some("lease_ms"));
        assert_eq!(field(new().heartbeat_ms(15_001)), Some("heartbeat_ms"));
        assert_eq!(field(new().workers(0)), Some("workers"));
        assert_eq!(field(new().limits(Limits { sessions: 0, ..Limits::default() })), Some("sessions"));
        assert_eq!(field(new().shutdown_timeout(Duration::from_secs(301))), Some("shutdown_timeout"));
        assert_eq!(field(new().retain_count(0)), Some("retain_count"));
        assert_eq!(field(new().retain_age(Duration::from_millis(999))), Some("retain_age"));
    }

    #[test]
    fn an_error_says_what_is_allowed() {
        let error = ServerConfig::builder().lease_ms(999).build().expect_err("out of range");
        assert_eq!(error.to_string(), "lease_ms is 999 and must be 1000 to 30000");
    }
}
