//! Taking events off the log: by queue and sequence, so that it costs the same whatever the log's length.

use perilune_proto::scalar::{DeliveryId, EventId};

use super::super::bounds::SCAN_MAX;
use super::super::scan::{Found, Look, Taken};
use super::super::{StoreError, fresh};
use super::row::{Columns, stored};
use super::writer::Unit;

/// What is taken for whom.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) number: i64,
    /// Bits of the wanted statuses; 0 wants all.
    pub(super) statuses: i64,
    /// Names of the wanted operations with line feeds between them; empty wants all.
    pub(super) operations: String,
    pub(super) cursor: u64,
    /// The queues that have events behind the cursor.
    pub(super) behind: Vec<i64>,
    /// The newest sequence of those.
    pub(super) head: u64,
}

// What is looked at ends here, where it doesn't end with the queue.
pub(super) const END: &str = "SELECT max(sequence), count(*) FROM (
        SELECT sequence FROM event WHERE queue_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3)";
pub(super) const ALL: &str = "SELECT sequence, event_id, octet_length(body) FROM event
    WHERE queue_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3";
pub(super) const WANTED: &str = "SELECT sequence, event_id, octet_length(body) FROM event
    WHERE queue_id = ?1 AND sequence > ?2 AND sequence <= ?4
        AND (?5 = 0 OR (?5 >> status) & 1)
        AND (?6 = '' OR instr(char(10) || ?6 || char(10), char(10) || operation || char(10)))
    ORDER BY sequence LIMIT ?3";

impl Unit {
    /// Looks for up to `wanted` events behind the reader's cursor. It writes nothing.
    pub(super) async fn take(&mut self, reader: &Reader, wanted: usize) -> Result<Found, StoreError> {
        let mut looks = Vec::with_capacity(reader.behind.len());
        for queue in &reader.behind {
            looks.push(self.look(reader, *queue, wanted).await?);
        }
        Ok(Found::of(looks, wanted, reader.cursor, reader.head))
    }

    async fn look(&mut self, reader: &Reader, queue: i64, wanted: usize) -> Result<Look, StoreError> {
        let filtered = reader.statuses != 0 || !reader.operations.is_empty();
        let limit = stored(u64::try_from(wanted).unwrap_or(u64::MAX));
        let after = stored(reader.cursor);
        let (query, scanned) = if filtered {
            let scan = i64::try_from(SCAN_MAX).unwrap_or(i64::MAX);
            let (end, count): (Option<i64>, i64) =
                sqlx::query_as(END).bind(queue).bind(after).bind(scan).fetch_one(&mut self.connection).await?;
            let end = end.unwrap_or(after);
            let query = sqlx::query(WANTED).bind(queue).bind(after).bind(limit).bind(end);
            (query.bind(reader.statuses).bind(reader.operations.clone()), (count >= scan).then_some(end))
        } else {
            (sqlx::query(ALL).bind(queue).bind(after).bind(limit), None)
        };
        let mut events = Vec::new();
        for row in query.fetch_all(&mut self.connection).await? {
            let row = Columns(&row);
            events.push(Taken {
                delivery_id: DeliveryId::from_u128(fresh::id()),
                sequence: row.count(0)?,
                event_id: EventId::from_bytes(row.id(1)?),
                bytes: usize::try_from(row.count(2)?).unwrap_or(usize::MAX),
            });
        }
        Ok(Look::new(events, wanted, scanned.and_then(|end| u64::try_from(end).ok())))
    }
}
