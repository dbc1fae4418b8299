//! `--print`: one line of JSON an event on stdout.

use std::io::Write as _;

use perilune_proto::ResultEvent;
use zeroize::Zeroizing;

use super::event_json;
use super::sink::SinkError;

/// Writes the event's line and flushes it.
///
/// # Errors
/// Where stdout can't be written to.
pub(crate) fn handle(event: &ResultEvent) -> Result<(), SinkError> {
    let json = event_json::write(event).map_err(|_| SinkError::Malformed)?;
    let line = one_line(&json);
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).map_err(SinkError::Stdout)
}

/// The text on one line. A line break can only stand between JSON's tokens, since strings escape theirs.
fn one_line(json: &str) -> Zeroizing<String> {
    let mut line = Zeroizing::new(String::with_capacity(json.len() + 1));
    line.extend(json.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }));
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_between_tokens_become_spaces_and_nothing_else_changes() {
        let json = "{\"a\":\r\n [1e400,\t9007199254740993,\n\"\\n\u{2028}é\"]}";
        assert_eq!(*one_line(json), "{\"a\":   [1e400,\t9007199254740993, \"\\n\u{2028}é\"]}\n");
    }
}
