//! `subscription`: the management API of subscriptions.

use std::time::Duration;

use perilune_proto::Status;
use perilune_proto::limits::{SUBSCRIPTION_NAME_CHARS, WINDOW};
use perilune_proto::scalar::{Name, SubscriptionId};
use serde::{Deserialize, Serialize};

use super::api::{Api, Shown};
use super::connect::ConnectArgs;
use super::duration;
use super::exit::{Failure, Outcome};
use super::output::OutputArgs;
use super::start::Start;

/// Manage subscriptions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune subscription create --name invoices --queues reports,invoices")]
pub(crate) struct SubscriptionArgs {
    #[command(subcommand)]
    command: SubscriptionCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SubscriptionCommand {
    Create(CreateArgs),
    List(ListArgs),
    /// Show a subscription's settings and how it stands
    #[command(after_help = "Example:\n  perilune subscription show 0123456789abcdef0123456789abcdef")]
    Show(OneArgs),
    /// Stop new deliveries until it is resumed
    #[command(after_help = "Example:\n  perilune subscription pause 0123456789abcdef0123456789abcdef")]
    Pause(OneArgs),
    /// Let a paused subscription go on
    #[command(after_help = "Example:\n  perilune subscription resume 0123456789abcdef0123456789abcdef")]
    Resume(OneArgs),
    Seek(SeekArgs),
    Delete(DeleteArgs),
}

/// Subscribe to the results of some queues
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune subscription create --name invoices --queues reports,invoices --statuses succeeded,failed"
)]
struct CreateArgs {
    /// What to call it: 1 to 128 characters
    #[arg(long, value_parser = subscription_name)]
    name: String,
    /// The queues whose events it gets
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',', required = true)]
    queues: Vec<Name>,
    /// Only events of these statuses
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',')]
    statuses: Option<Vec<Status>>,
    /// Only events of these operations
    #[arg(long, value_name = "OPERATION,…", value_delimiter = ',')]
    operations: Option<Vec<Name>>,
    /// Where it begins: latest, earliest, or the sequence of the first event to get
    #[arg(long, default_value = "latest")]
    start: Start,
    /// How many deliveries may be open at once
    #[arg(long, value_parser = clap::value_parser!(u32).range(i64::from(*WINDOW.start())..=i64::from(*WINDOW.end())))]
    window: Option<u32>,
    /// How often a delivery is leased before it is EXPIRED
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    budget: Option<u32>,
    /// The first wait before a lapsed delivery is leased again
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "backoff_max")]
    backoff_min: Option<Duration>,
    /// The longest wait before a lapsed delivery is leased again
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "backoff_min")]
    backoff_max: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// List the credential's subscriptions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune subscription list --json")]
struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// One subscription.
#[derive(Debug, clap::Args)]
struct OneArgs {
    /// The subscription
    id: SubscriptionId,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Drop the open deliveries and begin anew elsewhere in the log
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune subscription seek 0123456789abcdef0123456789abcdef --to earliest")]
struct SeekArgs {
    /// The subscription
    id: SubscriptionId,
    /// Where to: latest, earliest, or the sequence of the first event to get
    #[arg(long)]
    to: Start,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Delete a subscription and end its sessions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  perilune subscription delete 0123456789abcdef0123456789abcdef")]
struct DeleteArgs {
    /// The subscription
    id: SubscriptionId,
    #[command(flatten)]
    connect: ConnectArgs,
}

fn subscription_name(text: &str) -> Result<String, String> {
    if SUBSCRIPTION_NAME_CHARS.contains(&text.chars().count()) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be {} to {} characters", SUBSCRIPTION_NAME_CHARS.start(), SUBSCRIPTION_NAME_CHARS.end()))
    }
}

#[derive(Serialize)]
struct CreateBody<'a> {
    name: &'a str,
    queues: &'a [Name],
    #[serde(skip_serializing_if = "Option::is_none")]
    statuses: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<&'a [Name]>,
    start: Start,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<BackoffBody>,
}

