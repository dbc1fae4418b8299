//! `delivery`: a subscription's deliveries, and more budget for EXPIRED ones.

use perilune_proto::limits::BUDGET_ADD;
use perilune_proto::scalar::{DeliveryId, SubscriptionId};
use serde::{Deserialize, Serialize};

use super::api::{Api, Shown};
use super::connect::ConnectArgs;
use super::exit::Outcome;
use super::output::OutputArgs;
use super::subscription;

/// See open deliveries, and give EXPIRED ones another chance
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune delivery list --subscription 0123456789abcdef0123456789abcdef --state expired"
)]
pub(crate) struct DeliveryArgs {
    #[command(subcommand)]
    command: DeliveryCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DeliveryCommand {
    List(ListArgs),
    AddBudget(AddBudgetArgs),
}

/// List a subscription's open deliveries, or those acknowledged within 24 hours
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune delivery list --subscription 0123456789abcdef0123456789abcdef --state expired"
)]
struct ListArgs {
    /// The subscription
    #[arg(long, value_name = "ID", env = "PERILUNE_SUBSCRIPTION")]
    subscription: SubscriptionId,
    /// Only deliveries in these states; the open ones if left out
    #[arg(long, value_name = "STATE,…", value_delimiter = ',')]
    state: Vec<State>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Let EXPIRED deliveries be leased again
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  perilune delivery add-budget --subscription 0123456789abcdef0123456789abcdef --all --add 5"
)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["delivery", "all"]))]
struct AddBudgetArgs {
    /// The subscription
    #[arg(long, value_name = "ID", env = "PERILUNE_SUBSCRIPTION")]
    subscription: SubscriptionId,
    /// The delivery
    #[arg(long, value_name = "ID")]
    delivery: Option<DeliveryId>,
    /// Every EXPIRED delivery of the subscription
    #[arg(long)]
    all: bool,
    /// How many more leases
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(*BUDGET_ADD.start())..=i64::from(*BUDGET_ADD.end())))]
    add: u32,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum State {
    Ready,
    Leased,
    Expired,
    Acknowledged,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Expired => "expired",
            Self::Acknowledged => "acknowledged",
        }
    }
}

#[derive(Serialize)]
struct AddBody {
    add: u32,
}

/// What is shown of a delivery.
#[derive(Deserialize)]
struct Delivery {
    delivery_id: String,
    event_id: String,
    sequence: String,
    state: String,
    generation: String,
    budget: u64,
    due_at: String,
}

const COLUMNS: [&str; 7] = ["delivery_id", "event_id", "sequence", "state", "generation", "budget", "due_at"];

impl Delivery {
    fn cells(&self) -> Vec<String> {
        let texts =
            [&self.delivery_id, &self.event_id, &self.sequence, &self.state, &self.generation].map(Clone::clone);
        texts.into_iter().chain([self.budget.to_string(), self.due_at.clone()]).collect()
    }
}

pub(crate) async fn run(args: DeliveryArgs) -> Outcome {
    match args.command {
        DeliveryCommand::List(args) => list(&args).await,
        DeliveryCommand::AddBudget(args) => add_budget(&args).await,
    }
}

async fn list(args: &ListArgs) -> Outcome {
    let states = args.state.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(",");
    let filter = if states.is_empty() { vec![] } else { vec![("state", states)] };
    let path = format!("/v1/subscriptions/{}/deliveries", args.subscription);
    let items = Api::open(&args.connect).await?.list(&path, &filter).await?;
    args.output.list(&COLUMNS, &items, |item: &Shown<Delivery>| item.read.cells())
}

async fn add_budget(args: &AddBudgetArgs) -> Outcome {
    let api = Api::open(&args.connect).await?;
    let path = format!("/v1/subscriptions/{}/deliveries", args.subscription);
    let body = Some(&AddBody { add: args.add });
    if let Some(delivery) = args.delivery {
        let shown: Shown<Delivery> = api.post(&format!("{path}/{delivery}/budget"), body).await?;
        let fields = COLUMNS.into_iter().zip(shown.read.cells()).collect::<Vec<_>>();
        return args.output.object(&shown, &fields);
    }
    // Answered with the subscription, whose figures show what became ready.
    subscription::show(args.output, &api.post(&format!("{path}:budget"), body).await?)
}
