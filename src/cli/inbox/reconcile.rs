//! `inbox reconcile`: what the platform says of a subscription's deliveries, against the rows of the inbox.
//!
//! The platform lists its open deliveries, and the acknowledged ones for 24 hours. A row that it does not list any more was
//! acknowledged earlier, unless the subscription has been sought back and has not come to its event again.

use std::collections::BTreeSet;

use perilune_proto::scalar::{EventId, SubscriptionId, TaskId};
use serde::{Deserialize, Serialize};

use super::super::api::{Api, Shown};
use super::super::connect::ConnectArgs;
use super::super::exit::{Failure, Outcome};
use super::super::output::OutputArgs;
use super::{WhichArgs, on_inbox, open};
use crate::inbox::inspect::{self, Delivered, DeliveryState, Finding, Mend};
use crate::inbox::{Fingerprint, Inbox, Store};
#[allow(unused_imports, reason = "an engine that is not compiled in is not matched")]
use crate::sql::DatabaseUrl;

/// Most unsettled rows that one run remembers while it asks the platform.
const ROWS_MAX: usize = 1_000_000;
/// Every state of a delivery.
const STATES: &str = "ready,leased,expired,acknowledged";

/// Compare an inbox with what the platform has as acknowledged and as open, and name what differs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
`absent`: acknowledged, but not in the inbox: acknowledged past it, or its row is lost.
`unacknowledged`: in the inbox, and the platform will deliver it again; normal for a moment.
`different`: in the inbox as another event: type, task or task version differ.
`unsettled`: in the inbox and acknowledged, but not marked so; --mend marks it, so that it may be pruned one day.
`unknown`: in the inbox and not marked, and the platform does not know it now; while the subscription lags it may come
again. Run it once more when the lag is gone.

The platform knows what is open for as long as it is, and what was acknowledged for 24 hours.

Example:
  perilune inbox reconcile --subscription 0123456789abcdef0123456789abcdef --inbox sqlite:shop.db --consumer billing --mend")]
pub(super) struct ReconcileArgs {
    /// The subscription whose events the consumer handles
    #[arg(long, value_name = "ID", env = "PERILUNE_SUBSCRIPTION")]
    subscription: SubscriptionId,
    /// Mark rows as settled whose events are acknowledged
    #[arg(long)]
    mend: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A delivery, as far as it matters here.
#[derive(Deserialize)]
struct Listed {
    event_id: EventId,
    state: String,
    #[serde(rename = "type")]
    event_type: Option<String>,
    task_id: Option<TaskId>,
    task_version: Option<String>,
}

impl Listed {
    fn delivered(&self) -> Delivered {
        let acknowledged = self.state == "acknowledged";
        let state = if acknowledged { DeliveryState::Acknowledged } else { DeliveryState::Open };
        Delivered { event_id: self.event_id, fingerprint: self.fingerprint(), state }
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        let task_version = self.task_version.as_ref()?.parse().ok()?;
        Some(Fingerprint { event_type: self.event_type.clone()?, task_id: self.task_id?, task_version })
    }
}

/// How far the subscription is.
#[derive(Deserialize)]
struct Standing {
    cursor: String,
    lag: u64,
}

impl Standing {
    fn cursor(&self) -> u64 {
        self.cursor.parse().unwrap_or_default()
    }
}

#[derive(Serialize)]
struct ShownFinding {
    finding: &'static str,
    event_id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<String>,
}

impl ShownFinding {
    const fn plain(finding: &'static str, event_id: EventId) -> Self {
        Self { finding, event_id, stored: None, served: None }
    }

    fn new(finding: Finding) -> Self {
        let text = |print: Fingerprint| format!("{} {} {}", print.event_type, print.task_id, print.task_version.0);
        match finding {
            Finding::Absent(event_id) => Self::plain("absent", event_id),
            Finding::Unacknowledged(event_id) => Self::plain("unacknowledged", event_id),
            Finding::Unsettled(event_id) => Self::plain("unsettled", event_id),
            Finding::Different { event_id, stored, served } => {
                let stored = Some(stored.map_or_else(|| "no fingerprint".to_owned(), text));
                Self { finding: "different", event_id, stored, served: Some(text(served)) }
            }
        }
    }

