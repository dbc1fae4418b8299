//! What one check found, and what to do about it.

use serde::Serialize;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Events flow, but somebody should look.
    Warning,
    /// Must be mended first.
    Failed,
    /// Not looked at.
    Skipped,
}

/// What one check found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    pub(super) state: State,
    found: String,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

pub(super) const COLUMNS: [&str; 4] = ["check", "state", "found", "do"];

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, state: State::Ok, found: found.into(), advice: None }
    }

    pub(super) fn skipped(check: &'static str, why: impl Into<String>) -> Self {
        Self { check, state: State::Skipped, found: why.into(), advice: None }
    }

    pub(super) fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, state: State::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn failed(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, state: State::Failed, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let state = match self.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Failed => "failed",
            State::Skipped => "skipped",
        };
        let advice = self.advice.clone().unwrap_or_default();
        vec![self.check.to_owned(), state.to_owned(), self.found.clone(), advice]
    }
}
