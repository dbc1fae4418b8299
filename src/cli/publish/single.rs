//! One result, by flags.

use std::io::Read as _;

use anyhow::Context as _;
use awc::http::Method;
use perilune_proto::json::{Document, Key, Limits, Shape, push_string};
use perilune_proto::limits::FRAME_BYTES_MAX;
use perilune_proto::scalar::TaskId;
use serde_json::value::RawValue;

use super::super::api::{Api, Call, read};
use super::super::exit::{Failure, Outcome};
use super::super::retry::Retry;
use super::{PublishArgs, fresh_task_id};

static REPORT: Shape = Shape::new(&[
    Key::new("operation"),
    Key::new("status"),
    Key::new("payload"),
    Key::new("result"),
    Key::new("error"),
]);

/// What a line of NDJSON says in its own fields.
#[derive(Debug, clap::Args)]
#[group(id = "single", conflicts_with = "ndjson", multiple = true)]
pub(super) struct SingleArgs {
    /// The task; a new one if left out
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// The task's input: a file with JSON, or stdin with `-`
    #[arg(long, value_name = "FILE")]
    payload: Option<String>,
    /// The task's result: a file with JSON, or stdin with `-`
    #[arg(long, value_name = "FILE")]
    result: Option<String>,
    /// What went wrong, as a code
    #[arg(long, value_name = "CODE", requires = "error_message")]
    error_code: Option<String>,
    /// What went wrong, in words
    #[arg(long, value_name = "TEXT", requires = "error_code")]
    error_message: Option<String>,
    /// Names this report, so that it can be made again without effect; random if left out
    #[arg(long, value_name = "KEY", value_parser = idempotency_key)]
    idempotency_key: Option<String>,
}

fn idempotency_key(text: &str) -> Result<String, &'static str> {
    let fits = (1..=255).contains(&text.len()) && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if fits { Ok(text.to_owned()) } else { Err("must be 1 to 255 printable ASCII characters") }
}

/// The written event's fields that are shown.
#[derive(serde::Deserialize)]
struct Written {
    event_id: String,
    sequence: String,
    task_id: String,
    task_version: String,
}

pub(super) async fn run(args: &PublishArgs) -> Outcome {
    let body = body(args)?;
    let api = Api::open(&args.connect).await?;
    let task_id = args.single.task.unwrap_or_else(fresh_task_id);
    let queue = args.queue.as_ref().map(ToString::to_string).unwrap_or_default();
    let path = format!("/v1/queues/{queue}/tasks/{task_id}/events");
    // Random where none was given: a retry after a lost answer must not report twice.
    let key = args.single.idempotency_key.clone().unwrap_or_else(|| format!("publish-{}", fresh_task_id()));
    let mut retry = Retry::new(args.retry_for);
    let answer = loop {
        let call = Call {
            method: Method::POST,
            path: &path,
            body: Some(("application/json", body.clone().into())),
            idempotency_key: Some(&key),
        };
        match retry.attempt(api.call(call)).await {
            Ok(answer) => break answer,
            Err(error) => retry.wait(error, None).await?,
        }
    };
    let raw: Box<RawValue> = read(&answer)?;
    let written: Written = read(&answer)?;
    let fields = [
        ("event_id", written.event_id),
        ("sequence", written.sequence),
        ("task_id", written.task_id),
        ("task_version", written.task_version),
    ];
    args.output.object(&raw, &fields)
}

/// The report's body, payload and result byte for byte.
fn body(args: &PublishArgs) -> Outcome<String> {
    let mut body = String::from("{\"operation\":");
    push_string(&mut body, args.operation.as_ref().map_or("", |operation| operation.as_str()));
    body.push_str(",\"status\":");
    push_string(&mut body, args.status.map_or("", |status| status.as_str()));
    let (payload, result) = (args.single.payload.as_deref(), args.single.result.as_deref());
    if payload == Some("-") && result == Some("-") {
        return Err(Failure::usage("--payload and --result can't both be read from stdin"));
    }
    for (name, file) in [("payload", payload), ("result", result)] {
        if let Some(file) = file {
            push_json(&mut body, name, file)?;
        }
    }
    if let (Some(code), Some(message)) = (&args.single.error_code, &args.single.error_message) {
        body.push_str(",\"error\":{\"code\":");
        push_string(&mut body, code);
        body.push_str(",\"message\":");
        push_string(&mut body, message);
        body.push('}');
    }
    body.push('}');
    Ok(body)
}

/// Appends the JSON that a file holds, once it is known to be one strict value.
fn push_json(body: &mut String, name: &'static str, file: &str) -> Outcome {
    let bytes = read_file(file).with_context(|| format!("--{name} {file} can't be read"))?;
    let refuse = |what: &str| Failure::usage(format!("--{name} {file} must hold one JSON value: it has {what}"));
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(refuse("more bytes than an event can carry"));
    }
    let json = std::str::from_utf8(&bytes).map_err(|_| refuse("bytes that are not UTF-8"))?.trim_ascii();
    let probe = format!("{{\"{name}\":{json}}}");
    let limits = Limits { bytes: usize::MAX, ..Limits::FRAME };
    let document = Document::parse(&probe, &REPORT, limits).map_err(|error| refuse(&error.flaw.to_string()))?;
    // A text such as `1,"status":"failed"` makes an object, too, but another one.
    if document.root().field(name).raw() != json {
        return Err(refuse("something after the json value"));
    }
    body.push_str(&format!(",\"{name}\":{json}"));
    Ok(())
}

fn read_file(file: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = FRAME_BYTES_MAX as u64 + 1;
    if file == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(file)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
