//! Deliveries and receipts that are written just as [`super::encode`] writes them, read in one go.
//!
//! Nearly every frame of a session is one of these two, from a writer that puts no white space and keeps the
//! contract's order. Where each byte is known but for the values, there is no key to look up, no duplicate and no
//! twin to look for, and what is stated twice is compared as text. Whatever differs, be it good or bad, gives `None`
//! here and is left to [`super::decode`], which finds the same in all that is read here.

#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::Arc;

use super::{Acked, Delivery, ServerFrame};
use crate::event::{ResultEvent, Snapshot, TaskError};
use crate::json::{RawJson, next_special};
use crate::limits::{FRAME_BYTES_MAX, LEASE_LEFT_MS, OPAQUE_DEPTH_MAX};
use crate::proof::EventProof;
use crate::scalar::{EventId, Generation, Sequence, TaskVersion, Timestamp, parse_u64};

/// The frame, where it is one of the two.
pub(super) fn server_frame(text: &str) -> Option<ServerFrame> {
    if text.len() > FRAME_BYTES_MAX {
        return None;
    }
    let mut frame = Reader { rest: text };
    frame.literal(r#"{"type":""#)?;
    if frame.literal(r#"acked","session_id":""#).is_some() {
        acked(frame).map(ServerFrame::Acked)
    } else {
        frame.literal(r#"delivery","session_id":""#)?;
        delivery(frame).map(ServerFrame::Delivery)
    }
}

fn acked(mut frame: Reader<'_>) -> Option<Acked> {
    let session_id = frame.id()?;
    frame.literal(r#"","reply_to":""#)?;
    let reply_to = frame.id()?;
    frame.literal(r#"","delivery_id":""#)?;
    let delivery_id = frame.id()?;
    frame.literal(r#"","event_id":""#)?;
    let event_id = frame.id()?;
    frame.literal(r#"","generation":""#)?;
    let generation = frame.generation()?;
    frame.literal(r#"","replayed":"#)?;
    let replayed = match frame.rest {
        "true}" => true,
        "false}" => false,
        _ => return None,
    };
    Some(Acked { session_id, reply_to, delivery_id, event_id, generation, replayed })
}

fn delivery(mut frame: Reader<'_>) -> Option<Delivery> {
    let session_id = frame.id()?;
    frame.literal(r#"","delivery":{"delivery_id":""#)?;
    let delivery_id = frame.id()?;
    frame.literal(r#"","subscription_id":""#)?;
    let subscription_id = frame.id()?;
    frame.literal(r#"","event_id":""#)?;
    let event_id_text = frame.take(32)?;
    frame.literal(r#"","generation":""#)?;
    let generation = frame.generation()?;
    frame.literal(r#"","secret":""#)?;
    let secret = frame.take(43)?.parse().ok()?;
    frame.literal(r#"","lease_ms":"#)?;
    let (lease_ms, _) = frame.count()?;
    let lease_ms = u32::try_from(lease_ms).ok().filter(|ms| LEASE_LEFT_MS.contains(ms))?;
    frame.literal(r#"},"event":{"event_id":""#)?;
    frame.literal(event_id_text)?;
    let event_id = event_id_text.parse().ok()?;
    let event = Arc::new(event(frame, event_id)?);
    let proof = EventProof { subscription_id, delivery_id, event_id, generation, secret };
    Some(Delivery { session_id, proof, lease_ms, event })
}

/// The event from behind its id on, up to the frame's end.
#[inline]
fn event(mut frame: Reader<'_>, event_id: EventId) -> Option<ResultEvent> {
    frame.literal(r#"","sequence":""#)?;
    let (sequence, _) = frame.count()?;
    frame.literal(r#"","type":"task."#)?;
    let status_text = frame.string()?;
    frame.literal(r#","queue":""#)?;
    let queue_text = frame.string()?;
    frame.literal(r#","task_id":""#)?;
    let task_id_text = frame.take(32)?;
    frame.literal(r#"","task_version":""#)?;
    let (version, version_text) = frame.count()?;
    frame.literal(r#"","occurred_at":""#)?;
    let occurred_at_text = frame.string()?;
    let occurred_at = occurred_at_text.parse().ok()?;
    frame.literal(r#","snapshot":{"task_id":""#)?;
    frame.literal(task_id_text)?;
    frame.literal(r#"","queue":""#)?;
    frame.literal(queue_text)?;
    frame.literal(r#"","operation":""#)?;
    let operation = frame.string()?.parse().ok()?;
    frame.literal(r#","status":""#)?;
    frame.literal(status_text)?;
    frame.literal(r#"","version":""#)?;
    frame.literal(version_text)?;
    frame.literal(r#"","created_at":""#)?;
    let created_at = frame.string()?.parse().ok()?;
    frame.literal(r#","updated_at":""#)?;
    let updated_at = frame.time(occurred_at_text, occurred_at)?;
    frame.literal(r#","payload":"#)?;
    let payload = frame.opaque()?;
    frame.literal(r#","result":"#)?;
    let result = frame.opaque()?;
    frame.literal(r#","error":"#)?;
    let error = frame.error()?;
    if frame.rest != "}}}" {
        return None;
    }
    let snapshot = Snapshot {
        task_id: task_id_text.parse().ok()?,
        queue: queue_text.parse().ok()?,
        operation,
        status: status_text.parse().ok()?,
        version: TaskVersion(version),
        created_at,
        updated_at,
        payload,
        result,
        error,
    };
    Some(ResultEvent { event_id, sequence: Sequence(sequence), occurred_at, snapshot })
}

/// What is left of a frame.
#[derive(Clone, Copy)]
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Passes over a text that is known.
    #[inline(always)]
    fn literal(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// So many bytes, whatever they are.
    #[inline(always)]
    fn take(&mut self, bytes: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline(always)]
    fn id<T: FromStr>(&mut self) -> Option<T> {
        self.take(32)?.parse().ok()
    }

    /// A string without escapes, from behind its quote on. Its end is passed over.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        let text = &self.rest[..next_special(self.rest.as_bytes(), 0)];
        self.rest = self.rest[text.len()..].strip_prefix('"')?;
        Some(text)
    }

    /// A canonical decimal, and how it is written.
    #[inline]
    fn count(&mut self) -> Option<(u64, &'a str)> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let text = self.take(digits)?;
        Some((parse_u64(text).ok()?, text))
    }

    #[inline(always)]
    fn generation(&mut self) -> Option<Generation> {
        let (generation, _) = self.count()?;
        (generation > 0).then_some(Generation(generation))
    }

    /// A time, often the same as one that was read before. Its end is passed over.
    #[inline(always)]
    fn time(&mut self, before_text: &str, before: Timestamp) -> Option<Timestamp> {
        let text = self.string()?;
        if text == before_text { Some(before) } else { text.parse().ok() }
    }

    fn opaque(&mut self) -> Option<RawJson> {
        let (value, rest) = RawJson::leading(self.rest, OPAQUE_DEPTH_MAX)?;
        self.rest = rest;
        Some(value)
    }

    /// `null`, or what went wrong.
    fn error(&mut self) -> Option<Option<TaskError>> {
        if self.literal("null").is_some() {
            return Some(None);
        }
        self.literal(r#"{"code":""#)?;
        let code = self.string()?;
        self.literal(r#","message":""#)?;
        let message = self.string()?;
        self.literal("}")?;
        Some(Some(TaskError { code: code.to_owned(), message: message.to_owned() }))
    }
}
