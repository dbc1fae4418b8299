//! The demo's publisher: a worker that reports its results in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::api::Api;
use super::super::demo_operation::GenerateReport;
use super::super::exit::{Failure, Outcome};
use super::super::publish::{batch, fresh_task_id};
use super::super::retry::Retry;
use super::platform::QUEUE;
use crate::outcome::Operation as _;

/// Results in one batch.
const BATCH: u64 = 100;

/// Publishes until all results are on the log.
pub(super) struct Publisher {
    events: u64,
    published: Arc<AtomicU64>,
    task: actix_rt::task::JoinHandle<Outcome>,
}

impl Publisher {
    /// Begins to publish so many results.
    pub(super) fn start(api: Api, events: u64) -> Self {
        let published = Arc::new(AtomicU64::new(0));
        let task = actix_rt::spawn(publish(api, events, Arc::clone(&published)));
        Self { events, published, task }
    }

    /// How many results the platform has confirmed so far.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// Whether it ended before all were published.
    pub(super) fn failed(&self) -> bool {
        self.task.is_finished() && self.published() < self.events
    }

    /// How it ended.
    pub(super) async fn end(self) -> Outcome {
        self.task.await.map_err(|_| Failure::failed("the publisher broke down"))?
    }
}

async fn publish(api: Api, events: u64, published: Arc<AtomicU64>) -> Outcome {
    let mut retry = Retry::new(Duration::from_secs(30));
    let mut next = 0;
    while next < events {
        let numbers = next..(next + BATCH).min(events);
        next = numbers.end;
        let lines = numbers.map(line).collect::<Vec<_>>();
        let verdicts = loop {
            match retry.attempt(batch::send(&api, lines.iter().map(String::as_str))).await {
                Ok(verdicts) => break verdicts,
                Err(error) => retry.wait(error, None).await?,
            }
        };
        retry.reset();
        for verdict in verdicts {
            if !matches!(verdict.status, 200 | 201) {
                return Err(verdict.problem().into());
            }
            published.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// A result such as a worker reports.
fn line(number: u64) -> String {
    let (task, pages) = (fresh_task_id(), number % 40 + 1);
    format!(
        "{{\"queue\":\"{QUEUE}\",\"task_id\":\"{task}\",\"operation\":\"{}\",\"status\":\"succeeded\",\
         \"idempotency_key\":\"demo-{number}\",\"payload\":{{\"number\":{number}}},\
         \"result\":{{\"number\":{number},\"pages\":{pages}}}}}",
        GenerateReport::TYPE
    )
}
