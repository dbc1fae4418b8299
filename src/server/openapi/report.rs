//! Reports, batches and tasks.

use perilune_proto::limits::BATCH_LINES_MAX;
use serde_json::json;

use super::Paths;
use super::operation::{Operation, parameter};
use crate::server::config::ServerConfig;
use crate::server::routes::NDJSON;

const TAG: &str = "reports";

pub(super) fn paths(config: &ServerConfig) -> Paths {
    vec![
        (
            "/v1/queues/{queue}/tasks/{task_id}/events",
            json!({
                "parameters": [parameter("Queue"), parameter("TaskId")],
                "post": report().finish(),
            }),
        ),
        ("/v1/events:batch", json!({"post": batch(config).finish()})),
        (
            "/v1/tasks/{task_id}",
            json!({
                "parameters": [parameter("TaskId")],
                "get": Operation::new("task", TAG, "The task's current snapshot.")
                    .gives(200, "The snapshot.", "Snapshot")
                    .refuses(&[404])
                    .finish(),
            }),
        ),
    ]
}

fn report() -> Operation {
    Operation::new("report", TAG, "Report what happened to a task.")
        .description(
            "The scope `report` is needed, and the queue. Whatever is answered with 2xx is on disk. A task belongs to \
             the queue of its first report; nothing follows a final status (409).",
        )
        .parameters(&[parameter("IdempotencyKey")])
        .takes("Report")
        .gives(201, "The written event.", "Event")
        .leads_to(201, "task_id", "/task_id", &["task"])
        .gives(200, "The event that was written when the key was first seen with this body.", "Event")
        .refuses(&[409])
}

fn batch(config: &ServerConfig) -> Operation {
    let most = config.limits.batch_bytes;
    let text = format!(
        "NDJSON: one report a line with `queue`, `task_id` and an optional `idempotency_key` besides, at most \
         {BATCH_LINES_MAX} lines and {most} bytes. The answer has one verdict a line, in order: \
         `{{\"line\", \"status\", \"event\"}}` or `{{\"line\", \"status\", \"problem\"}}`. A bad line spoils no other.",
    );
    Operation::new("batch", TAG, "Report what happened to many tasks.")
        .description(&text)
        .takes_text(NDJSON, "Lines, each one JSON object.")
        .gives_as(200, "A verdict a line.", NDJSON, &json!({"type": "string"}))
}
