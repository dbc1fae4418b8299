//! Whole systems: the real binary, real sockets, real databases.

mod cli_config;
mod cli_consume_usage;
mod cli_process;
mod cli_usage;
