//! Telling the platform about an accepted operation, by the outbox: written with the operation, sent after the commit.
//!
//! Source: outcome.md section 1.

use awc::http::header;
use perilune_actors::client::Client;
use perilune_proto::scalar::{MessageId, Name, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::operations::Origin;
use super::{AcceptedOperation, Operation, Operations, OutcomeEngine, OutcomeStoreError};
use crate::outbox::{Message, MessageError, Outbox, OutboxStore, Outgoing, SendFailure, Sender};
use crate::sql::SqlError;

/// The topic of dispatched operations.
pub const DISPATCH_TOPIC: &str = "perilune.dispatch";

/// Why an operation could not be accepted and dispatched. The transaction must be rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// The operation could not be accepted.
    #[error(transparent)]
    Store(#[from] OutcomeStoreError),
    /// The input is too large for the outbox.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// What stands in the outbox: where the report goes, and the report as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dispatch {
    queue: Name,
    task_id: TaskId,
    report: Box<RawValue>,
}

impl<DB: OutcomeEngine + OutboxStore> Operations<DB> {
    /// Accepts an operation inside the transaction `on`, with the outbox row that reports it to the platform's `queue` as
    /// `accepted`. A relay with a [`PlatformSender`] sends it once the transaction has committed.
    ///
    /// # Errors
    /// [`DispatchError`].
    pub async fn accept_and_dispatch<O: Operation>(
        &self,
        on: &mut DB::Connection,
        outbox: &Outbox<DB>,
        queue: &Name,
        input: &O::Input,
        origin: Origin,
    ) -> Result<AcceptedOperation, DispatchError> {
        let input = serde_json::to_string(input).map_err(|_| OutcomeStoreError::CorruptedPayload)?;
        let input = zeroize::Zeroizing::new(input);
        let accepted = self.accept_input(on, O::TYPE, &input, origin).await?;
        let report = format!(r#"{{"operation":"{}","status":"accepted","payload":{}}}"#, O::TYPE, *input);
        let dispatch = Dispatch {
            queue: queue.clone(),
            task_id: accepted.operation_id.task_id(),
            report: RawValue::from_string(report).map_err(|_| OutcomeStoreError::CorruptedPayload)?,
        };
        let body = serde_json::to_vec(&dispatch).map_err(|_| OutcomeStoreError::CorruptedPayload)?;
        let id = accepted.operation_id;
        let message = Message::new(DISPATCH_TOPIC, body)?.with_id(MessageId::from_bytes(*id.as_bytes()));
        outbox.write(on, &message).await.map_err(|error| OutcomeStoreError::Storage(SqlError::from(error)))?;
        Ok(accepted)
    }
}

/// Sends dispatched operations to the platform. Give it to a [`Relay`](crate::outbox::Relay); messages of other topics go
/// to the sender behind it.
#[derive(Debug)]
pub struct PlatformSender<S> {
    client: Client,
    others: S,
}

impl<S: Sender> PlatformSender<S> {
    /// Reports to the platform with a client whose credential may `report`; hands every other topic to `others`.
    #[must_use]
    pub const fn new(client: Client, others: S) -> Self {
        Self { client, others }
    }
}

/// Refuses every message: for an outbox that holds dispatches alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOtherTopics;

impl Sender for NoOtherTopics {
    async fn send(&self, _message: &Outgoing) -> Result<(), SendFailure> {
        Err(SendFailure::refused("NO_ROUTE"))
    }
}

impl<S: Sender> Sender for PlatformSender<S> {
    async fn send(&self, message: &Outgoing) -> Result<(), SendFailure> {
        if message.topic.as_str() != DISPATCH_TOPIC {
            return self.others.send(message).await;
        }
        let dispatch: Dispatch =
            serde_json::from_slice(&message.body).map_err(|_| SendFailure::refused("MALFORMED_DISPATCH"))?;
        let path = format!("/v1/queues/{}/tasks/{}/events", dispatch.queue, dispatch.task_id);
        let http = self.client.http().await.map_err(|_| SendFailure::retry("TLS"))?;
        let credential = self.client.authorization().await.map_err(|_| SendFailure::retry("CREDENTIAL"))?;
        let request = http
            .post(self.client.http_url(&path))
            .insert_header((header::AUTHORIZATION, credential))
            .insert_header((header::CONTENT_TYPE, "application/json"))
            .insert_header(("Idempotency-Key", message.id.to_string()));
        let answer = request.send_body(dispatch.report.get().to_owned()).await;
        let answer = answer.map_err(|_| SendFailure::retry("UNREACHABLE"))?;
        crate::outbox::judge_answer(answer.status(), answer.headers())
    }
}
