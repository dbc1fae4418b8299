//! `POST /v1/events:batch`: up to 1,000 reports as NDJSON, a verdict each.
//!
//! The whole batch is read before anything of it is written, since one line too many refuses all of it. What is
//! read is kept as reports, not as text, and its bytes are limited.

use std::collections::VecDeque;

use actix_web::http::header;
use actix_web::web::{self, Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse, Resource};
use futures_util::StreamExt as _;
use perilune_proto::limits::BATCH_LINES_MAX;
use serde_json::json;

use super::incoming::{self, outcome};
use super::resource;
use crate::server::auth::{Caller, authorize};
use crate::server::metrics::ReportOutcome;
use crate::server::problem::{Code, Problem};
use crate::server::request::body::{BODY_BYTES_MAX, broken, check_length, expect_type, in_time};
use crate::server::request::budget::Held;
use crate::server::request::lines::{Line, Lines};
use crate::server::request::query::Parameters;
use crate::server::state::State;
use crate::server::store::{Report, Scope, Verdict, WrittenEvent};

/// The media type of a batch and of its answer.
pub(crate) const NDJSON: &str = "application/x-ndjson";

pub(super) fn resource_of_batches() -> Resource {
    resource("/v1/events:batch", "POST").route(web::post().to(batch))
}

async fn batch(state: Data<State>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let caller = authorize(&state, &request, Scope::Report).await?;
    Parameters::none(&request)?;
    expect_type(&request, &[NDJSON, "application/ndjson"])?;
    check_length(&request, state.config.limits.batch_bytes)?;
    let mut held = state.batches.begin();
    let lines = read(&state, &caller, payload, &mut held).await?;
    let verdicts = write(&state, lines).await?;
    let chunks = verdicts.into_iter().enumerate().map(move |(index, verdict)| {
        // The answer is as large as the batch: its room and its place are given back after the last line.
        let _held_to_the_end = (&held, &caller);
        Ok::<_, actix_web::Error>(shown(index + 1, verdict))
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, NDJSON))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(futures_util::stream::iter(chunks)))
}

type Read = Vec<Result<Report, Problem>>;

/// Reads every line, bad ones as their refusals.
async fn read(state: &State, caller: &Caller, mut payload: Payload, held: &mut Held) -> Result<Read, Problem> {
    let (mut lines, mut read) = (Lines::new(BODY_BYTES_MAX), Read::new());
    let mut judge = |line| {
        if read.len() == BATCH_LINES_MAX {
            return Err(too_large(format!("a batch has at most {BATCH_LINES_MAX} lines")));
        }
        read.push(report(caller, line));
        Ok(())
    };
    // Each chunk has the time of a whole small body: a batch may be long, but must keep coming.
    while let Some(chunk) = in_time(async { Ok(payload.next().await) }).await? {
        let chunk = chunk.map_err(|error| broken(&error))?;
        held.grow(chunk.len()).map_err(|_| {
            state.metrics.limited.increment(1);
            Problem::new(Code::RateLimited, "other batches take the room that there is")
        })?;
        if held.bytes() > state.config.limits.batch_bytes {
            return Err(too_large(format!("a batch has at most {} bytes", state.config.limits.batch_bytes)));
        }
        lines.feed(&chunk, &mut judge)?;
    }
    lines.finish().map_or(Ok(()), &mut judge)?;
    if read.is_empty() { Err(Problem::new(Code::Malformed, "a batch has at least one line")) } else { Ok(read) }
}

fn too_large(detail: String) -> Problem {
    Problem::new(Code::TooLarge, detail)
}

fn report(caller: &Caller, line: Line) -> Result<Report, Problem> {
    match line {
        Line::Text(bytes) => {
            let text =
                std::str::from_utf8(&bytes).map_err(|_| Problem::new(Code::Malformed, "the line is not utf-8"))?;
            incoming::line(text, caller.credential_id(), |queue| caller.expect_queue(Some(queue)))
        }
        Line::TooLong => Err(Problem::new(Code::TooLarge, "the line is longer than the limit")),
    }
}

type Answer = Result<(u16, WrittenEvent), Problem>;

/// Writes the good lines in their order and puts the verdicts back into their places.
async fn write(state: &State, lines: Read) -> Result<Vec<Answer>, Problem> {
    let mut reports = Vec::with_capacity(lines.len());
    let mut places: Vec<Option<Problem>> = Vec::with_capacity(lines.len());
    for line in lines {
        places.push(line.map(|report| reports.push(report)).err());
    }
    let mut verdicts: VecDeque<Verdict> = if reports.is_empty() {
        VecDeque::new()
    } else {
        state.store.report_batch(reports).await.map_err(|error| state.problem(&error))?.into()
    };
    let mut answer = |refused: Option<Problem>| match refused {
        Some(problem) => Err(problem),
        None => verdicts.pop_front().map_or_else(|| Err(no_verdict()), outcome),
    };
    let answers: Vec<Answer> = places.into_iter().map(&mut answer).collect();
    for answer in &answers {
        state.metrics.reported(match answer {
            Ok((201, _)) => ReportOutcome::Written,
            Ok(_) => ReportOutcome::Seen,
            Err(_) => ReportOutcome::Refused,
        });
    }
    Ok(answers)
}

/// The store owes one verdict a report; a missing one must not pass for a success.
fn no_verdict() -> Problem {
    Problem::new(Code::Internal, "the store gave no verdict")
}

/// One line of the answer. The event goes in as it is, byte for byte.
fn shown(line: usize, answer: Answer) -> Bytes {
    let text = match answer {
        Ok((status, event)) => format!("{{\"line\":{line},\"status\":{status},\"event\":{}}}\n", event.json),
        Err(problem) => {
            let verdict = json!({"line": line, "status": problem.code().status(), "problem": problem.to_json()});
            format!("{verdict}\n")
        }
    };
    text.into()
}
