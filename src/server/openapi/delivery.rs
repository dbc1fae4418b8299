//! Deliveries.

use serde_json::json;

use super::Paths;
use super::operation::{Operation, parameter};

const TAG: &str = "deliveries";

pub(super) fn paths() -> Paths {
    vec![
        (
            "/v1/subscriptions/{id}/deliveries",
            json!({
                "parameters": [parameter("SubscriptionId")],
                "get": Operation::new("deliveries", TAG, "The deliveries, by their ids: open ones, and acknowledged ones for 24 h. Never a secret. A page may be short before the last.")
                    .parameters(&[parameter("State"), parameter("After"), parameter("Limit")])
                    .gives(200, "A page.", "DeliveryPage")
                    .refuses(&[404])
                    .finish(),
            }),
        ),
        (
            "/v1/subscriptions/{id}/deliveries:budget",
            json!({
                "parameters": [parameter("SubscriptionId")],
                "post": Operation::new("budget_of_all", TAG, "Let every EXPIRED delivery be leased more often.")
                    .takes("AddBudget")
                    .gives(200, "The subscription.", "Subscription")
                    .refuses(&[404])
                    .finish(),
            }),
        ),
        (
            "/v1/subscriptions/{id}/deliveries/{delivery_id}/budget",
            json!({
                "parameters": [parameter("SubscriptionId"), parameter("DeliveryId")],
                "post": Operation::new("budget", TAG, "Let an EXPIRED delivery be leased more often.")
                    .takes("AddBudget")
                    .gives(200, "The delivery.", "Delivery")
                    .refuses(&[404, 409])
                    .finish(),
            }),
        ),
    ]
}
