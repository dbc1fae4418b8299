//! Marking rows whose events the platform has confirmed.

use perilune_proto::scalar::EventId;

use super::Inbox;
use super::store::Store;
use crate::sql::SqlError;

/// Attempts at a batch that met a pruner or another settler.
const ATTEMPTS_MAX: u32 = 5;

impl<DB: Store> Inbox<DB> {
    /// Marks the rows of these events as settled: the platform has confirmed them and delivers them no more.
    ///
    /// Returns how many were not marked before; an event without a row counts as none. One transaction for all.
    ///
    /// # Errors
    /// [`SqlError`]; nothing is marked then, and nothing is lost: an unsettled row is merely never pruned.
    pub async fn settle(&self, events: &[EventId]) -> Result<u64, SqlError> {
        if events.is_empty() {
            return Ok(0);
        }
        let mut ids: Vec<_> = events.iter().map(ToString::to_string).collect();
        // Everybody locks in one order, so that two settlers don't deadlock.
        ids.sort_unstable();
        ids.dedup();
        self.in_task(move |inner| async move {
            let mut attempt = 1;
            loop {
                let settled = inner.writer.transaction(async |tx| {
                    Ok::<_, SqlError>(DB::settle(tx, &inner.sql, inner.consumer.as_str(), &ids).await?)
                });
                match settled.await {
                    Err(error) if error.kind().is_contention() && attempt < ATTEMPTS_MAX => {
                        attempt += 1;
                        tokio::time::sleep(super::scope::wait_before(attempt)).await;
                    }
                    settled => return settled,
                }
            }
        })
        .await
    }
}
