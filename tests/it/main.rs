//! Whole systems: the real binary, real sockets, real databases.

mod cli_config;
mod cli_consume;
mod cli_consume_usage;
mod cli_demo;
mod cli_disk;
mod cli_forward;
mod cli_inbox;
mod cli_platform;
mod cli_process;
mod cli_publish;
mod cli_serve;
mod cli_tls;
mod cli_usage;
mod http_auth;
mod http_batch;
mod http_harness;
mod http_operating;
mod http_report;
mod http_routing;
mod http_subscription;
mod http_tls;
mod session_client;
mod session_deliveries;
mod session_ends;
mod session_frames;
mod session_handshake;