#[derive(Serialize)]
struct BackoffBody {
    min_ms: u64,
    max_ms: u64,
}

#[derive(Serialize)]
struct SeekBody {
    to: Start,
}

/// What is shown of a subscription.
#[derive(Deserialize)]
pub(super) struct Subscription {
    subscription_id: String,
    name: String,
    enabled: bool,
    blocked: bool,
    cursor: String,
    lag: u64,
    ready: u64,
    leased: u64,
    expired: u64,
    acknowledged: u64,
    sessions: u64,
}

const COLUMNS: [&str; 10] =
    ["subscription_id", "name", "state", "cursor", "lag", "ready", "leased", "expired", "acknowledged", "sessions"];

impl Subscription {
    fn cells(&self) -> Vec<String> {
        let state = match (self.enabled, self.blocked) {
            (false, _) => "paused",
            (true, true) => "blocked",
            (true, false) => "enabled",
        };
        let figures = [self.lag, self.ready, self.leased, self.expired, self.acknowledged, self.sessions];
        let texts = [&self.subscription_id, &self.name, state, &self.cursor].map(str::to_owned);
        texts.into_iter().chain(figures.map(|figure| figure.to_string())).collect()
    }
}

pub(crate) async fn run(args: SubscriptionArgs) -> Outcome {
    match args.command {
        SubscriptionCommand::Create(args) => create(&args).await,
        SubscriptionCommand::List(args) => {
            let items = Api::open(&args.connect).await?.list("/v1/subscriptions", &[]).await?;
            args.output.list(&COLUMNS, &items, |item: &Shown<Subscription>| item.read.cells())
        }
        SubscriptionCommand::Show(args) => {
            let shown = Api::open(&args.connect).await?.get(&path(args.id, "")).await?;
            show(args.output, &shown)
        }
        SubscriptionCommand::Pause(args) => act(args.output, &args.connect, args.id, "/pause", None).await,
        SubscriptionCommand::Resume(args) => act(args.output, &args.connect, args.id, "/resume", None).await,
        SubscriptionCommand::Seek(args) => {
            act(args.output, &args.connect, args.id, "/seek", Some(&SeekBody { to: args.to })).await
        }
        SubscriptionCommand::Delete(args) => Api::open(&args.connect).await?.delete(&path(args.id, "")).await,
    }
}

fn path(id: SubscriptionId, action: &str) -> String {
    format!("/v1/subscriptions/{id}{action}")
}

async fn create(args: &CreateArgs) -> Outcome {
    if let Some((min, max)) = args.backoff_min.zip(args.backoff_max).filter(|(min, max)| min > max) {
        let (min, max) = (duration::show(min), duration::show(max));
        return Err(Failure::usage(format!(
            "--backoff-min is {min} and must be at most --backoff-max, which is {max}"
        )));
    }
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let body = CreateBody {
        name: &args.name,
        queues: &args.queues,
        statuses: args.statuses.as_ref().map(|statuses| statuses.iter().map(|status| status.as_str()).collect()),
        operations: args.operations.as_deref(),
        start: args.start,
        window: args.window,
        budget: args.budget,
        backoff: args
            .backoff_min
            .zip(args.backoff_max)
            .map(|(min, max)| BackoffBody { min_ms: millis(min), max_ms: millis(max) }),
    };
    let shown = Api::open(&args.connect).await?.post("/v1/subscriptions", Some(&body)).await?;
    show(args.output, &shown)
}

async fn act(
    output: OutputArgs,
    connect: &ConnectArgs,
    id: SubscriptionId,
    action: &str,
    body: Option<&SeekBody>,
) -> Outcome {
    let shown = Api::open(connect).await?.post(&path(id, action), body).await?;
    show(output, &shown)
}

/// Shows a subscription.
pub(super) fn show(output: OutputArgs, shown: &Shown<Subscription>) -> Outcome {
    let fields = COLUMNS.into_iter().zip(shown.read.cells()).collect::<Vec<_>>();
    output.object(shown, &fields)
}
