//! `publish`: reports results, one by flags or many from NDJSON.

pub(super) mod batch;
mod line;
mod ndjson;
mod reader;
mod single;

use std::time::Duration;

use perilune_proto::Status;
use perilune_proto::scalar::{Name, TaskId};

use super::connect::ConnectArgs;
use super::duration;
use super::exit::Outcome;
use super::output::OutputArgs;

/// Report results
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --ndjson, each line is a report: {\"queue\",\"task_id\",\"operation\",\"status\",\"payload\",\"result\",\"error\"}.\n\
--queue, --operation and --status fill in what a line leaves out; a line without `task_id` gets a task of its own.\n\
Every line has an idempotency key, its own `idempotency_key` or one that is made of its number and content,\n\
so that the same file can be published again after an interruption (within 24 h) and nothing is reported twice.\n\n\
Example:
  perilune publish --queue reports --operation GenerateReport --status succeeded --result report.json
  perilune publish --ndjson results.ndjson
  generate-results | perilune publish --ndjson - --queue reports --operation GenerateReport --status succeeded"
)]
pub(crate) struct PublishArgs {
    /// The task's queue
    #[arg(long, value_name = "QUEUE", required_unless_present = "ndjson")]
    queue: Option<Name>,
    /// What the task does, such as GenerateReport
    #[arg(long, value_name = "OPERATION", required_unless_present = "ndjson")]
    operation: Option<Name>,
    /// How the task stands: accepted, started, retry_scheduled, succeeded, rejected, failed, dead_lettered or needs_review
    #[arg(long, value_name = "STATUS", required_unless_present = "ndjson")]
    status: Option<Status>,
    #[command(flatten)]
    single: single::SingleArgs,
    /// Report every line of this file, or of stdin with `-`
    #[arg(long, value_name = "FILE")]
    ndjson: Option<String>,
    /// How long to try again while the platform can't be reached or is busy
    #[arg(long, value_name = "DURATION", env = "PERILUNE_RETRY_FOR", default_value = "60s", value_parser = duration::parse)]
    retry_for: Duration,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What is reported about a task whatever its data: given by flags, or by a line.
#[derive(Debug, Clone, Default)]
struct Defaults {
    queue: Option<Name>,
    operation: Option<Name>,
    status: Option<Status>,
}

pub(crate) async fn run(args: PublishArgs) -> Outcome {
    match &args.ndjson {
        Some(file) => ndjson::run(&args, file).await,
        None => single::run(&args).await,
    }
}

/// A fresh id for a task: a UUIDv7, so that ids sort by the time they were made.
pub(super) fn fresh_task_id() -> TaskId {
    TaskId::from_u128(uuid::Uuid::now_v7().as_u128())
}
