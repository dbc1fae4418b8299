//! Proving that no audit record is missing, changed or put in.

use super::RetentionError;
use super::audit::{self, AuditRecord, Entry};
use crate::outcome::{Operations, OutcomeEngine};
use crate::sql::SqlError;

/// What the chain of audit records proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditVerification {
    /// Every record is there and as it was written.
    Intact {
        /// How many.
        records: u64,
    },
    /// The chain is broken.
    Broken {
        /// The first record that is missing or not as it was written.
        sequence: u64,
    },
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// Walks the chain from its first record to its end.
    ///
    /// # Errors
    /// [`RetentionError::Storage`].
    pub async fn verify_audit(&self) -> Result<AuditVerification, RetentionError> {
        let mut connection = self.readers.acquire().await.map_err(SqlError::from)?;
        // The end first: what a purge appends meanwhile is beyond it and not looked at.
        let head = audit::read_head::<DB>(&mut connection, &self.dialect).await?;
        let (mut sequence, mut hash) = (0_i64, String::new());
        while sequence < head.sequence {
            let limit = (head.sequence - sequence).min(audit::PAGE_RECORDS);
            let records = audit::page::<DB>(&mut connection, &self.dialect, sequence, limit).await?;
            if records.is_empty() {
                return Ok(broken(sequence + 1));
            }
            for record in records {
                sequence += 1;
                hash = expected(&hash, sequence, &record);
                if record.sequence != sequence.unsigned_abs() || record.hash != hash {
                    return Ok(broken(sequence));
                }
            }
        }
        if hash != head.hash {
            return Ok(broken(sequence));
        }
        Ok(AuditVerification::Intact { records: sequence.unsigned_abs() })
    }
}

const fn broken(sequence: i64) -> AuditVerification {
    AuditVerification::Broken { sequence: sequence.unsigned_abs() }
}

fn expected(before: &str, sequence: i64, record: &AuditRecord) -> String {
    let operation_id = record.operation_id.to_string();
    audit::chain(
        before,
        &Entry {
            sequence,
            operation_id: &operation_id,
            operation_type: &record.operation_type,
            tenant: record.tenant.as_deref(),
            target: record.target,
            rows_deleted: i64::try_from(record.rows_deleted).unwrap_or(i64::MAX),
            policy_ref: &record.policy_ref,
            actor: &record.actor,
            purged_at: record.purged_at.unix_micros(),
        },
    )
}
