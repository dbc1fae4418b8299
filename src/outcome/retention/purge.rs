//! Deleting what is due, in bounded batches, each with its audit in the same transaction.
//!
//! A batch locks, in this order: the audit chain's end (so that one purge works at a time), then its operations' rows in
//! the order of their ids. A hold locks its operation's row, so one of the two comes first; a purge that waited for a hold
//! reads the holds again before it deletes.

use std::collections::{BTreeMap, BTreeSet};

use perilune_proto::scalar::Timestamp;

use super::audit::{self, BatchRecord};
use super::candidates::{self, Candidate, Page};
use super::policy::{RetentionPolicy, Target};
use super::{RetentionError, checked};
use crate::outcome::operations::to_its_end;
use crate::outcome::store::Value;
use crate::outcome::store::row;
use crate::outcome::{Operations, OutcomeEngine};
use crate::sql::SqlError;
use crate::sql::writer::transaction;

/// Operations in one batch, and so in one transaction.
const BATCH_OPERATIONS: i64 = 1_000;

/// Between the first and the last of a batch, so that it reads the holds and not the batch.
const HELD: &str = "SELECT operation_id FROM {prefix}operation_holds WHERE operation_id >= ? AND operation_id <= ? AND released_at IS NULL";
const COUNT_JOURNAL: &str =
    "SELECT operation_id, COUNT(*) FROM {prefix}operation_journal WHERE operation_id IN ({ids}) GROUP BY operation_id";
const DELETE_INPUTS: &str = "DELETE FROM {prefix}operation_inputs WHERE operation_id IN ({ids})";
const DELETE_JOURNAL: &str = "DELETE FROM {prefix}operation_journal WHERE operation_id IN ({ids})";
const DELETE_OUTCOMES: &str = "DELETE FROM {prefix}outcomes WHERE operation_id IN ({ids})";
const DELETE_DEAD_LETTERS: &str = "DELETE FROM {prefix}dead_letters WHERE operation_id IN ({ids})";

/// What to purge, and what the audit says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeOrder {
    /// The policy by which it goes, in the operator's words: 1 to 255 bytes.
    pub policy_ref: String,
    /// Who orders it: 1 to 255 bytes.
    pub actor: String,
    /// What is due is judged at this moment; the audit records it.
    pub now: Timestamp,
}

/// What a purge deleted: rows of each target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionPurgeResult {
    /// Input payloads.
    pub inputs_deleted: u64,
    /// Journal records.
    pub journal_records_deleted: u64,
    /// Outcomes.
    pub outcomes_deleted: u64,
    /// Dead-letter reasons.
    pub dead_letters_deleted: u64,
    /// Audit records written: one an operation and target.
    pub audit_records: u64,
}

impl RetentionPurgeResult {
    const fn count(&mut self, target: Target) -> &mut u64 {
        match target {
            Target::Input => &mut self.inputs_deleted,
            Target::Journal => &mut self.journal_records_deleted,
            Target::Outcome => &mut self.outcomes_deleted,
            Target::DeadLetter => &mut self.dead_letters_deleted,
        }
    }
}

/// What became of one batch.
struct Batch {
    /// The last candidate's id; `None` where there was none.
    last: Option<String>,
    rows: u64,
    operations: u64,
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// Deletes all that is due, batch by batch until nothing is. Each batch and its audit commit together; batches that
    /// have committed stay when a later one fails. Dropping the future ends the purge behind the batch that is under way.
    ///
    /// # Errors
    /// [`RetentionError::Text`] before anything is done; [`RetentionError::Storage`].
    pub async fn purge(
        &self,
        policy: &RetentionPolicy,
        order: &PurgeOrder,
    ) -> Result<RetentionPurgeResult, RetentionError> {
        checked("policy_ref", &order.policy_ref)?;
        checked("actor", &order.actor)?;
        let mut result = RetentionPurgeResult::default();
        for target in Target::ALL {
            let cutoff = policy.cutoff(target, order.now.unix_micros());
            let mut after = String::new();
            loop {
                let (this, order, behind) = (self.clone(), order.clone(), after.clone());
                let batch = to_its_end(async move { this.purge_batch(target, cutoff, &behind, &order).await }).await?;
                *result.count(target) += batch.rows;
                result.audit_records += batch.operations;
                metrics::counter!("perilune_retention_purged_total", "target" => target.as_str()).increment(batch.rows);
                match batch.last {
                    Some(last) => after = last,
                    None => break,
                }
            }
        }
        Ok(result)
    }

