//! `demo`: everything at once, in a fresh folder, with a ledger at the end.
//!
//! | file | what |
//! | --- | --- |
//! | `platform` | a real server on an embedded database, a credential, a subscription |
//! | `publisher` | reports results as a worker would |
//! | `receiver` | a supervised consumer that applies each event once to a database of its own |
//! | `faults` | a proxy between the two that cuts connections and loses answers |
//! | `ledger` | what was published, applied and acknowledged, and whether that balances |

mod faults;
mod ledger;
mod platform;
mod publisher;
mod receiver;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::exit::{Failure, Outcome};
use super::output::OutputArgs;
use super::progress::Progress;
use super::signals::{self, Hangup, StopSignal};
use super::stderr::tell;
use faults::Faults;
use ledger::Ledger;
use platform::Platform;
use publisher::Publisher;
use receiver::Receiver;

/// How often the progress is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long nothing at all may move before the demo gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Watch results being published, leased, applied once and acknowledged
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A server on an embedded database, a publisher and a supervised consumer with an inbox run in this process and in a
folder that is gone afterwards. The ledger at the end must balance, else the exit code is 1.

Example:
  perilune demo --events 2000 --faults")]
pub(crate) struct DemoArgs {
    /// How many results are published
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    events: u64,
    /// Cut connections, lose answers and let handlers fail after their commit, as it goes
    #[arg(long)]
    faults: bool,
    /// Go on serving at the end, until a signal
    #[arg(long)]
    keep_serving: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: DemoArgs) -> Outcome {
    // Its databases and its credential are nobody else's business.
    let private = std::fs::Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("perilune-demo-").permissions(private).tempdir();
    let folder = folder.context("no folder for the demo")?;
    let path = folder.path().to_path_buf();
    let stop = signals::listen(Hangup::Stops, move || {
        // Ended at once is no excuse for a mess.
        let _ = std::fs::remove_dir_all(path);
    })?;
    let ended = in_folder(&args, folder.path(), &stop).await;
    folder.close().context("the demo's folder can't be removed")?;
    ended
}

async fn in_folder(args: &DemoArgs, folder: &Path, stop: &StopSignal) -> Outcome {
    let platform = Platform::start(folder, args.faults).await?;
    let shown = demonstrate(args, folder, &platform, stop).await;
    if shown.is_ok() && args.keep_serving {
        platform.invite();
        stop.wait().await;
    }
    platform.stop().await?;
    shown
}

async fn demonstrate(args: &DemoArgs, folder: &Path, platform: &Platform, stop: &StopSignal) -> Outcome {
    let faults = match args.faults {
        true => Some(Faults::start(platform.address(), rand::random()).await?),
        false => None,
    };
    let address = faults.as_ref().map_or_else(|| platform.address(), Faults::address);
    let receiver = Receiver::start(folder, platform.client(address)?, platform.subscription(), args.faults).await?;
    let publisher = Publisher::start(platform.api().await?, args.events);
    let watched = watch(args, platform, &publisher, &receiver, stop).await;
    let received = receiver.stop().await?;
    let ledger = Ledger {
        events: args.events,
        published: publisher.published(),
        acknowledged: platform.acknowledged().await?,
        applied: received.applied,
        applied_once: received.applied_once,
        outcomes: received.outcomes,
        duplicates: received.duplicates,
        replayed: received.replayed,
        failures: received.failures,
        reconnects: received.reconnects,
        cut: faults.as_ref().map_or(0, |faults| faults.damage().cut()),
        deafened: faults.as_ref().map_or(0, |faults| faults.damage().deafened()),
    };
    ledger.show(args.output)?;
    watched?;
    publisher.end().await?;
    ledger.balance()?;
    tell("The ledger balances: whatever was published was applied once and acknowledged.");
    Ok(())
}

/// Shows how far it is until every event is acknowledged, nothing moves any more, or a signal comes.
async fn watch(
    args: &DemoArgs,
    platform: &Platform,
    publisher: &Publisher,
    receiver: &Receiver,
    stop: &StopSignal,
) -> Outcome {
    let mut progress = Progress::start("acknowledged", Some(args.events));
    let mut moved = (Instant::now(), (0, 0, 0));
    let ended = loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = stop.wait() => break Err(Failure::failed("interrupted before every event was acknowledged")),
        }
        let acknowledged = platform.acknowledged().await?;
        let figures = (publisher.published(), receiver.applied(), acknowledged);
        progress.at(acknowledged, &receiver.line(figures.0));
        if acknowledged >= args.events || publisher.failed() {
            break Ok(());
        }
        if figures != moved.1 {
            moved = (Instant::now(), figures);
        } else if moved.0.elapsed() > PATIENCE {
            break Err(Failure::failed("nothing moved for a minute"));
        }
    };
    progress.finish();
    ended
}
