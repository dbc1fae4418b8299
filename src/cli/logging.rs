//! Logs: to stderr, off but for warnings unless asked for.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use super::blame::setting;
use super::exit::{Failure, Outcome};
use super::stderr::LogWriter;

/// What the logs look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for a person.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sets up the process's logs.
///
/// # Errors
/// A usage error where the filter can't be read.
pub(crate) fn start(filter: &str, format: LogFormat) -> Outcome {
    let filter = EnvFilter::builder().parse(filter).map_err(|_| {
        Failure::usage(format!(
            "{} must be off, error, warn, info, debug or trace, or levels by target such as `warn,perilune=debug`",
            setting("--log")
        ))
    })?;
    let stderr = std::io::stderr();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| LogWriter).with_ansi(colours(&stderr));
    // It would tell with `eprintln!` that a line could not be written, which panics where stderr is closed.
    let lines = lines.log_internal_errors(false);
    let set = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    set.map_err(|_| Failure::failed("the logs were set up twice"))
}

/// Whether a stream may get colours: it is a terminal, and NO_COLOR is unset or empty.
pub(crate) fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
