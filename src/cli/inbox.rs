//! `inbox`: what an inbox holds, and whether the platform agrees.

mod reconcile;

use std::time::{Duration, SystemTime};

use perilune_proto::scalar::{EventId, Name, Timestamp};
use serde::Serialize;

use super::discreet::Discreet;
use super::duration;
use super::exit::{Failure, Outcome};
use super::output::{OutputArgs, print_text};
use crate::inbox::inspect::{self, InboxRow};
use crate::inbox::{Inbox, InboxOptions, Pruned, PruningPolicy, Schema, Store};
use crate::sql::{DatabaseUrl, TablePrefix};

/// See, prune and reconcile an inbox
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune inbox show --inbox sqlite:shop.db --consumer billing")]
pub(crate) struct InboxArgs {
    #[command(subcommand)]
    command: InboxCommand,
}

#[derive(Debug, clap::Subcommand)]
enum InboxCommand {
    Show(ShowArgs),
    Prune(PruneArgs),
    Reconcile(reconcile::ReconcileArgs),
}

/// Which inbox.
#[derive(Debug, Clone, clap::Args)]
struct WhichArgs {
    /// The database that the inbox is in: sqlite:FILE, postgres://… or mysql://…
    #[arg(
        long,
        value_name = "DATABASE_URL",
        env = "PERILUNE_INBOX",
        hide_env_values = true,
        value_parser = Discreet::<DatabaseUrl>::new()
    )]
    inbox: DatabaseUrl,
    /// Whose events
    #[arg(long, value_name = "NAME", env = "PERILUNE_CONSUMER")]
    consumer: Name,
    /// What the tables' names begin with
    #[arg(long, value_name = "PREFIX", env = "PERILUNE_TABLE_PREFIX", default_value = "perilune_")]
    table_prefix: TablePrefix,
}

/// When settled rows go.
#[derive(Debug, Clone, Copy, clap::Args)]
struct PolicyArgs {
    /// How long rows are kept after their acknowledgement
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = duration::parse)]
    retention: Duration,
    /// How long after its confirmation an event may come again: the log's retention where subscriptions are sought back
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration::parse)]
    horizon: Duration,
}

impl PolicyArgs {
    fn policy(self) -> Outcome<PruningPolicy> {
        PruningPolicy::new(self.retention, self.horizon).map_err(|error| Failure::usage(format!("--{error}")))
    }
}

/// Count an inbox's rows, and list them
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune inbox show --inbox sqlite:shop.db --consumer billing --rows 20")]
struct ShowArgs {
    /// List so many rows instead of counting
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(inspect::PAGE_MAX)))]
    rows: Option<u32>,
    /// Begin behind this event
    #[arg(long, value_name = "EVENT", requires = "rows")]
    after: Option<EventId>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    which: WhichArgs,
}

/// Delete rows of events that can't come again
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune inbox prune --inbox sqlite:shop.db --consumer billing --retention 30d")]
struct PruneArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    which: WhichArgs,
}

/// Runs an expression on the inbox, whatever its engine.
macro_rules! on_inbox {
    ($which:expr, $inbox:ident => $run:expr) => {
        match $which.inbox {
            #[cfg(feature = "sqlite")]
            DatabaseUrl::Sqlite(_) => {
                let $inbox = open::<sqlx::Sqlite>($which).await?;
                $run
            }
            #[cfg(feature = "postgres")]
            DatabaseUrl::Postgres(_) => {
                let $inbox = open::<sqlx::Postgres>($which).await?;
                $run
            }
            #[cfg(feature = "mysql")]
            DatabaseUrl::MySql(_) => {
                let $inbox = open::<sqlx::MySql>($which).await?;
                $run
            }
        }
    };
}

use on_inbox;

pub(crate) async fn run(args: InboxArgs) -> Outcome {
    match args.command {
        InboxCommand::Show(args) => show(&args).await,
        InboxCommand::Prune(args) => {
            let policy = args.policy.policy()?;
            let pruned = on_inbox!(&args.which, inbox => inbox.prune(&policy).await);
            match pruned.map_err(|error| Failure::Failed(error.into()))? {
                Pruned::Rows(rows) => print_text(&format!("pruned {rows} rows")),
                Pruned::ElsewhereNow => Err(Failure::failed("another process is pruning this inbox")),
            }
        }
        InboxCommand::Reconcile(args) => reconcile::run(&args).await,
    }
}

/// Opens the inbox as it is: an operator's command makes no tables.
async fn open<DB: Store>(which: &WhichArgs) -> Outcome<Inbox<DB>> {
    super::database::refuse_missing_file(&which.inbox)?;
    let options = InboxOptions::new(which.consumer.as_str()).table_prefix(which.table_prefix.clone());
    let inbox = options.schema(Schema::Validate).without_pruning().open(&which.inbox).await;
    inbox.map_err(|error| Failure::Failed(anyhow::Error::new(error).context("--inbox")))
}

#[derive(Serialize)]
struct ShownSummary {
    rows: u64,
    settled: u64,
    prunable: u64,
}

#[derive(Serialize)]
struct ShownRow {
    event_id: EventId,
    received_at: Option<Timestamp>,
    settled_at: Option<Timestamp>,
}

impl From<InboxRow> for ShownRow {
    fn from(row: InboxRow) -> Self {
        Self { event_id: row.event_id, received_at: time(row.received_at), settled_at: row.settled_at.and_then(time) }
    }
}

fn time(at: SystemTime) -> Option<Timestamp> {
    let micros = at.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_micros();
    i64::try_from(micros).ok().and_then(Timestamp::from_unix_micros)
}

async fn show(args: &ShowArgs) -> Outcome {
    let policy = args.policy.policy()?;
    let failed = |error: crate::sql::SqlError| Failure::Failed(error.into());
    if let Some(rows) = args.rows {
        let page = on_inbox!(&args.which, inbox => inspect::page(&inbox, args.after, rows).await);
        let rows = page.map_err(failed)?.into_iter().map(ShownRow::from).collect::<Vec<_>>();
        return args.output.list(&["event_id", "received_at", "settled_at"], &rows, |row| {
            let shown = |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
            vec![row.event_id.to_string(), shown(row.received_at), shown(row.settled_at)]
        });
    }
    let summary = on_inbox!(&args.which, inbox => inspect::summary(&inbox, &policy).await).map_err(failed)?;
    let shown = ShownSummary { rows: summary.rows, settled: summary.settled, prunable: summary.prunable };
    let fields = [("rows", shown.rows), ("settled", shown.settled), ("prunable", shown.prunable)];
    args.output.object(&shown, &fields.map(|(name, count)| (name, count.to_string())))
}
