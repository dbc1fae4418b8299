//! A consumer from its start to its end.

use std::time::Duration;

use perilune_actors::{ConfigError, Consumer, ConsumerHandle, RunError, RunErrorKind};
use perilune_proto::consumer::CauseCode;
use tokio::sync::mpsc;

use super::exec::{Exec, Groups};
use super::forward::Forward;
use super::memory::Memory;
use super::worker::{Plan, Shared, Worker};
use super::{ConsumeArgs, notices};
use crate::cli::blame::setting;
use crate::cli::exit::{Failure, Left, Outcome};
use crate::cli::output::plain;
use crate::cli::signals::{self, Hangup, StopSignal};

/// How often failed dials are looked at. No notice tells of them.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: ConsumeArgs) -> Outcome {
    let groups = Groups::default();
    let plan = plan(&args, &groups)?;
    let client = args.connect.client()?;
    let memory = match (&args.inbox, &args.consumer) {
        (Some(database), Some(consumer)) => Some(Memory::open(database, consumer).await?),
        (None, None) => None,
        (Some(_), None) => return Err(Failure::usage("--inbox needs --consumer: whose events it remembers")),
        (None, Some(_)) => return Err(Failure::usage("--consumer needs --inbox: where its events are remembered")),
    };
    let (fatal, fatal_news) = mpsc::channel(1);
    let settled = memory.clone();
    let shared = Shared { plan, memory, fatal };
    let mut builder = Consumer::builder(client, args.subscription)
        .capacity(capacity(&args))
        .shutdown_timeout(args.shutdown_timeout)
        .reconnect_min_delay(args.reconnect_min_delay)
        .reconnect_max_delay(args.reconnect_max_delay)
        .handler_factory(move || Worker::new(shared.clone()));
    if let Some(memory) = settled {
        builder = builder.on_settled(move |receipts| memory.clone().settle(receipts));
    }
    if let Some(events) = args.max_events {
        builder = builder.max_events(events);
    }
    let consumer = builder.build().map_err(|error| usage(&error))?;
    let last_words = {
        let groups = groups.clone();
        move || groups.kill()
    };
    let stop = signals::listen(Hangup::Stops, last_words)?;
    let handle = consumer.start().map_err(failure)?;
    let fatal = watch(&args, &handle, &stop, fatal_news).await;
    let ended = handle.ended().await;
    // What still runs was given all the time there is; it must not outlive its consumer.
    groups.kill();
    match (ended, fatal) {
        (Err(error), _) => Err(failure(error)),
        (Ok(()), Some(sentence)) => Err(Failure::failed(sentence)),
        (Ok(()), None) => Ok(()),
    }
}

fn plan(args: &ConsumeArgs, groups: &Groups) -> Outcome<Plan> {
    Ok(match (&args.exec, &args.forward_to) {
        (Some(command), _) => Plan::Exec(Exec::new(command.clone(), groups.clone())),
        (None, Some(target)) => {
            let ca_file = args.connect.ca_file.as_ref();
            Plan::Forward(Box::new(Forward::new(target.clone(), args.connect.allow_plaintext, ca_file)?))
        }
        (None, None) => Plan::Print,
    })
}

/// As many events as are wanted are held at once, and no more: the others are left to other consumers.
fn capacity(args: &ConsumeArgs) -> u8 {
    let wanted = args.max_events.and_then(|events| u8::try_from(events.get()).ok()).unwrap_or(u8::MAX);
    args.capacity.min(wanted)
}

/// Follows the run to its end: signals, notices, and what makes going on pointless.
async fn watch(
    args: &ConsumeArgs,
    handle: &ConsumerHandle,
    stop: &StopSignal,
    mut fatal_news: mpsc::Receiver<String>,
) -> Option<String> {
    let mut news = handle.notices();
    let (mut stopping, mut fatal) = (false, None);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let mut worth_telling = 1;
    loop {
        tokio::select! {
            _ = looks.tick() => {
                let failed = handle.stats().dials_failed;
                if failed >= worth_telling {
                    tracing::warn!("{failed} dials failed; trying on (perilune doctor says more)");
                    // Ever more seldom: a platform may be away for a night.
                    worth_telling = failed * 2;
                }
            }
            notice = news.next() => match notice {
                Some(notice) => {
                    if args.notices {
                        notices::write(args.subscription, &notice);
                    }
                }
                None => return fatal,
            },
            () = stop.wait(), if !stopping => {
                stopping = true;
                handle.stop();
            }
            Some(sentence) = fatal_news.recv(), if fatal.is_none() => {
                fatal = Some(sentence);
                handle.stop();
            }
        }
    }
}

fn usage(error: &ConfigError) -> Failure {
    let flag = error.field.replace('_', "-");
    Failure::usage(format!("{} is {} and must be {}", setting(&flag), error.value, error.range))
}

fn failure(error: RunError) -> Failure {
    let left = Left { unconfirmed: error.unconfirmed().to_vec(), running: error.running().to_vec() };
    match error.kind() {
        RunErrorKind::Permanent { code: CauseCode::Local } => Failure::Failed(error.into()),
        RunErrorKind::Permanent { .. } => {
            Failure::Permanent { code: plain(&error.code()), reason: error.to_string(), left }
        }
        RunErrorKind::ShutdownTimeout { .. } => Failure::ShutdownTimeout(left),
        _ => Failure::Failed(error.into()),
    }
}
