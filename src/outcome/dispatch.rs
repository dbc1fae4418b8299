//! Telling the platform about an accepted operation, by the outbox: written with the operation, sent after the commit.
//!
//! The outbox row names the operation and its queue. The input stays where it is protected; whoever sends the row
//! opens it there ([`PlatformSender`](super::PlatformSender)).
//!
//! Source: outcome.md sections 1 and 2.

use perilune_proto::RawJson;
use perilune_proto::limits::{OPAQUE_DEPTH_MAX, REPORT_OPAQUE_BYTES_MAX};
use perilune_proto::scalar::{MessageId, Name, TaskId};
use serde::{Deserialize, Serialize};

use super::operations::Origin;
use super::{AcceptedOperation, Operation, Operations, OutcomeEngine, OutcomeStoreError};
use crate::outbox::{Message, MessageError, Outbox, OutboxStore};
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
    /// The platform would not take the input.
    #[error("input must be JSON of at most {REPORT_OPAQUE_BYTES_MAX} bytes, nested at most {OPAQUE_DEPTH_MAX} levels")]
    Input,
    /// The outbox can't take the message.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// What stands in the outbox: which operation, and where its report goes. No input.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dispatch {
    pub(super) queue: Name,
    pub(super) task_id: TaskId,
}

impl<DB: OutcomeEngine + OutboxStore> Operations<DB> {
    /// Accepts an operation inside the transaction `on`, with the outbox row that reports it to the platform's `queue` as
    /// `accepted`. A relay with a [`PlatformSender`](super::PlatformSender) sends it once the transaction has committed.
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
        if input.len() > REPORT_OPAQUE_BYTES_MAX || RawJson::parse(&input, OPAQUE_DEPTH_MAX).is_err() {
            return Err(DispatchError::Input);
        }
        let accepted = self.accept_input(on, O::TYPE, &input, origin).await?;
        let id = accepted.operation_id;
        let dispatch = Dispatch { queue: queue.clone(), task_id: id.task_id() };
        let body = serde_json::to_vec(&dispatch).map_err(|_| OutcomeStoreError::CorruptedPayload)?;
        let message = Message::new(DISPATCH_TOPIC, body)?.with_id(MessageId::from_bytes(*id.as_bytes()));
        outbox.write(on, &message).await.map_err(|error| OutcomeStoreError::Storage(SqlError::from(error)))?;
        Ok(accepted)
    }
}
