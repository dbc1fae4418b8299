//! Where the log ends, kept in the writer's memory: nobody else appends.

use std::collections::HashMap;

use perilune_proto::scalar::Name;

use super::super::StoreError;
use super::row::Columns;
use super::writer::Unit;

pub(super) const QUEUES: &str = "SELECT queue_id, name, head, events FROM queue";
pub(super) const NEW_QUEUE: &str = "INSERT INTO queue (name) VALUES (?1) RETURNING queue_id";

/// The log's end and its queues.
#[derive(Debug)]
pub(super) struct Log {
    /// The newest sequence, forgotten or not.
    pub(super) head: u64,
    queues: HashMap<Name, Queue>,
}

/// A queue's number and how many events it ever had.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) events: u64,
}

impl Unit {
    /// The log's end, read where it isn't known.
    pub(super) async fn log(&mut self) -> Result<&mut Log, StoreError> {
        if self.log.is_none() {
            let mut log = Log { head: 0, queues: HashMap::new() };
            for row in sqlx::query(QUEUES).fetch_all(&mut self.connection).await? {
                let row = Columns(&row);
                log.head = log.head.max(row.count(2)?);
                log.queues.insert(row.name(1)?, Queue { id: row.integer(0)?, events: row.count(3)? });
            }
            self.log = Some(log);
        }
        self.log.as_mut().ok_or(StoreError::Damaged("the log's end is unknown"))
    }

    /// A queue by its name, made where it is new. The caller has a savepoint.
    pub(super) async fn queue(&mut self, name: &Name) -> Result<Queue, StoreError> {
        if let Some(queue) = self.log().await?.queues.get(name) {
            return Ok(*queue);
        }
        self.guard().await?;
        let (id,): (i64,) = sqlx::query_as(NEW_QUEUE).bind(name.as_str()).fetch_one(&mut self.connection).await?;
        let queue = Queue { id, events: 0 };
        self.log().await?.queues.insert(name.clone(), queue);
        Ok(queue)
    }
}

impl Log {
    /// The next place of a queue: its sequence and its ordinal. It must be written, or the log forgotten.
    pub(super) fn advance(&mut self, name: &Name) -> (u64, u64) {
        self.head += 1;
        let ordinal = self.queues.get_mut(name).map_or(1, |queue| {
            queue.events += 1;
            queue.events
        });
        (self.head, ordinal)
    }
}
