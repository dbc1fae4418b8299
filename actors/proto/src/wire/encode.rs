//! From frames to text. What is written here is read back by the decoder as the same frame.

use std::fmt::{self, Write as _};

use super::{Ack, Acked, ClientFrame, Delivery, ErrorFrame, Ping, Pong, Register, ServerFrame, Welcome};
use crate::event::{ResultEvent, Snapshot};
use crate::json::push_string;
use crate::proof::EventProof;
use crate::scalar::{SessionId, Written};

/// Writes a frame of a client.
#[must_use]
pub fn encode_client(frame: &ClientFrame) -> String {
    match frame {
        ClientFrame::Register(frame) => register(frame),
        ClientFrame::Ack(frame) => ack(frame),
        ClientFrame::Ping(frame) => ping(frame),
    }
}

/// Writes a frame of a server.
#[must_use]
pub fn encode_server(frame: &ServerFrame) -> String {
    match frame {
        ServerFrame::Welcome(frame) => welcome(frame),
        ServerFrame::Delivery(frame) => delivery(frame),
        ServerFrame::Acked(frame) => acked(frame),
        ServerFrame::Pong(frame) => pong(frame),
        ServerFrame::Error(frame) => error(frame),
    }
}

/// Writes a `delivery` around the text of its event, which is taken as it is: it must be one that
/// [`encode_event`] wrote or [`decode_event`](super::decode_event) accepts.
#[must_use]
pub fn encode_delivery(session_id: SessionId, proof: &EventProof, lease_ms: u32, event: &str) -> String {
    let mut text = String::with_capacity(event.len() + 384);
    let mut object = Writer::begin(&mut text);
    object.text("type", "delivery");
    object.scalar("session_id", session_id);
    object.object("delivery", |leased| {
        leased.scalar("delivery_id", proof.delivery_id);
        leased.scalar("subscription_id", proof.subscription_id);
        leased.scalar("event_id", proof.event_id);
        leased.scalar("generation", proof.generation);
        leased.scalar("secret", &proof.secret);
        leased.literal("lease_ms", lease_ms);
    });
    object.raw("event", event);
    object.end();
    text
}

/// Writes the `event` object: what a server freezes, and what a consumer's command or URL gets.
/// Payload and result are written byte for byte.
#[must_use]
pub fn encode_event(event: &ResultEvent) -> String {
    let snapshot = &event.snapshot;
    let mut text = String::with_capacity(snapshot.payload.as_str().len() + snapshot.result.as_str().len() + 768);
    let mut object = Writer::begin(&mut text);
    object.scalar("event_id", event.event_id);
    object.scalar("sequence", event.sequence);
    object.text("type", event.event_type());
    object.scalar("queue", event.queue());
    object.scalar("task_id", event.task_id());
    object.scalar("task_version", event.task_version());
    object.scalar("occurred_at", event.occurred_at);
    object.object("snapshot", |object| write_snapshot(object, snapshot));
    object.end();
    text
}

/// Writes the `snapshot` object: a task as one of its events froze it.
#[must_use]
pub fn encode_snapshot(snapshot: &Snapshot) -> String {
    let mut text = String::with_capacity(snapshot.payload.as_str().len() + snapshot.result.as_str().len() + 512);
    let mut object = Writer::begin(&mut text);
    write_snapshot(&mut object, snapshot);
    object.end();
    text
}

fn write_snapshot(object: &mut Writer<'_>, snapshot: &Snapshot) {
    object.scalar("task_id", snapshot.task_id);
    object.scalar("queue", &snapshot.queue);
    object.scalar("operation", &snapshot.operation);
    object.text("status", snapshot.status.as_str());
    object.scalar("version", snapshot.version);
    object.scalar("created_at", snapshot.created_at);
    object.scalar("updated_at", snapshot.updated_at);
    object.raw("payload", snapshot.payload.as_str());
    object.raw("result", snapshot.result.as_str());
    match &snapshot.error {
        None => object.raw("error", "null"),
        Some(error) => object.object("error", |object| {
            object.text("code", &error.code);
            object.text("message", &error.message);
        }),
    }
}

fn register(frame: &Register) -> String {
    frame_text("register", |object| {
        object.scalar("message_id", frame.message_id);
        object.scalar("subscription_id", frame.subscription_id);
        object.literal("capacity", frame.capacity);
    })
}

