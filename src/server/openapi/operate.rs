//! Sessions, health, metrics, the document itself.

use perilune_proto::limits::{EVENTS_PATH, SUBPROTOCOL};
use serde_json::json;

use super::Paths;
use super::operation::Operation;

const TAG: &str = "operating";

pub(super) fn paths() -> Paths {
    let status = |value: &str| json!({"type": "object", "required": ["status"], "properties": {"status": {"type": "string", "const": value}}});
    vec![
        (EVENTS_PATH, json!({"get": events().finish()})),
        (
            "/healthz",
            json!({
                "get": Operation::open("healthz", TAG, "Whether the process runs.")
                    .gives_as(200, "It does.", "application/json", &status("ok"))
                    .finish(),
            }),
        ),
        (
            "/readyz",
            json!({
                "get": Operation::open("readyz", TAG, "Whether the store answers and the server is not stopping.")
                    .gives_as(200, "It does.", "application/json", &status("ready"))
                    .refuses(&[503])
                    .finish(),
            }),
        ),
        (
            "/openapi.json",
            json!({
                "get": Operation::open("openapi", TAG, "This document.")
                    .gives_as(200, "OpenAPI 3.1.", "application/json", &json!({"type": "object"}))
                    .finish(),
            }),
        ),
    ]
}

/// `/metrics`, where it has no listener of its own.
pub(super) fn metrics() -> Paths {
    vec![(
        "/metrics",
        json!({
            "get": Operation::open("metrics", TAG, "The server's figures.")
                .gives_as(200, "The Prometheus text form.", "text/plain", &json!({"type": "string"}))
                .finish(),
        }),
    )]
}

fn events() -> Operation {
    let text = format!(
        "A WebSocket of the subprotocol `{SUBPROTOCOL}`, with the scope `consume`. The credential is judged before the \
         101, the subscription by frames after it. A request that asks for no WebSocket is refused with 426.",
    );
    Operation::new("events", "deliveries", "Receive events and confirm them.")
        .description(&text)
        .gives_nothing(101, "The protocol is switched.")
        .refuses(&[400, 426])
}
