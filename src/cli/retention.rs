//! `retention`: what would be purged, purging it, and proving that no audit record is missing.

use std::time::Duration;

use perilune_proto::scalar::Timestamp;
use serde::Serialize;

use super::application_database::{ApplicationDatabaseArgs, on_any_engine};
use super::duration;
use super::exit::{Failure, Outcome};
use super::output::{OutputArgs, print_text};
use super::wall_clock::now;
use crate::outcome::retention::{
    AuditVerification, PLAN_LISTED_MAX, PurgeOrder, RetentionError, RetentionPlan, RetentionPolicy, TargetPlan,
};

/// How many removals of a target a plan lists one by one.
const LISTED_MAX: usize = 20;

/// See and purge what has been kept long enough
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune retention verify --database sqlite:shop.db")]
pub(crate) struct RetentionArgs {
    #[command(subcommand)]
    command: RetentionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RetentionCommand {
    Plan(PlanArgs),
    Purge(PurgeArgs),
    Verify(VerifyArgs),
}

/// How long each part of an ended operation is kept. There is no default.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Policy")]
struct PolicyArgs {
    /// Keep input payloads this long after the operation ended
    #[arg(long, value_name = "DURATION", env = "PERILUNE_RETAIN_INPUT", value_parser = duration::parse)]
    input: Duration,
    /// Keep the journal this long
    #[arg(long, value_name = "DURATION", env = "PERILUNE_RETAIN_JOURNAL", value_parser = duration::parse)]
    journal: Duration,
    /// Keep outcomes this long
    #[arg(long, value_name = "DURATION", env = "PERILUNE_RETAIN_OUTCOME", value_parser = duration::parse)]
    outcome: Duration,
    /// Keep dead-letter reasons this long
    #[arg(long, value_name = "DURATION", env = "PERILUNE_RETAIN_DEAD_LETTER", value_parser = duration::parse)]
    dead_letter: Duration,
}

impl PolicyArgs {
    fn policy(&self) -> Outcome<RetentionPolicy> {
        let builder = RetentionPolicy::builder().input(self.input).journal(self.journal);
        let built = builder.outcome(self.outcome).dead_letter(self.dead_letter).build();
        built.map_err(|error| Failure::usage(error.to_string()))
    }
}

/// Show what a purge would remove and why; change nothing
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune retention plan --database sqlite:shop.db --input 30d --journal 365d --outcome 90d --dead-letter 90d"
)]
struct PlanArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: ApplicationDatabaseArgs,
}

/// Purge what is due. Without --confirm it only shows the plan
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune retention purge --database sqlite:shop.db --input 30d --journal 365d --outcome 90d --dead-letter 90d --confirm --policy-ref privacy-2026 --actor ops"
)]
struct PurgeArgs {
    /// Really purge
    #[arg(long, requires_all = ["policy_ref", "actor"])]
    confirm: bool,
    /// The policy by which it goes, for the audit
    #[arg(long, value_name = "TEXT")]
    policy_ref: Option<String>,
    /// Who orders it, for the audit
    #[arg(long, value_name = "NAME", env = "PERILUNE_ACTOR")]
    actor: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: ApplicationDatabaseArgs,
}

/// Prove that no audit record is missing or was changed
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune retention verify --database sqlite:shop.db")]
struct VerifyArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    database: ApplicationDatabaseArgs,
}

/// Runs the command.
///
/// # Errors
/// Usage errors for texts and periods that are out of range; a broken audit chain; one sentence for anything else.
pub(crate) async fn run(args: RetentionArgs) -> Outcome {
    match args.command {
        RetentionCommand::Plan(args) => plan(&args.policy, args.output, &args.database).await,
        RetentionCommand::Purge(args) => match (args.confirm, args.policy_ref, args.actor) {
            (true, Some(policy_ref), Some(actor)) => {
                let order = PurgeOrder { policy_ref, actor, now: now() };
                purge(&args.policy, &order, args.output, &args.database).await
            }
            _ => {
                plan(&args.policy, args.output, &args.database).await?;
                super::stderr::tell("nothing was purged; give --confirm --policy-ref --actor to purge");
                Ok(())
            }
        },
        RetentionCommand::Verify(args) => verify(args).await,
    }
}

#[derive(Serialize)]
struct ShownPlan<'a> {
    now: Timestamp,
    targets: Vec<ShownTarget<'a>>,
}

#[derive(Serialize)]
struct ShownTarget<'a> {
    target: &'static str,
    cutoff: Timestamp,
    due: u64,
    held: u64,
    oldest: Option<Timestamp>,
    removals: Vec<ShownRemoval<'a>>,
}

#[derive(Serialize)]
struct ShownRemoval<'a> {
    operation_id: String,
    operation_type: &'a str,
    tenant: Option<&'a str>,
    completed_at: Timestamp,
    reason: &'a str,
}

async fn plan(policy: &PolicyArgs, output: OutputArgs, database: &ApplicationDatabaseArgs) -> Outcome {
    let policy = policy.policy()?;
    let operations = database.open().await?;
    let planned = on_any_engine!(operations, operations => operations.plan(&policy, now()).await);
    let plan: RetentionPlan = planned.map_err(failure)?;
    if output.json {
        let shown = ShownPlan { now: plan.now, targets: plan.targets.iter().map(shown_target).collect() };
        return output.object(&shown, &[]);
    }
    let targets = plan.targets.iter().map(shown_target).collect::<Vec<_>>();
    let columns = ["target", "due", "held", "ended before", "oldest"];
    output.list(&columns, &targets, |target| {
        vec![
            target.target.to_owned(),
            target.due.to_string(),
            target.held.to_string(),
            target.cutoff.to_string(),
            target.oldest.map(|oldest| oldest.to_string()).unwrap_or_default(),
        ]
    })?;
    list_removals(output, &targets)
}

