//! Sending an accepted operation to the platform: the report is made when it is sent, from the protected input.
//!
//! Source: outcome.md sections 1 and 2.
//!
//! ```text
//! heard of by an event ──▶ done: the platform has it, and another `accepted` would step a running task back
//! accepted long ago ─────▶ ask the platform first: it keeps an idempotency key for 24 h
//! else ──────────────────▶ open the input, report `accepted` under the operation's own key
//! ```

use std::time::Duration;

use awc::ClientRequest;
use awc::http::{Method, StatusCode, header};
use perilune_actors::client::Client;
use perilune_proto::limits::IDEMPOTENCY_RETENTION;
use zeroize::Zeroizing;

use super::dispatch::{DISPATCH_TOPIC, Dispatch};
use super::operations::now_micros;
use super::protect::{self, ProtectError, Purpose};
use super::store::blob;
use super::store::row::{self, OperationRow, Scope};
use super::{OperationId, Operations, OutcomeEngine};
use crate::outbox::{Outgoing, Remedy, SendFailure, Sender, judge_answer};
use crate::sql::SqlError;

/// Half of the time for which the platform keeps an idempotency key, so that two clocks may differ.
const KEY_SURELY_KEPT: Duration = Duration::from_secs(IDEMPOTENCY_RETENTION.as_secs() / 2);

/// Sends dispatched operations to the platform. Give it to a [`Relay`](crate::outbox::Relay); messages of other topics go
/// to the sender behind it.
///
/// It opens an operation's input when it sends it. An operation that events have told of already is not sent (again).
///
/// An operation that was accepted is not given up because the platform is away: whatever says nothing about the operation
/// itself (no connection, no answer in time, 401, 408, 425, 429, 5xx, the database, the key provider, the credential) is
/// [out of reach](SendFailure::out_of_reach). What the platform says of it (403 for a queue outside the credential's, other
/// 4xx) counts, or is a refusal.
#[derive(Debug)]
pub struct PlatformSender<DB: OutcomeEngine, S> {
    client: Client,
    operations: Operations<DB>,
    others: S,
}

impl<DB: OutcomeEngine, S: Sender> PlatformSender<DB, S> {
    /// Reports `operations` to the platform with a client whose credential may `report`; hands every other topic to
    /// `others`.
    #[must_use]
    pub fn new(client: Client, operations: &Operations<DB>, others: S) -> Self {
        Self { client, operations: operations.clone(), others }
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

/// What is to be done about a dispatched operation.
enum Due {
    /// The platform has it.
    Nothing,
    /// This report, which holds the input in clear.
    Report { body: Zeroizing<String>, accepted_at: i64 },
}

impl<DB: OutcomeEngine, S: Sender> Sender for PlatformSender<DB, S> {
    async fn send(&self, message: &Outgoing) -> Result<(), SendFailure> {
        if message.topic.as_str() != DISPATCH_TOPIC {
            return self.others.send(message).await;
        }
        let dispatch: Dispatch =
            serde_json::from_slice(&message.body).map_err(|_| SendFailure::refused("MALFORMED_DISPATCH"))?;
        let Due::Report { body, accepted_at } = self.due(dispatch.task_id.into()).await? else { return Ok(()) };
        let age = Duration::from_micros(now_micros().saturating_sub(accepted_at).try_into().unwrap_or(0));
        if age > KEY_SURELY_KEPT && self.is_known(&dispatch).await? {
            return Ok(());
        }
        let path = format!("/v1/queues/{}/tasks/{}/events", dispatch.queue, dispatch.task_id);
        let request = self
            .request(Method::POST, &path)
            .await?
            .insert_header((header::CONTENT_TYPE, "application/json"))
            .insert_header(("Idempotency-Key", message.id.to_string()));
        let answer = request.send_body((*body).clone()).await;
        let answer = answer.map_err(|_| SendFailure::out_of_reach("UNREACHABLE"))?;
        judge_platform(answer.status(), answer.headers())
    }

    fn timed_out(&self, message: &Outgoing) -> SendFailure {
        if message.topic.as_str() == DISPATCH_TOPIC {
            return SendFailure::out_of_reach("TIMEOUT");
        }
        self.others.timed_out(message)
    }
}

/// What the platform's answer says about an operation.
fn judge_platform(status: StatusCode, headers: &header::HeaderMap) -> Result<(), SendFailure> {
    judge_answer(status, headers).map_err(|failure| match failure.remedy() {
        Remedy::Retry(wait) if status != StatusCode::FORBIDDEN => SendFailure::out_of_reach(failure.code()).after(wait),
        _ => failure,
    })
}

impl<DB: OutcomeEngine, S: Sender> PlatformSender<DB, S> {
    async fn due(&self, id: OperationId) -> Result<Due, SendFailure> {
        let database = |_: SqlError| SendFailure::out_of_reach("DATABASE");
        let mut connection =
            self.operations.readers.acquire().await.map_err(|error| database(SqlError::from(error)))?;
        // The input first: what is purged after it was read belongs to an operation that has ended.
        let input = blob::read_input::<DB>(&mut connection, &self.operations.dialect, id).await.map_err(database)?;
        let operation = row::find::<DB>(&mut connection, &self.operations.dialect, id, Scope::AnyTenant).await;
        drop(connection);
        let operation = operation.map_err(database)?.ok_or_else(|| SendFailure::refused("UNKNOWN_OPERATION"))?;
        if operation.standing.task_version.0 > 0 {
            return Ok(Due::Nothing);
        }
        let input = input.ok_or_else(|| SendFailure::refused("INPUT_MISSING"))?;
        Ok(Due::Report { body: self.report(&operation, &input)?, accepted_at: operation.accepted_at })
    }

    /// The same bytes at each attempt, as an idempotency key asks.
    fn report(&self, operation: &OperationRow, input: &blob::KeptInput) -> Result<Zeroizing<String>, SendFailure> {
        let context = operation.blob_context(Purpose::Input, input.schema_version);
        let opened = protect::open(&*self.operations.keys, &context, &input.blob).map_err(|error| match error {
            ProtectError::KeyProvider => SendFailure::out_of_reach("KEY_PROVIDER"),
            ProtectError::UnknownKey(_) => SendFailure::refused("UNKNOWN_KEY"),
            _ => SendFailure::refused("INPUT_UNREADABLE"),
        })?;
        let payload = std::str::from_utf8(&opened).map_err(|_| SendFailure::refused("INPUT_UNREADABLE"))?;
        let operation_type = &operation.operation_type;
        Ok(format!(r#"{{"operation":"{operation_type}","status":"accepted","payload":{payload}}}"#).into())
    }

    /// A request to the platform, with a credential that was asked for just now.
    async fn request(&self, method: Method, path: &str) -> Result<ClientRequest, SendFailure> {
        let http = self.client.http().await.map_err(|_| SendFailure::out_of_reach("TLS"))?;
        let credential = self.client.authorization().await.map_err(|_| SendFailure::out_of_reach("CREDENTIAL"))?;
        Ok(http.request(method, self.client.http_url(path)).insert_header((header::AUTHORIZATION, credential)))
    }

    /// Whether the platform has the task.
    async fn is_known(&self, dispatch: &Dispatch) -> Result<bool, SendFailure> {
        let request = self.request(Method::GET, &format!("/v1/tasks/{}", dispatch.task_id)).await?;
        let answer = request.send().await.map_err(|_| SendFailure::out_of_reach("UNREACHABLE"))?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status => judge_platform(status, answer.headers()).map(|()| true),
        }
    }
}
