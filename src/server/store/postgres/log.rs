//! The log's end, known while a transaction has its lock.

use perilune_proto::scalar::Name;

use super::super::StoreError;
use super::lanes::Unit;

const LOCK: &str = "SELECT head FROM log FOR UPDATE";
const HEAD: &str = "SELECT head FROM log";
const QUEUE: &str = "SELECT queue_id FROM queue WHERE name = $1";
const NEW_QUEUE: &str = "INSERT INTO queue (name) VALUES ($1) RETURNING queue_id";

impl Unit {
    /// The log's newest sequence, with its lock: nobody else appends until this transaction ends.
    ///
    /// A transaction takes it before any other lock.
    pub(super) async fn locked_head(&mut self) -> Result<u64, StoreError> {
        if let Some(head) = self.head {
            return Ok(head);
        }
        let (head,): (i64,) = sqlx::query_as(LOCK).fetch_one(&mut self.connection).await?;
        let head = u64::try_from(head).map_err(|_| StoreError::Damaged("the log's end is negative"))?;
        self.head = Some(head);
        Ok(head)
    }

    /// The newest sequence that is committed.
    pub(super) async fn committed_head(&mut self) -> Result<u64, StoreError> {
        let (head,): (i64,) = sqlx::query_as(HEAD).fetch_one(&mut self.connection).await?;
        u64::try_from(head).map_err(|_| StoreError::Damaged("the log's end is negative"))
    }

    /// A queue's number; the queue is made where it is new. The transaction has the log's lock, so nobody else makes it.
    pub(super) async fn queue(&mut self, name: &Name) -> Result<i64, StoreError> {
        if let Some(number) = self.queues.get(name) {
            return Ok(*number);
        }
        let text = name.as_str().to_owned();
        let known: Option<(i64,)> =
            sqlx::query_as(QUEUE).bind(text.clone()).fetch_optional(&mut self.connection).await?;
        let number = match known {
            Some((number,)) => number,
            None => sqlx::query_as::<_, (i64,)>(NEW_QUEUE).bind(text).fetch_one(&mut self.connection).await?.0,
        };
        self.queues.insert(name.clone(), number);
        Ok(number)
    }
}