/// Lists what would go and why, the first of each target, and says how many more there are.
fn list_removals(output: OutputArgs, targets: &[ShownTarget<'_>]) -> Outcome {
    let (rows, more) = listing(targets);
    if rows.is_empty() {
        return Ok(());
    }
    print_text("")?;
    output.list(&["target", "operation", "type", "tenant", "reason"], &rows, Vec::clone)?;
    more.iter().try_for_each(|line| print_text(line))
}

/// A row for each of the first removals of a target, and a line for each target that has more.
fn listing(targets: &[ShownTarget<'_>]) -> (Vec<Vec<String>>, Vec<String>) {
    let (mut rows, mut more) = (Vec::new(), Vec::new());
    for target in targets {
        let listed = target.removals.iter().take(LISTED_MAX).map(|removal| {
            let tenant = removal.tenant.unwrap_or("-");
            [target.target, &removal.operation_id, removal.operation_type, tenant, removal.reason]
                .map(str::to_owned)
                .to_vec()
        });
        rows.extend(listed);
        let left = target.due.saturating_sub(target.removals.len().min(LISTED_MAX) as u64);
        if left > 0 {
            more.push(format!("and {left} more of {}; --json lists the first {PLAN_LISTED_MAX}", target.target));
        }
    }
    (rows, more)
}

fn shown_target(plan: &TargetPlan) -> ShownTarget<'_> {
    let removals = plan.removals.iter().map(|removal| ShownRemoval {
        operation_id: removal.operation_id.to_string(),
        operation_type: &removal.operation_type,
        tenant: removal.tenant.as_deref(),
        completed_at: removal.completed_at,
        reason: &removal.reason,
    });
    ShownTarget {
        target: plan.target.as_str(),
        cutoff: plan.cutoff,
        due: plan.due,
        held: plan.held,
        oldest: plan.oldest,
        removals: removals.collect(),
    }
}

#[derive(Serialize)]
struct ShownPurge {
    inputs_deleted: u64,
    journal_records_deleted: u64,
    outcomes_deleted: u64,
    dead_letters_deleted: u64,
    audit_records: u64,
}

async fn purge(
    policy: &PolicyArgs,
    order: &PurgeOrder,
    output: OutputArgs,
    database: &ApplicationDatabaseArgs,
) -> Outcome {
    let policy = policy.policy()?;
    let operations = database.open().await?;
    let purged = on_any_engine!(operations, operations => operations.purge(&policy, order).await).map_err(failure)?;
    let shown = ShownPurge {
        inputs_deleted: purged.inputs_deleted,
        journal_records_deleted: purged.journal_records_deleted,
        outcomes_deleted: purged.outcomes_deleted,
        dead_letters_deleted: purged.dead_letters_deleted,
        audit_records: purged.audit_records,
    };
    let fields = [
        ("inputs deleted", shown.inputs_deleted.to_string()),
        ("journal records deleted", shown.journal_records_deleted.to_string()),
        ("outcomes deleted", shown.outcomes_deleted.to_string()),
        ("dead letters deleted", shown.dead_letters_deleted.to_string()),
        ("audit records", shown.audit_records.to_string()),
    ];
    output.object(&shown, &fields)
}

#[derive(Serialize)]
struct ShownVerification {
    intact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_at: Option<u64>,
}

async fn verify(args: VerifyArgs) -> Outcome {
    let operations = args.database.open().await?;
    let verified = on_any_engine!(operations, operations => operations.verify_audit().await).map_err(failure)?;
    match verified {
        AuditVerification::Intact { records } => {
            let shown = ShownVerification { intact: true, records: Some(records), broken_at: None };
            args.output.object(&shown, &[("intact", "yes".to_owned()), ("records", records.to_string())])
        }
        AuditVerification::Broken { sequence } => {
            if args.output.json {
                let shown = ShownVerification { intact: false, records: None, broken_at: Some(sequence) };
                args.output.object(&shown, &[])?;
            }
            Err(Failure::failed(format!("audit record {sequence} is missing or was changed")))
        }
    }
}

fn failure(error: RetentionError) -> Failure {
    match error {
        RetentionError::Text { field, allowed } => {
            Failure::usage(format!("--{} must be {allowed}", field.replace('_', "-")))
        }
        other => Failure::Failed(anyhow::Error::new(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_lists_what_would_go_and_why_up_to_a_bound_and_says_how_many_more() {
        let now = now();
        let target = |due: u64, shown: usize| ShownTarget {
            target: "outcome",
            cutoff: now,
            due,
            held: 0,
            oldest: None,
            removals: (0..shown)
                .map(|number| ShownRemoval {
                    operation_id: format!("{number:032x}"),
                    operation_type: "GenerateReport",
                    tenant: (number == 0).then_some("acme"),
                    completed_at: now,
                    reason: "ended long ago",
                })
                .collect(),
        };
        let (rows, more) = listing(&[target(2, 2)]);
        let first = ["outcome", "00000000000000000000000000000000", "GenerateReport", "acme", "ended long ago"];
        assert_eq!((rows.len(), more.len()), (2, 0));
        assert_eq!(rows[0], first);
        assert_eq!(rows[1][3], "-");
        let (rows, more) = listing(&[target(0, 0), target(5_000, 1_000)]);
        assert_eq!(rows.len(), LISTED_MAX);
        assert_eq!(more, ["and 4980 more of outcome; --json lists the first 1000"]);
    }
}
