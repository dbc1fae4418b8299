//! What a server says when it refuses: RFC 9457's `application/problem+json`.

use std::time::Duration;

use serde::Deserialize;

use crate::cli::exit::{Failure, Left};
use crate::cli::output::plain;

/// How many characters of the server's words are shown at most.
const SHOWN_MAX: usize = 2_000;

/// A refusal.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The server's code, or `HTTP_<status>` where it gave none that can be read.
    pub(crate) code: String,
    /// What the server says about it, on one line, fit for a terminal.
    pub(crate) reason: String,
    /// How long the server asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

/// The fields that are shown; every other is left unread.
#[derive(Deserialize)]
pub(crate) struct Body {
    code: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    errors: Vec<FieldError>,
}

#[derive(Deserialize)]
struct FieldError {
    #[serde(default)]
    pointer: String,
    #[serde(default)]
    reason: String,
}

impl Problem {
    /// Reads a refusal's body, whatever it is.
    pub(crate) fn read(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        match serde_json::from_slice::<Body>(body) {
            Ok(body) => Self::of(status, retry_after, &body),
            Err(_) => Self {
                status,
                code: format!("HTTP_{status}"),
                reason: "the server refused without a reason".to_owned(),
                retry_after,
            },
        }
    }

    /// A refusal with a body that was read.
    pub(crate) fn of(status: u16, retry_after: Option<Duration>, body: &Body) -> Self {
        let said = if body.detail.is_empty() { &body.title } else { &body.detail };
        let mut reason = said.clone();
        for error in &body.errors {
            let gap = if reason.is_empty() { "" } else { "; " };
            reason.push_str(&format!("{gap}{} {}", error.pointer, error.reason));
        }
        let fit = |text: &str| plain(text).chars().take(SHOWN_MAX).collect::<String>();
        Self { status, code: fit(&body.code), reason: fit(&reason), retry_after }
    }

    /// Whether the same request may do better later.
    pub(crate) const fn is_retriable(&self) -> bool {
        matches!(self.status, 408 | 429 | 500..=599)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        if problem.is_retriable() {
            Self::failed(format!("{}: {}", problem.code, problem.reason))
        } else {
            Self::Permanent { code: problem.code, reason: problem.reason, left: Left::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_each_bad_field_on_one_line() {
        let body = br#"{"type":"about:blank","title":"Bad value","status":422,"code":"INVALID","detail":"two\nfields","errors":[{"pointer":"/name","reason":"must be 1 to 128 characters"}]}"#;
        let problem = Problem::read(422, None, body);
        assert_eq!(problem.reason, "two fields; /name must be 1 to 128 characters");
        assert!(matches!(Failure::from(problem), Failure::Permanent { code, .. } if code == "INVALID"));
    }

    #[test]
    fn an_unreadable_refusal_is_known_by_its_status() {
        let problem = Problem::read(502, None, b"<html>");
        assert_eq!(problem.code, "HTTP_502");
        assert_eq!(Failure::from(problem).code(), 1);
    }
}
