//! Schemas of the document: the contract's scalars, and what the routes take and give.

use perilune_proto::event::Status;
use perilune_proto::limits::{BUDGET_ADD, BUDGET_DEFAULT, WINDOW, WINDOW_DEFAULT};
use serde_json::{Value, json};

use crate::server::problem::Code;
use crate::server::routes::form::{BACKOFF_MS, BUDGET, NAMES_MAX, STATUSES_MAX};

/// A reference to a schema.
pub(super) fn schema(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn schemas() -> Value {
    let mut all = scalars();
    for part in [reports(), subscriptions(), deliveries(), problems()] {
        if let (Some(all), Value::Object(part)) = (all.as_object_mut(), part) {
            all.extend(part);
        }
    }
    all
}

fn scalars() -> Value {
    json!({
        "Id": {"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "128 bits as 32 lowercase hexadecimal digits."},
        "U64": {
            "type": "string",
            "pattern": u64_pattern(),
            "description": "The canonical decimal of an unsigned 64-bit integer.",
        },
        "Name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$", "description": "A queue or an operation."},
        "Time": {"type": "string", "format": "date-time", "pattern": "Z$", "description": "RFC 3339 in UTC."},
        "Status": {"type": "string", "enum": Status::ALL.map(Status::as_str)},
        "TaskError": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        },
    })
}

/// The canonical decimals up to 18446744073709551615: those of fewer digits, then, digit by digit, those that
/// agree with the greatest up to there and are less in the next.
fn u64_pattern() -> String {
    let greatest = u64::MAX.to_string();
    let mut pattern = format!("^(0|[1-9][0-9]{{0,{}}}", greatest.len() - 2);
    for (at, digit) in greatest.char_indices() {
        let rest = greatest.len() - at - 1;
        let least = if at == 0 { '1' } else { '0' };
        if digit > least {
            let below = char::from(digit as u8 - 1);
            pattern.push_str(&format!("|{}[{least}-{below}][0-9]{{{rest}}}", &greatest[..at]));
        }
    }
    format!("{pattern}|{greatest})$")
}

fn reports() -> Value {
    let report = json!({
        "operation": schema("Name"),
        "status": schema("Status"),
        "payload": {"description": "The task's input: any JSON, kept byte for byte; null where it is left out."},
        "result": {"description": "The task's result: any JSON, kept byte for byte; null where it is left out."},
        "error": {"anyOf": [schema("TaskError"), {"type": "null"}]},
    });
    let snapshot = json!({
        "task_id": schema("Id"), "queue": schema("Name"), "operation": schema("Name"), "status": schema("Status"),
        "version": schema("U64"), "created_at": schema("Time"), "updated_at": schema("Time"),
        "payload": {}, "result": {}, "error": {"anyOf": [schema("TaskError"), {"type": "null"}]},
    });
    json!({
        "Report": {"type": "object", "required": ["operation", "status"], "properties": report},
        "Snapshot": {
            "type": "object",
            "required": ["task_id", "queue", "operation", "status", "version", "created_at", "updated_at", "payload", "result", "error"],
            "properties": snapshot,
        },
        "Event": {
            "type": "object",
            "required": ["event_id", "sequence", "type", "queue", "task_id", "task_version", "occurred_at", "snapshot"],
            "properties": {
                "event_id": schema("Id"), "sequence": schema("U64"),
                "type": {"type": "string", "enum": Status::ALL.map(Status::event_type)},
                "queue": schema("Name"), "task_id": schema("Id"), "task_version": schema("U64"),
                "occurred_at": schema("Time"), "snapshot": schema("Snapshot"),
            },
        },
    })
}

