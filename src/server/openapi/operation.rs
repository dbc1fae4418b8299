//! What operations have in common: parameters, refusals, headers.

use serde_json::{Map, Value, json};

use super::schema::schema;
use crate::server::problem::{Code, PROBLEM_JSON};

/// One operation of the document, in the making.
pub(super) struct Operation {
    document: Map<String, Value>,
    responses: Map<String, Value>,
}

/// Which statuses every operation with a credential may answer.
const WITH_CREDENTIAL: [u16; 5] = [401, 403, 422, 429, 503];

impl Operation {
    /// An operation that needs a credential with a scope.
    pub(super) fn new(id: &str, tag: &str, summary: &str) -> Self {
        let mut operation = Self::open(id, tag, summary);
        operation.document.remove("security");
        operation.refuses(&WITH_CREDENTIAL)
    }

    /// An operation that needs none.
    pub(super) fn open(id: &str, tag: &str, summary: &str) -> Self {
        let document = json!({"operationId": id, "tags": [tag], "summary": summary, "security": []});
        let Value::Object(document) = document else { unreachable!("an object was written") };
        Self { document, responses: Map::new() }
    }

    /// Adds longer words.
    pub(super) fn description(mut self, text: &str) -> Self {
        self.document.insert("description".to_owned(), json!(text));
        self
    }

    /// Takes a JSON body.
    pub(super) fn takes(mut self, body: &str) -> Self {
        let body = json!({"required": true, "content": {"application/json": {"schema": schema(body)}}});
        self.document.insert("requestBody".to_owned(), body);
        self.refuses(&[400, 408, 413, 415])
    }

    /// Takes a text of another media type.
    pub(super) fn takes_text(mut self, media_type: &str, description: &str) -> Self {
        let body = json!({"required": true, "content": {media_type: {"schema": {"type": "string", "minLength": 1, "description": description}}}});
        self.document.insert("requestBody".to_owned(), body);
        self.refuses(&[400, 408, 413, 415])
    }

    /// Takes no body, and refuses one.
    pub(super) fn takes_nothing(self) -> Self {
        self.refuses(&[400, 408, 413])
    }

    /// Has parameters besides those of its path.
    pub(super) fn parameters(mut self, parameters: &[Value]) -> Self {
        self.document.insert("parameters".to_owned(), json!(parameters));
        self
    }

    /// Answers with JSON.
    pub(super) fn gives(self, status: u16, text: &str, body: &str) -> Self {
        self.gives_as(status, text, "application/json", &schema(body))
    }

    /// Answers with another media type.
    pub(super) fn gives_as(mut self, status: u16, text: &str, media_type: &str, body: &Value) -> Self {
        let mut answer = json!({"description": text, "content": {media_type: {"schema": body}}});
        if media_type != "text/plain" {
            answer["headers"] = json!({"Cache-Control": header("Cache-Control")});
        }
        self.responses.insert(status.to_string(), answer);
        self
    }

    /// Adds a header to an answer that was declared.
    pub(super) fn with_header(mut self, status: u16, name: &str) -> Self {
        if let Some(answer) = self.responses.get_mut(&status.to_string()) {
            answer["headers"][name] = header(name);
        }
        self
    }

    /// Says which operations take which part of an answer as which parameter: JSON pointers into the body.
    pub(super) fn leads_to(mut self, status: u16, parameter: &str, pointer: &str, operations: &[&str]) -> Self {
        if let Some(answer) = self.responses.get_mut(&status.to_string()) {
            for id in operations {
                let source = format!("$response.body#{pointer}");
                answer["links"][*id] = json!({"operationId": id, "parameters": {parameter: source}});
            }
        }
        self
    }

    /// Answers without a body.
    pub(super) fn gives_nothing(mut self, status: u16, text: &str) -> Self {
        self.responses.insert(status.to_string(), json!({"description": text}));
        self
    }

    /// Refuses with these statuses.
    pub(super) fn refuses(mut self, statuses: &[u16]) -> Self {
        for status in statuses {
            let reference = json!({"$ref": format!("#/components/responses/{}", refusal_name(*status))});
            self.responses.insert(status.to_string(), reference);
        }
        self
    }

    /// The operation as it stands in the document.
    pub(super) fn finish(mut self) -> Value {
        self.document.insert("responses".to_owned(), self.responses.into());
        self.document.into()
    }
}

/// A reference to a parameter.
pub(super) fn parameter(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

fn header(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

fn refusal_name(status: u16) -> String {
    format!("Refused{status}")
}

/// Parameters by name.
pub(super) fn parameters() -> Value {
    let path = |name: &str, of: &str| json!({"name": name, "in": "path", "required": true, "schema": schema(of)});
    json!({
        "SubscriptionId": path("id", "Id"),
        "DeliveryId": path("delivery_id", "Id"),
        "TaskId": path("task_id", "Id"),
        "Queue": path("queue", "Name"),
        "After": {
            "name": "after", "in": "query", "schema": schema("Id"),
            "description": "`next` of the page before.",
        },
        "Limit": {
            "name": "limit", "in": "query",
            "schema": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 100},
        },
        "State": {
            "name": "state", "in": "query", "style": "form", "explode": false,
            "schema": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["ready", "leased", "expired", "acknowledged"]}},
            "description": "Only these states, separated by commas; all but acknowledged where it is left out.",
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key", "in": "header",
            "schema": {"type": "string", "pattern": "^[!-~]([ -~]{0,253}[!-~])?$"},
            "description": "Makes the same report safe to send again for 24 hours.",
        },
    })
}

/// Refusals by status.
pub(super) fn responses() -> Value {
    let mut responses = Map::new();
    for status in Code::ALL.iter().map(|code| code.status()) {
        let titles: Vec<_> = Code::ALL.iter().filter(|code| code.status() == status).map(|code| code.title()).collect();
        let mut headers = json!({"Cache-Control": header("Cache-Control")});
        let more: &[&str] = match status {
            401 => &["WWW-Authenticate"],
            405 => &["Allow"],
            426 => &["Upgrade", "Sec-WebSocket-Version"],
            429 | 503 => &["Retry-After"],
            _ => &[],
        };
        for name in more {
            headers[*name] = header(name);
        }
        let answer = json!({
            "description": titles.join("; or "),
            "headers": headers,
            "content": {PROBLEM_JSON: {"schema": schema("Problem")}},
        });
        responses.insert(refusal_name(status), answer);
    }
    responses.into()
}

/// Headers by name.
pub(super) fn headers() -> Value {
    let text = |description: &str| json!({"description": description, "required": true, "schema": {"type": "string"}});
    let fixed = |value: &str| json!({"required": true, "schema": {"type": "string", "const": value}});
    json!({
        "Allow": text("The resource's methods."),
        "Cache-Control": fixed("no-store"),
        "Location": text("The new resource."),
        "Retry-After": {
            "description": "Whole seconds to wait.",
            "required": true,
            "schema": {"type": "integer", "minimum": 0},
        },
        "Sec-WebSocket-Version": fixed("13"),
        "Upgrade": fixed("websocket"),
        "WWW-Authenticate": fixed("Bearer"),
    })
}
