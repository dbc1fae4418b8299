//! A report as it comes, alone or as a line of a batch.

use std::str::FromStr;

use perilune_proto::event::{Status, TaskError};
use perilune_proto::json::{Document, Faults, FieldError, Key, Object, RawJson, Shape};
use perilune_proto::limits::{OPAQUE_DEPTH_MAX, REPORT_OPAQUE_BYTES_MAX};
use perilune_proto::scalar::{Name, ScalarError, TaskId};
use sha2::{Digest as _, Sha256};

use crate::server::problem::{Code, Problem};
use crate::server::request::body::{object, refuse_faults};
use crate::server::store::{CredentialId, IdempotencyKey, Report, Verdict, WrittenEvent};

/// Longest code and message of an error, in characters: the limit on the opaque parts bounds them, too.
const ANY_LENGTH: std::ops::RangeInclusive<usize> = 0..=usize::MAX;

static ERROR: Shape = Shape::new(&[Key::new("code"), Key::new("message")]);
static BODY: Shape = Shape::new(&[
    Key::new("operation"),
    Key::new("status"),
    Key::new("payload"),
    Key::new("result"),
    Key::object("error", &ERROR),
]);
static LINE: Shape = Shape::new(&[
    Key::new("operation"),
    Key::new("status"),
    Key::new("payload"),
    Key::new("result"),
    Key::object("error", &ERROR),
    Key::new("queue"),
    Key::new("task_id"),
    Key::new("idempotency_key"),
]);

/// Where a report goes.
pub(super) struct Addressed {
    pub(super) queue: Name,
    pub(super) task_id: TaskId,
    pub(super) key: Option<Key255>,
}

/// Reads the body of a report whose queue and task the path names.
///
/// # Errors
/// 400, 413, or 422 with every bad field; `fault` is one that was found before.
pub(super) fn body(
    text: &str,
    credential_id: CredentialId,
    queue: Name,
    task_id: Result<TaskId, FieldError>,
    key: Option<Result<Key255, FieldError>>,
) -> Result<Report, Problem> {
    let document = object(text, &BODY)?;
    let mut faults = Faults::of(&document);
    let task_id = faults.keep(task_id);
    let key = key.map(|key| faults.keep(key));
    let parts = Parts::read(document.root(), &mut faults)?;
    refuse_faults(faults)?;
    let (Some(task_id), Some(parts)) = (task_id, parts) else { return Err(unread()) };
    Ok(parts.into_report(text, credential_id, Addressed { queue, task_id, key: key.flatten() }))
}

/// Reads a line of a batch. `reaches` says whether a queue is one of the credential's.
///
/// # Errors
/// 400, 403, 413, or 422 with every bad field.
pub(super) fn line(
    text: &str,
    credential_id: CredentialId,
    reaches: impl FnOnce(&Name) -> Result<(), Problem>,
) -> Result<Report, Problem> {
    let document = object(text, &LINE)?;
    let mut faults = Faults::of(&document);
    let addressed = addressed(&document, &mut faults);
    let parts = Parts::read(document.root(), &mut faults)?;
    refuse_faults(faults)?;
    let (Some(addressed), Some(parts)) = (addressed, parts) else { return Err(unread()) };
    reaches(&addressed.queue)?;
    Ok(parts.into_report(text, credential_id, addressed))
}

fn addressed(document: &Document<'_>, faults: &mut Faults) -> Option<Addressed> {
    let root = document.root();
    let queue = faults.keep(root.field("queue").parse());
    let task_id = faults.keep(root.field("task_id").parse());
    let key = faults.keep(root.field("idempotency_key").unless_null().map(|key| key.parse()).transpose());
    Some(Addressed { queue: queue?, task_id: task_id?, key: key? })
}

/// What a report says, wherever it goes.
struct Parts {
    operation: Name,
    status: Status,
    payload: RawJson,
    result: RawJson,
    error: Option<TaskError>,
}

impl Parts {
    /// Reads the fields; 413 where the opaque ones together are too long. `None` where one is bad.
    fn read(root: Object<'_, '_>, faults: &mut Faults) -> Result<Option<Self>, Problem> {
        let opaque_bytes: usize = ["payload", "result", "error"].iter().map(|name| root.field(name).raw().len()).sum();
        if opaque_bytes > REPORT_OPAQUE_BYTES_MAX {
            let detail = format!("payload, result and error together may have {REPORT_OPAQUE_BYTES_MAX} bytes");
            return Err(Problem::new(Code::TooLarge, detail));
        }
        let operation = faults.keep(root.field("operation").parse());
        let status = faults.keep(root.field("status").parse());
        let payload = opaque(root, "payload", faults);
        let result = opaque(root, "result", faults);
        let error = task_error(root, faults);
        let whole =
            || Some(Self { operation: operation?, status: status?, payload: payload?, result: result?, error: error? });
        Ok(whole())
    }

    fn into_report(self, text: &str, credential_id: CredentialId, to: Addressed) -> Report {
        let idempotency =
            to.key.map(|key| IdempotencyKey { key: key.0, body_sha256: Sha256::digest(text.as_bytes()).into() });
        Report {
            credential_id,
            queue: to.queue,
            task_id: to.task_id,
            operation: self.operation,
            status: self.status,
            payload: self.payload,
            result: self.result,
            error: self.error,
            idempotency,
        }
    }
}

/// An opaque field; an absent one is null in the snapshot.
fn opaque(root: Object<'_, '_>, name: &'static str, faults: &mut Faults) -> Option<RawJson> {
    let field = root.field(name).if_present();
    let read = faults.keep(field.map(|field| field.opaque(OPAQUE_DEPTH_MAX)).transpose())?;
    Some(read.unwrap_or_else(RawJson::null))
}

/// `None` where it is bad, `Some(None)` where there is none.
fn task_error(root: Object<'_, '_>, faults: &mut Faults) -> Option<Option<TaskError>> {
    let Some(field) = root.field("error").unless_null() else { return Some(None) };
    let error = faults.keep(field.object())?;
    let code = faults.keep(error.field("code").string(ANY_LENGTH));
    let message = faults.keep(error.field("message").string(ANY_LENGTH));
    Some(Some(TaskError { code: code?, message: message? }))
}

/// An idempotency key: 1 to 255 printable ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key255(String);

impl FromStr for Key255 {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if (1..=255).contains(&text.len()) && text.bytes().all(|c| matches!(c, b' '..=b'~')) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ScalarError { expected: "1 to 255 printable ascii characters" })
        }
    }
}

/// What a verdict of the store is to the reporter: the written event with its status, or a refusal.
pub(super) fn outcome(verdict: Verdict) -> Result<(u16, WrittenEvent), Problem> {
    match verdict {
        Verdict::Written(event) => Ok((201, event)),
        Verdict::Seen(event) => Ok((200, event)),
        Verdict::KeyReused => {
            Err(Problem::new(Code::IdempotencyMismatch, "the key was seen with another body for this task"))
        }
        Verdict::Terminal => Err(Problem::new(Code::TaskFinal, "nothing follows a final status")),
        Verdict::OtherQueue => Err(Problem::new(Code::TaskQueue, "the task was first reported on another queue")),
    }
}

/// A field that is neither good nor named as bad: can't be, and must not end in a panic.
fn unread() -> Problem {
    Problem::new(Code::Internal, "the report could not be read")
}
