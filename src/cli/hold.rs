//! `hold`: keep an operation from being purged.

use perilune_proto::scalar::Timestamp;
use serde::Serialize;

use super::application_database::{ApplicationDatabaseArgs, ApplicationOperations, on_any_engine};
use super::exit::{Failure, Outcome};
use super::output::OutputArgs;
use super::wall_clock::now;
use crate::outcome::OperationId;
use crate::outcome::retention::{Hold, HoldCategory, HoldId, PlaceHold, RetentionError, TenantScope};

/// Keep operations from being purged
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune hold list --database sqlite:shop.db --operation 0123456789abcdef0123456789abcdef"
)]
pub(crate) struct HoldArgs {
    #[command(subcommand)]
    command: HoldCommand,
}

#[derive(Debug, clap::Subcommand)]
enum HoldCommand {
    Place(PlaceArgs),
    Release(ReleaseArgs),
    List(ListArgs),
}

/// Hold an operation: nothing of it is purged until every hold on it is released
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune hold place --database sqlite:shop.db --operation 0123456789abcdef0123456789abcdef --category legal --reason \"case 7\" --actor counsel"
)]
struct PlaceArgs {
    /// The operation
    #[arg(long, value_name = "ID")]
    operation: OperationId,
    /// Why: legal, security, audit, support or other
    #[arg(long, value_name = "CATEGORY")]
    category: HoldCategory,
    /// Why, in words
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who holds it
    #[arg(long, value_name = "NAME", env = "PERILUNE_ACTOR")]
    actor: String,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: ApplicationDatabaseArgs,
}

/// Release a hold; its history stays
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune hold release --database sqlite:shop.db --hold 0123456789abcdef0123456789abcdef --actor counsel"
)]
struct ReleaseArgs {
    /// The hold
    #[arg(long, value_name = "ID")]
    hold: HoldId,
    /// Who releases it
    #[arg(long, value_name = "NAME", env = "PERILUNE_ACTOR")]
    actor: String,
    #[command(flatten)]
    database: ApplicationDatabaseArgs,
}

/// List an operation's holds, released ones too
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune hold list --database sqlite:shop.db --operation 0123456789abcdef0123456789abcdef"
)]
struct ListArgs {
    /// The operation
    #[arg(long, value_name = "ID")]
    operation: OperationId,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: ApplicationDatabaseArgs,
}

#[derive(Serialize)]
struct Shown {
    hold_id: String,
    operation_id: String,
    category: &'static str,
    reason: String,
    placed_by: String,
    placed_at: Timestamp,
    released_by: Option<String>,
    released_at: Option<Timestamp>,
}

impl From<Hold> for Shown {
    fn from(hold: Hold) -> Self {
        let (released_by, released_at) = hold.released.unzip();
        Self {
            hold_id: hold.hold_id.to_string(),
            operation_id: hold.operation_id.to_string(),
            category: hold.category.as_str(),
            reason: hold.reason,
            placed_by: hold.placed_by,
            placed_at: hold.placed_at,
            released_by,
            released_at,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Usage errors for texts that are out of range; one sentence for anything else.
pub(crate) async fn run(args: HoldArgs) -> Outcome {
    match args.command {
        HoldCommand::Place(args) => place(args).await,
        HoldCommand::Release(args) => {
            let operations = args.database.open().await?;
            let every = TenantScope::Every;
            let released = on_any_engine!(operations, operations => operations.release_hold(&every, args.hold, &args.actor, now()).await);
            released.map_err(failure)
        }
        HoldCommand::List(args) => {
            let operations = args.database.open().await?;
            let shown = list(&operations, args.operation).await?;
            let columns = ["hold", "category", "reason", "placed by", "placed at", "released by", "released at"];
            args.output.list(&columns, &shown, |hold| {
                vec![
                    hold.hold_id.clone(),
                    hold.category.to_owned(),
                    hold.reason.clone(),
                    hold.placed_by.clone(),
                    hold.placed_at.to_string(),
                    hold.released_by.clone().unwrap_or_default(),
                    hold.released_at.map(|at| at.to_string()).unwrap_or_default(),
                ]
            })
        }
    }
}

async fn place(args: PlaceArgs) -> Outcome {
    let operations = args.database.open().await?;
    let hold = PlaceHold {
        operation_id: args.operation,
        category: args.category,
        reason: args.reason,
        actor: args.actor,
        now: now(),
    };
    let every = TenantScope::Every;
    let placed = on_any_engine!(operations, operations => operations.place_hold(&every, &hold).await);
    let hold_id = placed.map_err(failure)?;
    let shown = list(&operations, args.operation).await?;
    let Some(placed) = shown.into_iter().find(|shown| shown.hold_id == hold_id.to_string()) else {
        return Err(Failure::failed("the hold was placed and is gone already"));
    };
    let fields = [("hold", placed.hold_id.clone()), ("operation", placed.operation_id.clone())];
    args.output.object(&placed, &fields)
}

async fn list(operations: &ApplicationOperations, operation: OperationId) -> Outcome<Vec<Shown>> {
    let listed = on_any_engine!(operations, operations => operations.holds(&TenantScope::Every, operation).await);
    Ok(listed.map_err(failure)?.into_iter().map(Shown::from).collect())
}

fn failure(error: RetentionError) -> Failure {
    match error {
        RetentionError::Text { field, allowed } => Failure::usage(format!("--{field} must be {allowed}")),
        other => Failure::Failed(anyhow::Error::new(other)),
    }
}
