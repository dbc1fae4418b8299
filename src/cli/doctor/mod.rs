//! `doctor`: looks at everything that a consumer needs, changes nothing, and says what to do.

mod database;
mod finding;
mod platform;

use perilune_proto::scalar::SubscriptionId;

use super::connect::ConnectArgs;
use super::discreet::Discreet;
use super::exit::{Failure, Outcome};
use super::output::OutputArgs;
use crate::sql::DatabaseUrl;
use finding::{Finding, State};

/// Check URL, TLS, credential, clock, subscription and database, and say what to do
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It changes nothing. The exit code is 1 when something must be mended before events can flow.

Example:
  perilune doctor --subscription 0123456789abcdef0123456789abcdef --database sqlite:perilune.db")]
pub(crate) struct DoctorArgs {
    /// A subscription to look at
    #[arg(long, value_name = "ID", env = "PERILUNE_SUBSCRIPTION")]
    subscription: Option<SubscriptionId>,
    /// The server's database, where this is its host
    #[arg(
        long,
        value_name = "DATABASE_URL",
        env = "PERILUNE_DATABASE",
        hide_env_values = true,
        value_parser = Discreet::<DatabaseUrl>::new()
    )]
    database: Option<DatabaseUrl>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(args: DoctorArgs) -> Outcome {
    let mut findings = platform::examine(&args.connect, args.subscription).await;
    match &args.database {
        Some(database) => findings.extend(database::examine(database).await),
        None => findings.push(Finding::skipped("database", "no --database was given")),
    }
    args.output.list(&finding::COLUMNS, &findings, Finding::cells)?;
    match findings.iter().filter(|finding| finding.state == State::Failed).count() {
        0 => Ok(()),
        failed => Err(Failure::failed(format!("{failed} of {} checks failed", findings.len()))),
    }
}
