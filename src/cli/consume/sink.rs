//! Why an event was not handled. Never with the event's data or a remote's words.

use std::process::ExitStatus;

/// Why a sink didn't take an event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkError {
    /// The event can't be written as JSON.
    #[error("the event can't be written as JSON")]
    Malformed,
    /// stdout is closed or full.
    #[error("can't write to standard output")]
    Stdout(#[source] std::io::Error),
    /// The shell can't be started.
    #[error("can't start the command")]
    Spawn(#[source] std::io::Error),
    /// The command ended before it could be watched.
    #[error("the command was gone at once")]
    Lost,
    /// The command's end can't be awaited.
    #[error("can't wait for the command")]
    Wait(#[source] std::io::Error),
    /// The command failed.
    #[error("the command ended with {0}")]
    Exit(ExitStatus),
    /// The receiver can't be reached, or its answer is no HTTP.
    #[error("the receiver gave no answer: {0}")]
    Unreachable(String),
    /// The receiver answered something other than 2xx.
    #[error("the receiver answered {0}")]
    Refused(u16),
    /// The inbox can't be asked, or holds another event under this id.
    #[error("the inbox: {0}")]
    Memory(String),
    /// The lease left no time for it.
    #[error("the lease ran out")]
    LeaseOver,
}
