//! `--exec`: one run of a command an event.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use perilune_proto::ResultEvent;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

use super::event_json;
use super::sink::SinkError;
use super::webhook::SECRET_VARIABLE;
use crate::cli::credential_source::CREDENTIAL_VARIABLE;

/// What no command inherits: secrets, and URLs that may have a password.
const SECRETS: [&str; 5] =
    [CREDENTIAL_VARIABLE, SECRET_VARIABLE, "PERILUNE_INBOX", "PERILUNE_DATABASE", "PERILUNE_APPLICATION_DATABASE"];

/// The process groups of the commands that run. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups(Arc<Mutex<BTreeSet<i32>>>);

impl Groups {
    /// Ends every group at once.
    pub(crate) fn kill(&self) {
        for group in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // One that has ended meanwhile needs no end.
            let _ = killpg(Pid::from_raw(*group), Signal::SIGKILL);
        }
    }
}

/// A running command's group: listed while the command runs, killed when its run is given up.
struct Group {
    id: i32,
    groups: Groups,
}

impl Group {
    fn enter(id: i32, groups: Groups) -> Self {
        groups.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Self { id, groups }
    }

    fn terminate(&self) {
        let _ = killpg(Pid::from_raw(self.id), Signal::SIGTERM);
    }

    /// The command has ended; what it left in the background is its own business.
    fn leave(self) {
        self.groups.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.groups.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id) {
            let _ = killpg(Pid::from_raw(self.id), Signal::SIGKILL);
        }
    }
}

/// Runs a command by the shell for each event.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    command: OsString,
    groups: Groups,
}

impl Exec {
    pub(crate) const fn new(command: OsString, groups: Groups) -> Self {
        Self { command, groups }
    }

    /// Runs the command with the event's JSON on its stdin. SIGTERM reaches its group when `stopping` resolves.
    ///
    /// # Errors
    /// Where it can't be started, or ends in anything but exit 0.
    pub(crate) async fn handle(
        &self,
        event: &ResultEvent,
        stopping: impl Future<Output = ()>,
    ) -> Result<(), SinkError> {
        let json = event_json::write(event).map_err(|_| SinkError::Malformed)?;
        let mut child = self.spawn(event).map_err(SinkError::Spawn)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(SinkError::Lost)?;
        let group = Group::enter(id, self.groups.clone());
        let stdin = child.stdin.take();
        let status =
            watch(&mut child, feed(stdin, json.as_bytes()), stopping, &group).await.map_err(SinkError::Wait)?;
        group.leave();
        if status.success() { Ok(()) } else { Err(SinkError::Exit(status)) }
    }

    fn spawn(&self, event: &ResultEvent) -> std::io::Result<Child> {
        // Our stdout belongs to nobody here: what the command says goes to stderr, all of it.
        let stdout = std::io::stderr().as_fd().try_clone_to_owned()?;
        let mut command = Command::new("/bin/sh");
        for secret in SECRETS {
            command.env_remove(secret);
        }
        command
            .arg("-c")
            .arg(&self.command)
            .env("PERILUNE_EVENT_ID", event.event_id.to_string())
            .env("PERILUNE_EVENT_TYPE", event.event_type())
            .env("PERILUNE_TASK_ID", event.task_id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::from(stdout))
            .process_group(0)
            .spawn()
    }
}

/// Gives the command its input. It may end without reading it: its exit code alone decides.
async fn feed(stdin: Option<ChildStdin>, json: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(json).await;
        let _ = stdin.shutdown().await;
    }
}

async fn watch(
    child: &mut Child,
    feed: impl Future<Output = ()>,
    stopping: impl Future<Output = ()>,
    group: &Group,
) -> std::io::Result<ExitStatus> {
    let (mut fed, mut told) = (false, false);
    tokio::pin!(feed, stopping);
    loop {
        tokio::select! {
            // Ended is ended, whatever else is ready.
            biased;
            status = child.wait() => return status,
            () = &mut stopping, if !told => {
                told = true;
                group.terminate();
            }
            () = &mut feed, if !fed => fed = true,
        }
    }
}
