//! The server that speaks the contract.

mod auth;
mod backlog;
mod config;
mod connection;
mod dispatcher;
mod gate;
mod keep;
mod lanes;
mod listener;
mod metrics;
mod openapi;
mod problem;
mod request;
mod routes;
mod run;
mod session;
mod socket;
mod state;
pub mod store;
mod sweeper;
mod tls;

pub use config::{ConfigError, Limits, ServerConfig, ServerConfigBuilder, TlsFiles};
pub use run::{RunningServer, Server, StartError, Stopped};
pub use tls::TlsError;