    async fn purge_batch(
        &self,
        target: Target,
        cutoff: i64,
        after: &str,
        order: &PurgeOrder,
    ) -> Result<Batch, RetentionError> {
        transaction(&self.pool, async |on| self.purge_batch_on(on, target, cutoff, after, order).await).await
    }

    async fn purge_batch_on(
        &self,
        on: &mut DB::Connection,
        target: Target,
        cutoff: i64,
        after: &str,
        order: &PurgeOrder,
    ) -> Result<Batch, RetentionError> {
        let head = audit::lock_head::<DB>(on, &self.dialect).await?;
        let page = Page { target, cutoff, after, limit: BATCH_OPERATIONS };
        let (due, locked) = candidates::due_locked::<DB>(on, &self.dialect, page).await?;
        let Some(last) = due.last().map(|last| last.operation_id.clone()) else {
            return Ok(Batch { last: None, rows: 0, operations: 0 });
        };
        let removable = self.lock_and_leave_out_held(on, due, locked).await?;
        if removable.is_empty() {
            return Ok(Batch { last: Some(last), rows: 0, operations: 0 });
        }
        let removed = self.delete(on, target, removable).await?;
        let rows = removed.iter().map(|(_, rows)| rows.unsigned_abs()).sum();
        if !removed.is_empty() {
            let record = BatchRecord {
                target,
                policy_ref: &order.policy_ref,
                actor: &order.actor,
                purged_at: order.now.unix_micros(),
            };
            audit::append::<DB>(on, &self.dialect, head, &record, &removed).await?;
        }
        Ok(Batch { last: Some(last), rows, operations: removed.len() as u64 })
    }

    /// Locks the operations, where they are not yet, then reads their holds: one that was placed while this waited for
    /// a lock is seen.
    async fn lock_and_leave_out_held(
        &self,
        on: &mut DB::Connection,
        due: Vec<Candidate>,
        locked: bool,
    ) -> Result<Vec<Candidate>, SqlError> {
        if !locked {
            let ids = self.dialect.ids(due.iter().map(|found| &*found.operation_id).collect());
            DB::rows(on, &self.dialect.statement_for(row::LOCK_MANY, &ids), &ids.values()).await?;
        }
        let (Some(first), Some(last)) = (due.first(), due.last()) else { return Ok(due) };
        let ends = [Value::Text(&first.operation_id), Value::Text(&last.operation_id)];
        let rows = DB::rows(on, &self.dialect.statement(HELD), &ends).await?;
        let held: BTreeSet<String> =
            rows.iter().filter_map(|row| DB::text(row, 0).transpose()).collect::<Result<_, _>>()?;
        Ok(due.into_iter().filter(|found| !held.contains(&found.operation_id)).collect())
    }

    /// Deletes a target of these operations; each with how many rows went.
    async fn delete(
        &self,
        on: &mut DB::Connection,
        target: Target,
        removable: Vec<Candidate>,
    ) -> Result<Vec<(Candidate, i64)>, SqlError> {
        let delete = match target {
            Target::Input => DELETE_INPUTS,
            Target::Journal => DELETE_JOURNAL,
            Target::Outcome => DELETE_OUTCOMES,
            Target::DeadLetter => DELETE_DEAD_LETTERS,
        };
        let ids = self.dialect.ids(removable.iter().map(|found| &*found.operation_id).collect());
        let mut counts = BTreeMap::new();
        if target == Target::Journal {
            for row in DB::rows(on, &self.dialect.statement_for(COUNT_JOURNAL, &ids), &ids.values()).await? {
                counts.insert(DB::text(&row, 0)?.unwrap_or_default(), DB::integer(&row, 1)?.unwrap_or_default());
            }
        }
        let deleted = DB::execute(on, &self.dialect.statement_for(delete, &ids), &ids.values()).await?;
        drop(ids);
        if target != Target::Journal && deleted != removable.len() as u64 {
            // Each had its one row when it was chosen. Somebody else has deleted some since, so the audit would lie;
            // the next purge no longer chooses them.
            return Err(sqlx::Error::RowNotFound.into());
        }
        let counted = |found: Candidate| match target {
            Target::Journal => counts.get(&found.operation_id).map(|rows| (found.clone(), *rows)),
            _ => Some((found, 1)),
        };
        Ok(removable.into_iter().filter_map(counted).collect())
    }
}
