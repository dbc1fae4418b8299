//! Subscriptions.

use serde_json::{Value, json};

use super::Paths;
use super::operation::{Operation, parameter};

const TAG: &str = "subscriptions";

/// The operations on one subscription.
const OF_ONE: [&str; 7] = ["subscription", "unsubscribe", "pause", "resume", "seek", "deliveries", "budget_of_all"];

pub(super) fn paths() -> Paths {
    vec![
        (
            "/v1/subscriptions",
            json!({
                "get": Operation::new("subscriptions", TAG, "The credential's subscriptions, by their ids.")
                    .parameters(&[parameter("After"), parameter("Limit")])
                    .gives(200, "A page.", "SubscriptionPage")
                    .finish(),
                "post": Operation::new("subscribe", TAG, "Create a subscription.")
                    .description("It belongs to the credential and to a subset of its queues, for good.")
                    .takes("NewSubscription")
                    .gives(201, "The subscription.", "Subscription")
                    .with_header(201, "Location")
                .leads_to(201, "id", "/subscription_id", &OF_ONE)
                    .finish(),
            }),
        ),
        (
            "/v1/subscriptions/{id}",
            of_one(json!({
                "get": one("subscription", "Settings and live figures.").finish(),
                "delete": Operation::new("unsubscribe", TAG, "Delete it; its sessions end and its open deliveries go.")
                    .takes_nothing()
                    .gives_nothing(204, "It is gone.")
                    .refuses(&[404])
                    .finish(),
            })),
        ),
        (
            "/v1/subscriptions/{id}/pause",
            of_one(json!({
                "post": one("pause", "Stop new deliveries. Idempotent.").takes_nothing().finish(),
            })),
        ),
        (
            "/v1/subscriptions/{id}/resume",
            of_one(json!({
                "post": one("resume", "Let deliveries go on. Idempotent.").takes_nothing().finish(),
            })),
        ),
        (
            "/v1/subscriptions/{id}/seek",
            of_one(json!({
                "post": one("seek", "Drop the open deliveries and start afresh from another place of the log.")
                    .takes("Seek")
                    .finish(),
            })),
        ),
    ]
}

fn one(id: &str, summary: &str) -> Operation {
    Operation::new(id, TAG, summary).gives(200, "The subscription.", "Subscription").refuses(&[404])
}

fn of_one(mut operations: Value) -> Value {
    operations["parameters"] = json!([parameter("SubscriptionId")]);
    operations
}
