//! `consume`: events from the platform to a handler outside this process.
//!
//! | file | what |
//! | --- | --- |
//! | `run` | the consumer from start to end |
//! | `worker` | one event: memory, sink |
//! | `print`, `exec`, `forward` | the three sinks |
//! | `memory` | `--inbox`: what was handled before |
//! | `notices` | `--notices` |

mod event_json;
mod exec;
mod forward;
mod memory;
mod notices;
mod print;
mod run;
mod sink;
mod webhook;
mod worker;

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use perilune_proto::limits::{CAPACITY, RECONNECT_MAX_DELAY_MAX, RECONNECT_MIN_DELAY_MIN, SHUTDOWN_TIMEOUT};
use perilune_proto::scalar::{Name, SubscriptionId};

use super::connect::ConnectArgs;
use super::discreet::Discreet;
use super::duration;
use crate::sql::DatabaseUrl;

pub(crate) use run::run;

/// Hand the events of a subscription to a command, a URL or stdout
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("sink").required(true).args(["print", "exec", "forward_to"]),
    after_help = "\
Exactly one of --print, --exec and --forward-to says what is done with an event. An event is acknowledged when that
went well; otherwise the platform delivers it again. SIGINT, SIGTERM and SIGHUP end it in an orderly way.

Example:
  perilune consume --subscription 0123456789abcdef0123456789abcdef --exec 'jq .snapshot.result >> results.ndjson'
  perilune consume --subscription 0123456789abcdef0123456789abcdef --print --max-events 1
  perilune consume --subscription 0123456789abcdef0123456789abcdef --forward-to https://app.example/webhooks"
)]
pub(crate) struct ConsumeArgs {
    /// The subscription
    #[arg(long, value_name = "ID", env = "PERILUNE_SUBSCRIPTION")]
    subscription: SubscriptionId,
    /// How many events are handled at once: 1 to 32
    #[arg(
        long,
        value_name = "N",
        env = "PERILUNE_CAPACITY",
        default_value = "4",
        value_parser = clap::value_parser!(u8).range(i64::from(*CAPACITY.start())..=i64::from(*CAPACITY.end()))
    )]
    capacity: u8,
    /// Write each event to stdout, one line of JSON
    #[arg(long)]
    print: bool,
    /// Run this command by the shell for each event, with its JSON on stdin; exit 0 is success
    #[arg(long, value_name = "COMMAND", value_parser = OsStringValueParser::new().try_map(not_blank))]
    exec: Option<OsString>,
    /// POST each event's JSON to this URL, signed where PERILUNE_WEBHOOK_SECRET is set; 2xx is success
    #[arg(long, value_name = "URL", value_parser = Discreet::<forward::Target>::new())]
    forward_to: Option<forward::Target>,
    /// Remember handled events in this database, so that none is handled again after a restart
    #[arg(
        long,
        value_name = "DATABASE_URL",
        env = "PERILUNE_INBOX",
        hide_env_values = true,
        value_parser = Discreet::<DatabaseUrl>::new()
    )]
    inbox: Option<DatabaseUrl>,
    /// Whose events they are in the inbox
    #[arg(long, value_name = "NAME", env = "PERILUNE_CONSUMER")]
    consumer: Option<Name>,
    /// Write what happens as JSON lines to stderr
    #[arg(
        long,
        env = "PERILUNE_NOTICES",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    notices: bool,
    /// Stop after so many acknowledged events
    #[arg(long, value_name = "N")]
    max_events: Option<NonZeroU64>,
    /// How long a stop waits for what runs: 1ms to 5m
    #[arg(
        long,
        value_name = "DURATION",
        env = "PERILUNE_SHUTDOWN_TIMEOUT",
        default_value = "30s",
        value_parser = duration::within(SHUTDOWN_TIMEOUT)
    )]
    shutdown_timeout: Duration,
    /// The first wait before reconnecting: 10ms or more
    #[arg(
        long,
        value_name = "DURATION",
        env = "PERILUNE_RECONNECT_MIN_DELAY",
        default_value = "200ms",
        value_parser = duration::within(RECONNECT_MIN_DELAY_MIN..=RECONNECT_MAX_DELAY_MAX)
    )]
    reconnect_min_delay: Duration,
    /// The longest wait before reconnecting: at least the first, at most 30s
    #[arg(
        long,
        value_name = "DURATION",
        env = "PERILUNE_RECONNECT_MAX_DELAY",
        default_value = "5s",
        value_parser = duration::within(RECONNECT_MIN_DELAY_MIN..=RECONNECT_MAX_DELAY_MAX)
    )]
    reconnect_max_delay: Duration,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The shell runs a blank command with success, so that it would acknowledge everything and handle nothing.
fn not_blank(command: OsString) -> Result<OsString, &'static str> {
    let blank = command.as_encoded_bytes().iter().all(u8::is_ascii_whitespace);
    if blank { Err("must be a command, not blank") } else { Ok(command) }
}
