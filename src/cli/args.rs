//! The commands and the options that all of them share.

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::completions::CompletionsArgs;
use super::consume::ConsumeArgs;
use super::credential::CredentialArgs;
use super::delivery::DeliveryArgs;
use super::demo::DemoArgs;
use super::doctor::DoctorArgs;
use super::generate::GenerateArgs;
use super::hold::HoldArgs;
use super::inbox::InboxArgs;
use super::logging::LogFormat;
use super::operation::OperationArgs;
use super::publish::PublishArgs;
use super::retention::RetentionArgs;
use super::serve::ServeArgs;
use super::subscription::SubscriptionArgs;

/// Durable result events: leased, applied once, acknowledged with a proof
#[derive(Debug, Parser)]
#[command(
    name = "perilune",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Settings come from flags, then PERILUNE_* variables, then the file of --config.\n\
                  Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the platform for good, 4 shutdown timeout, 130 a second SIGINT.\n\n\
                  Example:\n  perilune demo"
)]
pub(crate) struct Cli {
    /// A TOML file with settings
    #[arg(long, global = true, help_heading = "General", value_name = "PATH", env = "PERILUNE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// What to log on stderr: off, error, warn, info, debug, trace, or levels by target [default: warn; demo: error]
    #[arg(long, global = true, help_heading = "General", value_name = "FILTER", env = "PERILUNE_LOG")]
    pub(crate) log: Option<String>,
    /// What the logs look like
    #[arg(
        long,
        global = true,
        help_heading = "General",
        value_name = "FORMAT",
        env = "PERILUNE_LOG_FORMAT",
        default_value = "text"
    )]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Demo(DemoArgs),
    Serve(Box<ServeArgs>),
    Credential(CredentialArgs),
    Subscription(SubscriptionArgs),
    Delivery(DeliveryArgs),
    Publish(Box<PublishArgs>),
    Consume(Box<ConsumeArgs>),
    Operation(Box<OperationArgs>),
    Hold(HoldArgs),
    Retention(RetentionArgs),
    Inbox(Box<InboxArgs>),
    Generate(GenerateArgs),
    Doctor(Box<DoctorArgs>),
    Completions(CompletionsArgs),
}

impl CliCommand {
    /// What is logged where nobody says.
    pub(crate) const fn default_log(&self) -> &'static str {
        match self {
            // Its faults are its show.
            Self::Demo(_) => "error",
            _ => "warn",
        }
    }
}

/// The parser, before any configuration.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Reads the arguments with a parser that [`command`] made.
///
/// # Errors
/// What clap says: a usage error, or the help or version that was asked for.
pub(crate) fn parse(command: clap::Command, arguments: &[std::ffi::OsString]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command and all below it, groups of commands too.
    fn all(command: &clap::Command, found: &mut Vec<clap::Command>) {
        found.push(command.clone());
        command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(|sub| all(sub, found));
    }

    #[test]
    fn the_commands_are_put_together_soundly() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        let mut found = Vec::new();
        all(&command(), &mut found);
        assert!(found.len() > 30, "{}", found.len());
        for command in found {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example:\n  perilune "), "{} has no example", command.get_name());
        }
    }
}