fn ack(frame: &Ack) -> String {
    frame_text("ack", |object| {
        object.scalar("session_id", frame.session_id);
        object.scalar("message_id", frame.message_id);
        object.scalar("delivery_id", frame.delivery_id);
        object.scalar("generation", frame.generation);
        object.scalar("secret", &frame.secret);
    })
}

fn ping(frame: &Ping) -> String {
    frame_text("ping", |object| {
        object.scalar("session_id", frame.session_id);
        object.scalar("message_id", frame.message_id);
    })
}

fn welcome(frame: &Welcome) -> String {
    frame_text("welcome", |object| {
        object.scalar("reply_to", frame.reply_to);
        object.scalar("session_id", frame.session_id);
        object.object("subscription", |object| {
            object.scalar("subscription_id", frame.subscription_id);
            object.text("name", &frame.subscription_name);
            object.literal("enabled", frame.enabled);
        });
        object.literal("capacity", frame.capacity);
        object.literal("heartbeat_interval_ms", frame.heartbeat_interval_ms);
        object.literal("lease_ms", frame.lease_ms);
        object.scalar("server_time", frame.server_time);
    })
}

fn delivery(frame: &Delivery) -> String {
    encode_delivery(frame.session_id, &frame.proof, frame.lease_ms, &encode_event(&frame.event))
}

fn acked(frame: &Acked) -> String {
    frame_text("acked", |object| {
        object.scalar("session_id", frame.session_id);
        object.scalar("reply_to", frame.reply_to);
        object.scalar("delivery_id", frame.delivery_id);
        object.scalar("event_id", frame.event_id);
        object.scalar("generation", frame.generation);
        object.literal("replayed", frame.replayed);
    })
}

fn pong(frame: &Pong) -> String {
    frame_text("pong", |object| {
        object.scalar("session_id", frame.session_id);
        object.scalar("reply_to", frame.reply_to);
        object.literal("enabled", frame.enabled);
    })
}

fn error(frame: &ErrorFrame) -> String {
    frame_text("error", |object| {
        if let Some(session_id) = frame.session_id {
            object.scalar("session_id", session_id);
        }
        if let Some(reply_to) = frame.reply_to {
            object.scalar("reply_to", reply_to);
        }
        object.text("code", frame.code.as_str());
        object.text("message", &frame.message);
        if let Some(retry_after_ms) = frame.retry_after_ms {
            object.literal("retry_after_ms", retry_after_ms);
        }
    })
}

fn frame_text(kind: &str, fields: impl FnOnce(&mut Writer<'_>)) -> String {
    let mut text = String::with_capacity(384);
    let mut object = Writer::begin(&mut text);
    object.text("type", kind);
    fields(&mut object);
    object.end();
    text
}

/// Writes one object, key by key.
struct Writer<'t> {
    text: &'t mut String,
    separator: char,
}

impl<'t> Writer<'t> {
    const fn begin(text: &'t mut String) -> Self {
        Self { text, separator: '{' }
    }

    fn end(self) {
        self.text.push('}');
    }

    fn key(&mut self, name: &str) {
        self.text.push(self.separator);
        self.separator = ',';
        self.text.push('"');
        self.text.push_str(name);
        self.text.push_str("\":");
    }

    /// Any text.
    fn text(&mut self, name: &str, value: &str) {
        self.key(name);
        push_string(self.text, value);
    }

    /// A string whose characters never need an escape.
    fn scalar(&mut self, name: &str, value: impl Written) {
        self.key(name);
        self.text.push('"');
        value.push_to(self.text);
        self.text.push('"');
    }

    /// A number or a boolean.
    fn literal(&mut self, name: &str, value: impl fmt::Display) {
        self.key(name);
        write!(self.text, "{value}").expect("a string takes whatever is written");
    }

    /// JSON as it is.
    fn raw(&mut self, name: &str, value: &str) {
        self.key(name);
        self.text.push_str(value);
    }

    fn object(&mut self, name: &str, fields: impl FnOnce(&mut Writer<'_>)) {
        self.key(name);
        let mut inner = Writer::begin(self.text);
        fields(&mut inner);
        inner.end();
    }
}