    fn cells(&self) -> Vec<String> {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        vec![self.finding.to_owned(), self.event_id.to_string(), or_none(&self.stored), or_none(&self.served)]
    }
}

pub(super) async fn run(args: &ReconcileArgs) -> Outcome {
    let api = Api::open(&args.connect).await?;
    let found = on_inbox!(&args.which, inbox => Comparison::new(args, &api, &inbox).run().await)?;
    args.output.list(&["finding", "event_id", "stored", "served"], &found, ShownFinding::cells)
}

struct Comparison<'a, DB: Store> {
    path: String,
    api: &'a Api,
    inbox: &'a Inbox<DB>,
    mend: Mend,
}

impl<'a, DB: Store> Comparison<'a, DB> {
    fn new(args: &ReconcileArgs, api: &'a Api, inbox: &'a Inbox<DB>) -> Self {
        let path = format!("/v1/subscriptions/{}", args.subscription);
        Self { path, api, inbox, mend: if args.mend { Mend::Settled } else { Mend::Nothing } }
    }

    async fn run(&self) -> Outcome<Vec<ShownFinding>> {
        // The rows first: an event that is in the inbox now is listed as open or acknowledged when the platform is asked.
        // The other way round, one that comes between the two would look as if nobody knew it.
        let mut unlisted = self.unsettled().await?;
        let before: Standing = self.api.get(&self.path).await?;
        let mut found = Vec::new();
        let (list, filter) = (format!("{}/deliveries", self.path), [("state", STATES.to_owned())]);
        let mut after = None;
        loop {
            let (page, next): (Vec<Shown<Listed>>, _) = self.api.page(&list, &filter, after.as_deref()).await?;
            let delivered: Vec<_> = page.iter().map(|listed| listed.read.delivered()).collect();
            for delivered in &delivered {
                unlisted.remove(&delivered.event_id);
            }
            found.extend(self.compare(&delivered).await?.into_iter().map(ShownFinding::new));
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let behind: Standing = self.api.get(&self.path).await?;
        if behind.cursor() < before.cursor() {
            return Err(Failure::failed("the subscription was sought back meanwhile; compare once more"));
        }
        found.extend(self.judge(unlisted, before.lag).await?);
        Ok(found)
    }

    /// Rows that the platform did not list. Where the subscription has come to the log's end, none of their events is yet
    /// to come: they were acknowledged too long ago to be known.
    async fn judge(&self, unlisted: BTreeSet<EventId>, lag: u64) -> Outcome<Vec<ShownFinding>> {
        if lag > 0 {
            return Ok(unlisted.into_iter().map(|event_id| ShownFinding::plain("unknown", event_id)).collect());
        }
        let gone = |event_id| Delivered { event_id, fingerprint: None, state: DeliveryState::Acknowledged };
        let found = self.compare(&unlisted.into_iter().map(gone).collect::<Vec<_>>()).await?;
        // One whose row was pruned meanwhile is no finding.
        let unsettled = found.into_iter().filter(|finding| matches!(finding, Finding::Unsettled(_)));
        Ok(unsettled.map(ShownFinding::new).collect())
    }

    async fn compare(&self, delivered: &[Delivered]) -> Outcome<Vec<Finding>> {
        let found = inspect::reconcile(self.inbox, delivered, self.mend).await;
        found.map_err(|error| Failure::Failed(error.into()))
    }

    async fn unsettled(&self) -> Outcome<BTreeSet<EventId>> {
        let (mut unsettled, mut after) = (BTreeSet::new(), None);
        loop {
            let page = inspect::unsettled(self.inbox, after, inspect::PAGE_MAX).await;
            let page = page.map_err(|error| Failure::Failed(error.into()))?;
            after = page.last().map(|row| row.event_id);
            unsettled.extend(page.into_iter().map(|row| row.event_id));
            // The rest is the next run's, once these are mended.
            if after.is_none() || unsettled.len() >= ROWS_MAX {
                return Ok(unsettled);
            }
        }
    }
}
