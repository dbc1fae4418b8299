//! The keys of each frame: what is read, and what a case twin is judged against.

use crate::json::{Key, Shape};

/// Only the type, for frames whose type does not come first.
pub(super) static TYPE: Shape = Shape::new(&[Key::new("type")]);

pub(super) static REGISTER: Shape =
    Shape::new(&[Key::new("type"), Key::new("message_id"), Key::new("subscription_id"), Key::new("capacity")]);

pub(super) static ACK: Shape = Shape::new(&[
    Key::new("type"),
    Key::new("session_id"),
    Key::new("message_id"),
    Key::new("delivery_id"),
    Key::new("generation"),
    Key::new("secret"),
]);

pub(super) static PING: Shape = Shape::new(&[Key::new("type"), Key::new("session_id"), Key::new("message_id")]);

static SUBSCRIPTION: Shape = Shape::new(&[Key::new("subscription_id"), Key::new("name"), Key::new("enabled")]);

pub(super) static WELCOME: Shape = Shape::new(&[
    Key::new("type"),
    Key::new("reply_to"),
    Key::new("session_id"),
    Key::object("subscription", &SUBSCRIPTION),
    Key::new("capacity"),
    Key::new("heartbeat_interval_ms"),
    Key::new("lease_ms"),
    Key::new("server_time"),
]);

static LEASED: Shape = Shape::new(&[
    Key::new("delivery_id"),
    Key::new("subscription_id"),
    Key::new("event_id"),
    Key::new("generation"),
    Key::new("secret"),
    Key::new("lease_ms"),
]);

static TASK_ERROR: Shape = Shape::new(&[Key::new("code"), Key::new("message")]);

static SNAPSHOT: Shape = Shape::new(&[
    Key::new("task_id"),
    Key::new("queue"),
    Key::new("operation"),
    Key::new("status"),
    Key::new("version"),
    Key::new("created_at"),
    Key::new("updated_at"),
    Key::new("payload"),
    Key::new("result"),
    Key::object("error", &TASK_ERROR),
]);

pub(super) static EVENT: Shape = Shape::new(&[
    Key::new("event_id"),
    Key::new("sequence"),
    Key::new("type"),
    Key::new("queue"),
    Key::new("task_id"),
    Key::new("task_version"),
    Key::new("occurred_at"),
    Key::object("snapshot", &SNAPSHOT),
]);

pub(super) static DELIVERY: Shape = Shape::new(&[
    Key::new("type"),
    Key::new("session_id"),
    Key::object("delivery", &LEASED),
    Key::object("event", &EVENT),
]);

pub(super) static ACKED: Shape = Shape::new(&[
    Key::new("type"),
    Key::new("session_id"),
    Key::new("reply_to"),
    Key::new("delivery_id"),
    Key::new("event_id"),
    Key::new("generation"),
    Key::new("replayed"),
]);

pub(super) static PONG: Shape =
    Shape::new(&[Key::new("type"), Key::new("session_id"), Key::new("reply_to"), Key::new("enabled")]);

pub(super) static ERROR: Shape = Shape::new(&[
    Key::new("type"),
    Key::new("session_id"),
    Key::new("reply_to"),
    Key::new("code"),
    Key::new("message"),
    Key::new("retry_after_ms"),
]);
