//! Lines for a person on stderr, outside the logs.

use std::fmt::Display;
use std::io::Write as _;

/// Writes one line to stderr.
///
/// A reader that has gone is no reason to panic, as `eprintln!` would: what the exit code says stays true.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
