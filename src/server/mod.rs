//! The server that speaks the contract.

mod config;
mod connection;
mod problem;
mod request;
mod socket;
pub mod store;
mod tls;

pub use config::{ConfigError, Limits, ServerConfig, ServerConfigBuilder, TlsFiles};
pub use tls::TlsError;
