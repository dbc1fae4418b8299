//! `operation`: how an operation stands, asked of the application's status resource.

use std::time::Duration;

use perilune_client::{OperationStatus, StatusError};
use perilune_proto::scalar::TaskId;
use serde::Serialize;
use serde_json::value::RawValue;

use super::connect::ConnectArgs;
use super::duration;
use super::exit::{Failure, Left, Outcome};
use super::output::OutputArgs;

/// Ask an application how an operation stands
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune operation status 0123456789abcdef0123456789abcdef --url https://shop.example/api"
)]
pub(crate) struct OperationArgs {
    #[command(subcommand)]
    command: OperationCommand,
}

#[derive(Debug, clap::Subcommand)]
enum OperationCommand {
    Status(StatusArgs),
    Wait(WaitArgs),
}

/// Ask once
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune operation status 0123456789abcdef0123456789abcdef --url https://shop.example/api"
)]
struct StatusArgs {
    /// The operation
    #[arg(value_name = "ID")]
    operation: TaskId,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Ask until the operation has ended
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune operation wait 0123456789abcdef0123456789abcdef --max-wait 10m --url https://shop.example/api"
)]
struct WaitArgs {
    /// The operation
    #[arg(value_name = "ID")]
    operation: TaskId,
    /// Give up after this long
    #[arg(long, value_name = "DURATION", env = "PERILUNE_MAX_WAIT", default_value = "5m", value_parser = duration::parse)]
    max_wait: Duration,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
///
/// # Errors
/// Exit code 3 with the application's code where it refuses for good (401, 404, 410), 1 otherwise.
pub(crate) async fn run(args: OperationArgs) -> Outcome {
    match args.command {
        OperationCommand::Status(args) => {
            let client = args.connect.client()?;
            let answer = client.operation_status::<Box<RawValue>>(args.operation, None).await.map_err(failure)?;
            print(args.output, args.operation, &answer.status, answer.retry_after)
        }
        OperationCommand::Wait(args) => {
            let client = args.connect.client()?;
            let ended = client.wait_operation::<Box<RawValue>>(args.operation, None, args.max_wait).await;
            print(args.output, args.operation, &ended.map_err(failure)?, None)
        }
    }
}

#[derive(Serialize, Default)]
struct Shown<'a> {
    operation_id: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    review_required: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
}

fn print(
    output: OutputArgs,
    operation: TaskId,
    status: &OperationStatus<Box<RawValue>>,
    retry_after: Option<Duration>,
) -> Outcome {
    let mut shown = Shown {
        operation_id: operation.to_string(),
        retry_after_seconds: retry_after.map(|after| after.as_secs()),
        ..Shown::default()
    };
    match status {
        OperationStatus::Accepted => shown.state = "accepted",
        OperationStatus::Running { attempt, review_required } => {
            shown.state = "running";
            (shown.attempt, shown.review_required) = (Some(*attempt), Some(*review_required));
        }
        OperationStatus::RetryScheduled { attempt, retry_at } => {
            shown.state = "retry_scheduled";
            (shown.attempt, shown.retry_at) = (Some(*attempt), retry_at.map(|at| at.to_string()));
        }
        OperationStatus::Completed(outcome) => {
            shown.state = "completed";
            shown.outcome = Some(outcome);
        }
        OperationStatus::Rejected { category, code } => {
            shown.state = "rejected";
            (shown.category, shown.code) = (Some(category.as_str()), Some(code.as_str()));
        }
        OperationStatus::Failed => shown.state = "failed",
        OperationStatus::DeadLettered => shown.state = "dead_lettered",
        _ => shown.state = "unknown",
    }
    let mut fields = vec![("operation", shown.operation_id.clone()), ("state", shown.state.to_owned())];
    fields.extend(shown.attempt.map(|attempt| ("attempt", attempt.to_string())));
    fields.extend(shown.review_required.map(|required| ("review required", required.to_string())));
    fields.extend(shown.retry_at.clone().map(|at| ("retry at", at)));
    fields.extend(shown.outcome.map(|outcome| ("outcome", outcome.get().to_owned())));
    fields.extend(shown.category.map(|category| ("category", category.to_owned())));
    fields.extend(shown.code.map(|code| ("code", code.to_owned())));
    fields.extend(shown.retry_after_seconds.map(|seconds| ("ask again in", format!("{seconds}s"))));
    output.object(&shown, &fields)
}

fn failure(error: StatusError) -> Failure {
    let code = match error {
        StatusError::Authentication => "UNAUTHENTICATED",
        StatusError::Unavailable => "OPERATION_UNAVAILABLE",
        StatusError::Expired => "OPERATION_EXPIRED",
        other => return Failure::Failed(anyhow::Error::new(other)),
    };
    Failure::Permanent { code: code.to_owned(), reason: error.to_string(), left: Left::default() }
}
