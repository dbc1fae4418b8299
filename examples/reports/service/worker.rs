//! The worker. It hears of accepted reports as any consumer does, and tells the platform by its HTTP API how each goes.
//!
//! It keeps nothing. Where it dies, the event comes again, and what it had reported is answered with what was written
//! then: each report has an idempotency key of its own.

use std::sync::Arc;
use std::time::Duration;

use perilune::client::{Client, SubscriptionId};
use perilune::consumer::{Consumer, ConsumerHandle, HandlerError, HandlerResult};
use perilune::proto::ResultEvent;
use perilune::proto::scalar::Timestamp;
use serde_json::{Value, json};

use super::books::{self, Unreadable};
use super::operation::ReportWanted;

/// Reports that are made at a time.
const AT_A_TIME: u8 = 4;
/// Attempts before a report is given up.
const ATTEMPTS: u32 = 3;

/// Starts a worker whose every step takes `pace`.
pub(crate) fn start(
    client: Client,
    accepted: SubscriptionId,
    pace: Duration,
) -> Result<ConsumerHandle, Box<dyn std::error::Error>> {
    let worker = Arc::new(Worker { client: client.clone(), pace });
    let consumer = Consumer::builder(client, accepted)
        .capacity(AT_A_TIME)
        .handler(move |event, _| {
            let worker = Arc::clone(&worker);
            async move { worker.run(&event).await }
        })
        .build()?;
    Ok(consumer.start()?)
}

struct Worker {
    client: Client,
    pace: Duration,
}

impl Worker {
    async fn run(&self, event: &ResultEvent) -> HandlerResult {
        let Ok(wanted) = serde_json::from_str::<ReportWanted>(event.snapshot.payload.as_str()) else {
            let error = json!({"code": "validation/malformed_order", "message": "the payload is no order"});
            return self.report(event, "0", json!({"status": "rejected", "error": error})).await;
        };
        for attempt in 1..=ATTEMPTS {
            self.report(event, &format!("{attempt}.started"), json!({"status": "started"})).await?;
            actix_web::rt::time::sleep(self.pace).await;
            let end = match books::read(wanted, attempt) {
                Ok(report) => json!({"status": "succeeded", "result": report}),
                Err(Unreadable::Busy) if attempt < ATTEMPTS => {
                    let retry =
                        json!({"status": "retry_scheduled", "result": {"retryAt": self.retry_at(event, attempt)}});
                    self.report(event, &format!("{attempt}.retry"), retry).await?;
                    actix_web::rt::time::sleep(self.pace).await;
                    continue;
                }
                Err(Unreadable::Busy) => {
                    let error = json!({"code": "source_busy", "message": "the source stayed busy"});
                    json!({"status": "dead_lettered", "error": error})
                }
                Err(Unreadable::NotClosed) => {
                    let error = json!({"code": "validation/quarter_not_closed", "message": "the books are still open"});
                    json!({"status": "rejected", "error": error})
                }
                Err(Unreadable::Damaged) => {
                    let error = json!({"code": "source_damaged", "message": "the source can't be read"});
                    json!({"status": "failed", "error": error})
                }
            };
            return self.report(event, "end", end).await;
        }
        Ok(())
    }

    /// When the next attempt is: the same each time it is asked, since a report must not change under its key.
    fn retry_at(&self, event: &ResultEvent, attempt: u32) -> Option<Timestamp> {
        let wait = i64::try_from((self.pace * 2 * attempt).as_micros()).ok()?;
        Timestamp::from_unix_micros(event.occurred_at.unix_micros() + wait)
    }

    async fn report(&self, event: &ResultEvent, key: &str, mut report: Value) -> HandlerResult {
        report["operation"] = event.snapshot.operation.as_str().into();
        let path = format!("/v1/queues/{}/tasks/{}/events", event.queue(), event.task_id());
        let answer = self
            .client
            .http()
            .await?
            .post(self.client.http_url(&path))
            .insert_header(("authorization", self.client.authorization().await?))
            .insert_header(("idempotency-key", format!("{}.{key}", event.event_id)))
            .send_json(&report)
            .await
            .map_err(|_| HandlerError::msg("the platform is out of reach"))?;
        match answer.status().as_u16() {
            // 409: it has ended, so an earlier delivery of this event got further.
            200 | 201 | 409 => Ok(()),
            _ => Err(HandlerError::msg("the platform refused the report")),
        }
    }
}
