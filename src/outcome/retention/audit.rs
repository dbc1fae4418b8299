//! The audit of what was purged: one record an operation and target, chained by hash.
//!
//! Each record's hash covers the hash before it, so none can be changed, removed or put in without every later hash
//! being wrong. The chain's end stands in a row of its own, so a tail that was cut off is missed too.

use perilune_proto::scalar::Timestamp;
use sha2::{Digest, Sha256};

use super::candidates::Candidate;
use super::plan::moment;
use super::policy::Target;
use super::{RetentionError, TenantScope};
use crate::outcome::store::{Dialect, Value};
use crate::outcome::{OperationId, Operations, OutcomeEngine};
use crate::sql::{EngineName, SqlError};

const LOCK_HEAD: &str = "SELECT sequence, hash FROM {prefix}retention_head WHERE id = 1 {lock}";
/// The chain's end beside the count of its records: one statement is one snapshot.
const READ_CHAIN: &str = "SELECT (SELECT sequence FROM {prefix}retention_head WHERE id = 1), \
     (SELECT hash FROM {prefix}retention_head WHERE id = 1), COUNT(*) FROM {prefix}retention_audit";
const MOVE_HEAD: &str = "UPDATE {prefix}retention_head SET sequence = ?, hash = ? WHERE id = 1";
const INSERT: &str = "INSERT INTO {prefix}retention_audit (sequence, operation_id, operation_type, tenant, target, rows_deleted, \
     policy_ref, actor, purged_at, hash) VALUES {list}";
/// The same by two parameters however many there are, so that the statement stays prepared.
const INSERT_ON_POSTGRES: &str = "INSERT INTO {prefix}retention_audit (sequence, operation_id, operation_type, tenant, target, rows_deleted, \
     policy_ref, actor, purged_at, hash) SELECT r.s, r.o, r.t, r.n, c.target, r.d, c.policy_ref, c.actor, c.purged_at, r.h \
     FROM jsonb_to_recordset(?::jsonb) AS r(s BIGINT, o TEXT, t TEXT, n TEXT, d BIGINT, h TEXT), \
     jsonb_to_record(?::jsonb) AS c(target TEXT, policy_ref TEXT, actor TEXT, purged_at BIGINT)";
const INSERT_ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const PAGE: &str = "SELECT sequence, operation_id, operation_type, tenant, target, rows_deleted, policy_ref, actor, purged_at, hash \
     FROM {prefix}retention_audit WHERE sequence > ? ORDER BY sequence LIMIT ?";
/// Records read at once.
pub(super) const PAGE_RECORDS: i64 = 1_000;

/// One record: this target of this operation was purged. It holds no payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its place in the chain, from 1.
    pub sequence: u64,
    /// The operation.
    pub operation_id: OperationId,
    /// Its type.
    pub operation_type: String,
    /// Its tenant.
    pub tenant: Option<String>,
    /// What was purged.
    pub target: Target,
    /// How many rows that were.
    pub rows_deleted: u64,
    /// The policy by which it went, in the operator's words.
    pub policy_ref: String,
    /// Who ordered the purge.
    pub actor: String,
    /// When.
    pub purged_at: Timestamp,
    /// The chain up to here: 64 lowercase hexadecimal digits.
    pub hash: String,
}

/// Some records, and where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The records, oldest first.
    pub records: Vec<AuditRecord>,
    /// Give it as `after` for the next page; `None` where this was the last.
    pub next: Option<u64>,
}

/// The chain's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) sequence: i64,
    pub(super) hash: String,
}

/// What a record says about itself, in the order in which it is hashed.
struct Entry<'a> {
    sequence: i64,
    operation_id: &'a str,
    operation_type: &'a str,
    tenant: Option<&'a str>,
    target: &'a str,
    rows_deleted: i64,
    policy_ref: &'a str,
    actor: &'a str,
    purged_at: i64,
}

