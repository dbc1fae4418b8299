//! The resource in OpenAPI 3.1, for an application to merge into its own document.

use serde_json::{Value, json};

use crate::outcome::lifecycle::OperationState;

/// The `paths` and `components` of the status resource, mounted below `base` (such as `/api`, or nothing).
///
/// `#/components/responses/OperationAccepted` is there for the application's own routes that accept operations: the
/// answer of [`acceptance_response`](super::acceptance_response).
#[must_use]
pub fn openapi_document(base: &str) -> Value {
    let path = format!("{}/operations/{{id}}", base.trim_end_matches('/'));
    let error = |description: &str, code: &str| {
        json!({
            "description": description,
            "headers": { "Cache-Control": { "schema": { "const": "private, no-store" } } },
            "content": { "application/json": { "schema": {
                "type": "object",
                "required": ["status", "code"],
                "additionalProperties": false,
                "properties": { "status": { "const": "error" }, "code": { "const": code } }
            } } }
        })
    };
    json!({
        "paths": { path: { "get": {
            "operationId": "readOperationStatus",
            "summary": "How an operation stands, and its outcome once it has completed",
            "parameters": [
                { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
                { "name": "Prefer", "in": "header", "schema": { "type": "string" },
                  "description": "`wait=N` holds the answer until the state changes, at most 30 seconds" }
            ],
            "responses": {
                "200": {
                    "description": "The operation",
                    "headers": {
                        "Cache-Control": { "schema": { "const": "private, no-store" } },
                        "Retry-After": { "schema": { "type": "integer", "minimum": 1, "maximum": 60 },
                                         "description": "For pending states" }
                    },
                    "content": { "application/json": { "schema": { "$ref": "#/components/schemas/OperationStatus" } } }
                },
                "401": error("Nobody was named", "unauthenticated"),
                "404": error("There is no such operation for the caller", "operation_unavailable"),
                "410": error("Its outcome was purged", "operation_expired"),
                "500": error("Something failed", "internal_error")
            }
        } } },
        "components": {
            "schemas": {
                "OperationStatus": { "oneOf": OperationState::ALL.map(state_schema) },
                "OperationAccepted": object(&json!({
                    "operationId": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
                    "acceptedAt": { "type": "string", "format": "date-time" }
                }))
            },
            "responses": { "OperationAccepted": {
                "description": "The operation was accepted; ask at `Location` how it stands",
                "headers": {
                    "Cache-Control": { "schema": { "const": "private, no-store" } },
                    "Location": { "schema": { "type": "string", "format": "uri-reference" } },
                    "Retry-After": { "schema": { "type": "integer", "minimum": 1, "maximum": 60 } }
                },
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/OperationAccepted" } } }
            } }
        }
    })
}

/// Adds the status resource's path and components to an application's own document. What stands there already, an
/// operation of a path or a named component, is left as it is.
pub fn merge_openapi(document: &mut Value, base: &str) {
    // `paths`, a path, its method; `components`, their kind, a name.
    merge(document, openapi_document(base), 3);
}

/// Adds what is not there, down to so many levels.
fn merge(into: &mut Value, from: Value, levels: u8) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) if levels > 0 => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value, levels - 1);
            }
        }
        (into @ Value::Null, from) => *into = from,
        _ => {}
    }
}

fn state_schema(state: OperationState) -> Value {
    let members = match state {
        OperationState::Accepted => json!({}),
        OperationState::Running => {
            json!({ "attempt": { "type": "integer", "minimum": 1 }, "reviewRequired": { "type": "boolean" } })
        }
        OperationState::RetryScheduled => json!({
            "attempt": { "type": "integer", "minimum": 1 },
            "retryAt": { "type": ["string", "null"], "format": "date-time" }
        }),
        OperationState::Completed => json!({ "outcome": {} }),
        OperationState::Rejected => json!({ "error": object(&json!({
            "category": { "type": "string" }, "code": { "type": "string" }
        })) }),
        OperationState::Failed => json!({ "error": object(&json!({ "code": { "const": "operation_failed" } })) }),
        OperationState::DeadLettered => {
            json!({ "error": object(&json!({ "code": { "const": "operation_dead_lettered" } })) })
        }
    };
    let mut all = json!({
        "schemaVersion": { "const": 1 },
        "operationId": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
        "operationType": { "type": "string" },
        "state": { "const": state.as_str() }
    });
    merge(&mut all, members, 1);
    object(&all)
}

/// An object with exactly these members, each of them present.
fn object(properties: &Value) -> Value {
    let required: Vec<String> = properties.as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
    json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
}