fn subscriptions() -> Value {
    let place = json!({
        "description": "A place in the log: behind its newest event, at its oldest, or at the first event whose sequence is this or more.",
        "oneOf": [
            {"type": "string", "enum": ["latest", "earliest"]},
            {"type": "object", "required": ["sequence"], "properties": {"sequence": schema("U64")}},
        ],
    });
    let milliseconds = json!({"type": "integer", "minimum": BACKOFF_MS.start(), "maximum": BACKOFF_MS.end()});
    let backoff = json!({
        "description": "How long lapsed deliveries wait: min_ms doubling to max_ms, which is not below it.",
        "type": "object",
        "required": ["min_ms", "max_ms"],
        "properties": {"min_ms": milliseconds, "max_ms": milliseconds},
    });
    let window =
        json!({"type": "integer", "minimum": WINDOW.start(), "maximum": WINDOW.end(), "default": WINDOW_DEFAULT});
    let budget =
        json!({"type": "integer", "minimum": BUDGET.start(), "maximum": BUDGET.end(), "default": BUDGET_DEFAULT});
    let name = json!({"type": "string", "minLength": 1, "maxLength": 128});
    let list = |of: &str, least: usize, most: usize| json!({"type": "array", "minItems": least, "maxItems": most, "items": schema(of)});
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "Place": place,
        "Backoff": backoff,
        "NewSubscription": {
            "type": "object",
            "required": ["name", "queues", "start"],
            "properties": {
                "name": name, "queues": list("Name", 1, NAMES_MAX),
                "statuses": list("Status", 0, STATUSES_MAX), "operations": list("Name", 0, NAMES_MAX),
                "start": schema("Place"), "window": window, "budget": budget, "backoff": schema("Backoff"),
            },
        },
        "Seek": {"type": "object", "required": ["to"], "properties": {"to": schema("Place")}},
        "Subscription": {
            "type": "object",
            "required": [
                "subscription_id", "name", "enabled", "blocked", "queues", "statuses", "operations", "window", "budget",
                "backoff", "created_at", "cursor", "lag", "ready", "leased", "expired", "acknowledged", "sessions",
            ],
            "properties": {
                "subscription_id": schema("Id"), "name": name,
                "enabled": {"type": "boolean", "description": "Whether it gets deliveries; false while it is paused."},
                "blocked": {"type": "boolean", "description": "Whether its window is full of EXPIRED deliveries."},
                "queues": list("Name", 1, NAMES_MAX), "statuses": list("Status", 0, STATUSES_MAX),
                "operations": list("Name", 0, NAMES_MAX), "window": window, "budget": budget,
                "backoff": schema("Backoff"), "created_at": schema("Time"), "cursor": schema("U64"),
                "lag": count, "ready": count, "leased": count, "expired": count, "acknowledged": count,
                "sessions": {"type": "integer", "minimum": 0, "description": "Sessions on this server."},
            },
        },
        "SubscriptionPage": page("Subscription"),
    })
}

fn deliveries() -> Value {
    json!({
        "AddBudget": {
            "type": "object",
            "required": ["add"],
            "properties": {"add": {"type": "integer", "minimum": BUDGET_ADD.start(), "maximum": BUDGET_ADD.end()}},
        },
        "Delivery": {
            "type": "object",
            "required": [
                "delivery_id", "event_id", "sequence", "type", "task_id", "task_version", "state", "generation", "budget",
                "due_at",
            ],
            "properties": {
                "delivery_id": schema("Id"), "event_id": schema("Id"), "sequence": schema("U64"),
                "type": {"type": ["string", "null"], "description": "Null, as are the next two, once the log no longer has the event."},
                "task_id": {"anyOf": [schema("Id"), {"type": "null"}]},
                "task_version": {"anyOf": [schema("U64"), {"type": "null"}]},
                "state": {"type": "string", "enum": ["ready", "leased", "expired", "acknowledged"]},
                "generation": schema("U64"), "budget": {"type": "integer", "minimum": 1},
                "due_at": schema("Time"),
            },
        },
        "DeliveryPage": page("Delivery"),
    })
}

fn page(of: &str) -> Value {
    json!({
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "maxItems": 1_000, "items": schema(of)},
            "next": {"type": ["string", "null"], "description": "What to pass as `after` for the next page."},
        },
    })
}

fn problems() -> Value {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let mut statuses: Vec<_> = Code::ALL.iter().map(|code| code.status()).collect();
    statuses.dedup();
    json!({
        "Problem": {
            "description": "RFC 9457.",
            "type": "object",
            "required": ["type", "title", "status", "code", "detail"],
            "properties": {
                "type": {"type": "string", "pattern": "^urn:perilune:problem:[a-z_]+$"},
                "title": {"type": "string"},
                "status": {"type": "integer", "enum": statuses},
                "code": {"type": "string", "enum": codes},
                "detail": {"type": "string"},
                "errors": {
                    "description": "One entry for each bad value.",
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["pointer", "reason"],
                        "properties": {
                            "pointer": {"type": "string", "pattern": "^/", "description": "JSON pointer into the body, or a parameter's name behind a slash."},
                            "reason": {"type": "string"},
                        },
                    },
                },
            },
        },
    })
}