/// The hash of a record behind the one before it. Each field stands behind its length, so no two records have the same
/// bytes; no tenant and the tenant "" differ.
fn chain(before: &str, entry: &Entry<'_>) -> String {
    let mut hasher = Sha256::new();
    let tenanted = [u8::from(entry.tenant.is_some())];
    for field in [
        before.as_bytes(),
        &entry.sequence.to_be_bytes(),
        entry.operation_id.as_bytes(),
        entry.operation_type.as_bytes(),
        &tenanted,
        entry.tenant.unwrap_or_default().as_bytes(),
        entry.target.as_bytes(),
        &entry.rows_deleted.to_be_bytes(),
        entry.policy_ref.as_bytes(),
        entry.actor.as_bytes(),
        &entry.purged_at.to_be_bytes(),
    ] {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Locks the chain's end, so that one purge writes at a time.
pub(super) async fn lock_head<DB: OutcomeEngine>(on: &mut DB::Connection, dialect: &Dialect) -> Result<Head, SqlError> {
    let rows = DB::rows(on, &dialect.statement(LOCK_HEAD), &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(Head { sequence: DB::integer(row, 0)?.unwrap_or_default(), hash: DB::text(row, 1)?.unwrap_or_default() })
}

/// The chain as it stands: its end, `None` where somebody has removed that, and how many records there are.
pub(super) struct Chain {
    pub(super) head: Option<Head>,
    pub(super) records: i64,
}

pub(super) async fn read_chain<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
) -> Result<Chain, SqlError> {
    let rows = DB::rows(on, &dialect.statement(READ_CHAIN), &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let head = match (DB::integer(row, 0)?, DB::text(row, 1)?) {
        (Some(sequence), Some(hash)) => Some(Head { sequence, hash }),
        _ => None,
    };
    Ok(Chain { head, records: DB::integer(row, 2)?.unwrap_or_default() })
}

/// What a batch of removals is recorded as.
pub(super) struct BatchRecord<'a> {
    pub(super) target: Target,
    pub(super) policy_ref: &'a str,
    pub(super) actor: &'a str,
    pub(super) purged_at: i64,
}

/// Appends one record for each removal (with its count of rows) and moves the chain's end. In the removal's
/// transaction.
pub(super) async fn append<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    mut head: Head,
    batch: &BatchRecord<'_>,
    removed: &[(Candidate, i64)],
) -> Result<(), SqlError> {
    let mut hashes = Vec::with_capacity(removed.len());
    let first = head.sequence + 1;
    for (candidate, rows_deleted) in removed {
        head.sequence += 1;
        head.hash = chain(
            &head.hash,
            &Entry {
                sequence: head.sequence,
                operation_id: &candidate.operation_id,
                operation_type: &candidate.operation_type,
                tenant: candidate.tenant.as_deref(),
                target: batch.target.as_str(),
                rows_deleted: *rows_deleted,
                policy_ref: batch.policy_ref,
                actor: batch.actor,
                purged_at: batch.purged_at,
            },
        );
        hashes.push(head.hash.clone());
    }
    let records = (first..).zip(removed).zip(&hashes);
    if dialect.engine() == EngineName::Postgres {
        let record = |((sequence, (candidate, rows_deleted)), hash): ((i64, &(Candidate, i64)), &String)| {
            serde_json::json!({
                "s": sequence, "o": candidate.operation_id, "t": candidate.operation_type, "n": candidate.tenant,
                "d": rows_deleted, "h": hash
            })
        };
        let records = serde_json::Value::Array(records.map(record).collect()).to_string();
        let common = serde_json::json!({
            "target": batch.target.as_str(), "policy_ref": batch.policy_ref, "actor": batch.actor,
            "purged_at": batch.purged_at
        })
        .to_string();
        let values = [Value::Text(&records), Value::Text(&common)];
        DB::execute(on, &dialect.statement(INSERT_ON_POSTGRES), &values).await?;
    } else {
        let mut values = Vec::with_capacity(removed.len() * 10);
        for ((sequence, (candidate, rows_deleted)), hash) in records {
            values.extend([
                Value::Integer(sequence),
                Value::Text(&candidate.operation_id),
                Value::Text(&candidate.operation_type),
                Value::MaybeText(candidate.tenant.as_deref()),
                Value::Text(batch.target.as_str()),
                Value::Integer(*rows_deleted),
                Value::Text(batch.policy_ref),
                Value::Text(batch.actor),
                Value::Integer(batch.purged_at),
                Value::Text(hash),
            ]);
        }
        DB::execute(on, &dialect.statement_for_many(INSERT, INSERT_ROW, removed.len()), &values).await?;
    }
    let moved = [Value::Integer(head.sequence), Value::Text(&head.hash)];
    DB::execute(on, &dialect.statement(MOVE_HEAD), &moved).await.map(drop)
}

/// A record as it is stored, readable or not.
pub(super) struct StoredRecord {
    pub(super) sequence: i64,
    pub(super) operation_id: String,
    pub(super) operation_type: String,
    pub(super) tenant: Option<String>,
    pub(super) target: String,
    pub(super) rows_deleted: i64,
    pub(super) policy_ref: String,
    pub(super) actor: String,
    pub(super) purged_at: i64,
    pub(super) hash: String,
}

impl StoredRecord {
    /// The record's own hash behind the one before it.
    pub(super) fn chained(&self, before: &str) -> String {
        let entry = Entry {
            sequence: self.sequence,
            operation_id: &self.operation_id,
            operation_type: &self.operation_type,
            tenant: self.tenant.as_deref(),
            target: &self.target,
            rows_deleted: self.rows_deleted,
            policy_ref: &self.policy_ref,
            actor: &self.actor,
            purged_at: self.purged_at,
        };
        chain(before, &entry)
    }

    /// The record, where it is one that this program writes.
    fn read(self) -> Option<AuditRecord> {
        Some(AuditRecord {
            sequence: self.sequence.try_into().ok()?,
            operation_id: self.operation_id.parse().ok()?,
            operation_type: self.operation_type,
            tenant: self.tenant,
            target: Target::from_stored(&self.target)?,
            rows_deleted: self.rows_deleted.try_into().ok()?,
            policy_ref: self.policy_ref,
            actor: self.actor,
            purged_at: moment(self.purged_at),
            hash: self.hash,
        })
    }
}

/// The records behind `after`, at most `limit`.
pub(super) async fn page<DB: OutcomeEngine>(
    on: &mut DB::Connection,
    dialect: &Dialect,
    after: i64,
    limit: i64,
) -> Result<Vec<StoredRecord>, SqlError> {
    let rows = DB::rows(on, &dialect.statement(PAGE), &[Value::Integer(after), Value::Integer(limit)]).await?;
    let record = |row: &DB::Row| {
        let text = |at| Ok::<_, SqlError>(DB::text(row, at)?.unwrap_or_default());
        let integer = |at| Ok::<_, SqlError>(DB::integer(row, at)?.unwrap_or_default());
        Ok(StoredRecord {
            sequence: integer(0)?,
            operation_id: text(1)?,
            operation_type: text(2)?,
            tenant: DB::text(row, 3)?,
            target: text(4)?,
            rows_deleted: integer(5)?,
            policy_ref: text(6)?,
            actor: text(7)?,
            purged_at: integer(8)?,
            hash: text(9)?,
        })
    };
    rows.iter().map(record).collect()
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// The audit's records behind the sequence `after` (0 for the first page), those of other tenants left out.
    ///
    /// # Errors
    /// [`RetentionError::Storage`].
    pub async fn audit_records(&self, scope: &TenantScope, after: u64) -> Result<AuditPage, RetentionError> {
        let mut connection = self.readers.acquire().await.map_err(SqlError::from)?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let mut stored = page::<DB>(&mut connection, &self.dialect, after, PAGE_RECORDS).await?;
        let full = stored.len() as i64 == PAGE_RECORDS;
        let next = stored.last().filter(|_| full).map(|last| last.sequence.unsigned_abs());
        stored.retain(|record| scope.includes(record.tenant.as_deref()));
        let unreadable = || SqlError::from(sqlx::Error::Decode("a stored audit record is not readable".into()));
        let records =
            stored.into_iter().map(|record| record.read().ok_or_else(unreadable)).collect::<Result<_, _>>()?;
        Ok(AuditPage { records, next })
    }
}
