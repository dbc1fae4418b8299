//! SIGINT and SIGTERM: the first one asks for an orderly end, a SIGINT after it ends the process. SIGHUP is one of them, or
//! ends none that says so.

use std::process::exit;

use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::exit::{Failure, INTERRUPTED, Outcome};

/// Tells whether the user asked for an end. Cloning shares it.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// Resolves when an end is asked for.
    pub(crate) async fn wait(&self) {
        // The sender lives as long as the process; without it nobody can ask any more.
        if self.0.clone().wait_for(|set| *set).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What a lost terminal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// The same as SIGTERM, unless the process was started to ignore it, as `nohup` does.
    Stops,
    /// Something else, or what the system does.
    Other,
}

/// Listens for SIGINT and SIGTERM, and for SIGHUP where it stops, until the process ends.
///
/// The second signal, a SIGINT, calls `last_words` and exits with 130. A thread of its own listens, so
/// that nothing that the command does can delay it.
///
/// # Errors
/// Where the thread or the signals can't be had.
pub(crate) fn listen(hangup: Hangup, last_words: impl FnOnce() + Send + 'static) -> Outcome<StopSignal> {
    let (sender, receiver) = watch::channel(false);
    let failed = |error: std::io::Error| Failure::Failed(anyhow::Error::new(error).context("can't listen for signals"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    // Registered here and not in the thread: a signal from now on is never the end of the process.
    let (interrupt, others) = {
        let _entered = runtime.enter();
        let mut others = vec![signal(SignalKind::terminate()).map_err(failed)?];
        if hangup == Hangup::Stops && !hangup_is_ignored() {
            others.push(signal(SignalKind::hangup()).map_err(failed)?);
        }
        (signal(SignalKind::interrupt()).map_err(failed)?, others)
    };
    let body = move || {
        runtime.block_on(relay(interrupt, others, &sender));
        last_words();
        super::stderr::flush_at_once();
        exit(i32::from(INTERRUPTED));
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).map_err(failed)?;
    Ok(StopSignal(receiver))
}

/// From now on SIGHUP does not end the process. A server that `reloads` does what it does with it, and says so itself.
///
/// # Errors
/// Where the signal can't be had.
pub(crate) fn outlive_hangups(reloads: bool) -> Outcome {
    let failed = |error: std::io::Error| Failure::Failed(anyhow::Error::new(error).context("can't listen for signals"));
    let mut hangups = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::spawn(async move {
        while !reloads && hangups.recv().await.is_some() {
            tracing::info!("SIGHUP was ignored: there is no certificate to read again");
        }
    });
    Ok(())
}

/// Whether the process was started with SIGHUP ignored. Where `/proc` can't tell, it was not.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is signal 1, which is SIGHUP.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Returns at the SIGINT that follows the first signal.
async fn relay(mut interrupt: Signal, mut others: Vec<Signal>, sender: &watch::Sender<bool>) {
    let others = others.iter_mut().map(|signal| Box::pin(signal.recv()));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = select_all(others) => {}
    }
    sender.send_replace(true);
    interrupt.recv().await;
}
