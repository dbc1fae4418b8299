//! From text to a result event.

use super::decode::no_twins;
use super::{FrameError, shape};
use crate::event::{ResultEvent, Snapshot, TaskError};
use crate::json::{Document, Field, FieldError, Limits, Object};
use crate::limits::OPAQUE_DEPTH_MAX;

/// Reads an `event` object that stands alone, as a server stores it.
///
/// # Errors
/// [`FrameError`] for whatever could not be the `event` of a delivery.
pub fn decode_event(text: &str) -> Result<ResultEvent, FrameError> {
    let document = Document::parse(text, &shape::EVENT, Limits::FRAME)?;
    no_twins(&document)?;
    Ok(event(document.root())?)
}

/// Reads an event; what it states twice must agree.
#[inline]
pub(super) fn event(event: Object<'_, '_>) -> Result<ResultEvent, FieldError> {
    let event_id = event.field("event_id").parse()?;
    let sequence = event.field("sequence").parse()?;
    let kind = event.field("type");
    let queue = event.field("queue");
    let task_id = event.field("task_id");
    let task_version = event.field("task_version");
    let occurred_at = event.field("occurred_at").parse()?;
    let frozen = event.field("snapshot").object()?;
    let snapshot = snapshot(frozen)?;
    same(task_id, frozen.field("task_id"), "the same as the snapshot's task_id")?;
    same(queue, frozen.field("queue"), "the same as the snapshot's queue")?;
    same(task_version, frozen.field("version"), "the same as the snapshot's version")?;
    let expected = "task. and the snapshot's status";
    if kind.text(expected)? != snapshot.status.event_type() {
        return Err(kind.must_be(expected));
    }
    Ok(ResultEvent { event_id, sequence, occurred_at, snapshot })
}

#[inline]
fn snapshot(snapshot: Object<'_, '_>) -> Result<Snapshot, FieldError> {
    Ok(Snapshot {
        task_id: snapshot.field("task_id").parse()?,
        queue: snapshot.field("queue").parse()?,
        operation: snapshot.field("operation").parse()?,
        status: snapshot.field("status").parse()?,
        version: snapshot.field("version").parse()?,
        created_at: snapshot.field("created_at").parse()?,
        updated_at: snapshot.field("updated_at").parse()?,
        payload: snapshot.field("payload").opaque(OPAQUE_DEPTH_MAX)?,
        result: snapshot.field("result").opaque(OPAQUE_DEPTH_MAX)?,
        error: task_error(snapshot.field("error"))?,
    })
}

fn task_error(field: Field<'_, '_>) -> Result<Option<TaskError>, FieldError> {
    match field.kind() {
        crate::json::Kind::Null => Ok(None),
        crate::json::Kind::Object => {
            let error = field.object()?;
            let any = 0..=usize::MAX;
            let code = error.field("code").string(any.clone())?;
            Ok(Some(TaskError { code, message: error.field("message").string(any)? }))
        }
        _ => Err(field.required()?.must_be("null or an object")),
    }
}

/// Two scalars that must be the same. Their forms are canonical, so the texts decide, and the first
/// needs no check of its own where the second has been read.
fn same(field: Field<'_, '_>, read: Field<'_, '_>, expected: &'static str) -> Result<(), FieldError> {
    // Mostly they are the same as they stand there, and need no unescaping.
    let alike = field.raw() == read.raw() || field.text(expected)? == read.text(expected)?;
    if alike { Ok(()) } else { Err(field.must_be(expected)) }
}
