//! A JSON body: its type, its length, one strict object in it.

use std::future::Future;
use std::time::Duration;

use actix_http::error::PayloadError;
use actix_web::HttpRequest;
use actix_web::http::header;
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::StreamExt as _;
use perilune_proto::json::{Document, Faults, FieldFault, Flaw, Limits, Malformed, Shape};
use perilune_proto::limits::{FRAME_BYTES_MAX, FRAME_DEPTH_MAX};

use crate::server::problem::{Code, FieldError, Problem};

/// Most bytes of a JSON body: a frame's. The opaque parts have a limit of their own below it.
pub(crate) const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX;
/// How long a body may take to come, from the end of the request's head.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a body that must be `application/json`.
///
/// # Errors
/// 415, 413, 408, or 400 for one that breaks off.
pub(crate) async fn json_text(request: &HttpRequest, payload: Payload) -> Result<String, Problem> {
    expect_type(request, &["application/json"])?;
    let bytes = in_time(collect(request, payload, BODY_BYTES_MAX)).await?;
    String::from_utf8(bytes.into()).map_err(|_| Problem::new(Code::Malformed, "the body is not utf-8"))
}

/// Refuses a body where none is expected.
pub(crate) async fn no_body(request: &HttpRequest, payload: Payload) -> Result<(), Problem> {
    let bytes = in_time(collect(request, payload, 1_024)).await?;
    if bytes.is_empty() { Ok(()) } else { Err(Problem::new(Code::Malformed, "no body is expected")) }
}

/// Reads a text as one strict object.
///
/// # Errors
/// 400, or 413 for a text over the limit.
pub(crate) fn object<'a>(text: &'a str, shape: &'static Shape) -> Result<Document<'a>, Problem> {
    let limits = Limits { bytes: BODY_BYTES_MAX, depth: FRAME_DEPTH_MAX };
    Document::parse(text, shape, limits).map_err(|error| malformed(&error))
}

fn malformed(error: &Malformed) -> Problem {
    match error.flaw {
        Flaw::TooLong => Problem::new(Code::TooLarge, "the body is longer than the limit"),
        // A value of a known field that is nested too deep is that field's fault.
        Flaw::TooDeep if !error.pointer.is_empty() => {
            Problem::invalid_value(&error.pointer, "must not be nested so deep")
        }
        _ => Problem::new(Code::Malformed, format!("the body must be one strict json object: {}", error.flaw)),
    }
}

/// 422 with every bad field, where there is one.
///
/// # Errors
/// [`Problem`] with what `faults` collected.
pub(crate) fn refuse_faults(faults: Faults) -> Result<(), Problem> {
    if faults.is_empty() {
        return Ok(());
    }
    let errors = faults.into_vec().into_iter();
    Err(Problem::invalid(
        errors.map(|error| FieldError { reason: reason(&error.fault).into(), pointer: error.pointer }).collect(),
    ))
}

fn reason(fault: &FieldFault) -> String {
    fault.to_string()
}

/// Checks the media type; parameters such as a charset are ignored, encodings refused.
///
/// # Errors
/// 415.
pub(crate) fn expect_type(request: &HttpRequest, types: &[&str]) -> Result<(), Problem> {
    let encoded = request.headers().get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity");
    let mut given = request.headers().get_all(header::CONTENT_TYPE);
    let single = given.next().filter(|_| given.next().is_none()).and_then(|value| value.to_str().ok());
    let essence = single.and_then(|text| text.split(';').next()).map(str::trim);
    if !encoded && essence.is_some_and(|essence| types.iter().any(|known| essence.eq_ignore_ascii_case(known))) {
        return Ok(());
    }
    Err(Problem::new(Code::UnsupportedMediaType, format!("the body must be {} without an encoding", types[0])))
}

/// Refuses a body whose announced length is over the limit, before a byte of it is read.
pub(crate) fn check_length(request: &HttpRequest, limit: usize) -> Result<(), Problem> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let over = length.and_then(|text| text.parse::<u64>().ok()).is_some_and(|length| length > limit as u64);
    if over { Err(too_large()) } else { Ok(()) }
}

async fn collect(request: &HttpRequest, mut payload: Payload, limit: usize) -> Result<Bytes, Problem> {
    check_length(request, limit)?;
    let mut bytes = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| broken(&error))?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// Bounds a read of the body.
///
/// # Errors
/// 408, or what the read says.
pub(crate) async fn in_time<T>(read: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let late = |_| Problem::new(Code::Timeout, "the body did not come in time");
    tokio::time::timeout(BODY_TIMEOUT, read).await.map_err(late)?
}

/// What a body that broke off or overflowed is refused with.
pub(crate) fn broken(error: &PayloadError) -> Problem {
    match error {
        PayloadError::Overflow => too_large(),
        _ => Problem::new(Code::Malformed, "the body broke off"),
    }
}

fn too_large() -> Problem {
    Problem::new(Code::TooLarge, "the body is longer than the limit")
}
