//! SIGINT and SIGTERM: the first one asks for an orderly end, a SIGINT after it ends the process. SIGHUP ends none that
//! says so.

use std::process::exit;

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

/// Listens for SIGINT and SIGTERM until the process ends.
///
/// The second signal, a SIGINT, calls `last_words` and exits with 130. A thread of its own listens, so
/// that nothing that the command does can delay it.
///
/// # Errors
/// Where the thread or the signals can't be had.
pub(crate) fn listen(last_words: impl FnOnce() + Send + 'static) -> Outcome<StopSignal> {
    let (sender, receiver) = watch::channel(false);
    let failed = |error: std::io::Error| Failure::Failed(anyhow::Error::new(error).context("can't listen for signals"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    // Registered here and not in the thread: a signal from now on is never the end of the process.
    let (interrupt, terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let body = move || {
        runtime.block_on(relay(interrupt, terminate, &sender));
        last_words();
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

/// Returns at the SIGINT that follows the first signal.
async fn relay(mut interrupt: Signal, mut terminate: Signal, sender: &watch::Sender<bool>) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    sender.send_replace(true);
    interrupt.recv().await;
}
