//! One batch of reports, and the platform's verdict on each.

use awc::http::Method;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::api::{Api, ApiError, Call, Problem, ProblemBody};

/// The platform's verdict on one line of a batch.
#[derive(Debug, Deserialize)]
pub(crate) struct Verdict {
    /// Counted from 1 within the batch.
    line: usize,
    /// 201 written now, 200 written before, or why it was refused.
    pub(crate) status: u16,
    problem: Option<Box<RawValue>>,
}

impl Verdict {
    /// Why the line was refused.
    pub(crate) fn problem(&self) -> Problem {
        let body = self.problem.as_ref().map_or("", |problem| problem.get());
        match serde_json::from_str::<ProblemBody>(body) {
            Ok(body) => Problem::of(self.status, None, &body),
            Err(_) => Problem::read(self.status, None, b""),
        }
    }
}

/// Reports the lines, once, and gives a verdict for each in their order.
///
/// # Errors
/// Where there is no answer, or none that fits the lines. An answer that was cut off is one that was lost:
/// with idempotency keys a second report is harmless.
pub(crate) async fn send<'a>(
    api: &Api,
    lines: impl Iterator<Item = &'a str> + Clone,
) -> Result<Vec<Verdict>, ApiError> {
    let mut body = String::with_capacity(lines.clone().map(|line| line.len() + 1).sum());
    let mut sent = 0;
    for line in lines {
        body.push_str(line);
        body.push('\n');
        sent += 1;
    }
    let call = Call {
        method: Method::POST,
        path: "/v1/events:batch",
        body: Some(("application/x-ndjson", Bytes::from(body))),
        idempotency_key: None,
    };
    let answer = api.call(call).await?;
    let verdicts = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let verdicts = verdicts.map(serde_json::from_slice).collect::<Result<Vec<Verdict>, _>>();
    let fit = verdicts.ok().filter(|verdicts| {
        verdicts.len() == sent && verdicts.iter().enumerate().all(|(at, verdict)| verdict.line == at + 1)
    });
    fit.ok_or_else(|| ApiError::Unreachable("the platform's verdicts don't fit the lines that were sent".to_owned()))
}
