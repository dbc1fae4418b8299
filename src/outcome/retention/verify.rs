//! Proving that no audit record is missing, changed or put in.

use super::RetentionError;
use super::audit;
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
    /// Walks the chain from its first record to its end. Purges may go on meanwhile: what they append is not looked at.
    ///
    /// # Errors
    /// [`RetentionError::Storage`].
    pub async fn verify_audit(&self) -> Result<AuditVerification, RetentionError> {
        let mut connection = self.readers.acquire().await.map_err(SqlError::from)?;
        let chain = audit::read_chain::<DB>(&mut connection, &self.dialect).await?;
        let end = chain.head.as_ref().map_or(chain.records, |head| head.sequence);
        let (mut sequence, mut hash) = (0_i64, String::new());
        while sequence < end {
            let limit = (end - sequence).min(audit::PAGE_RECORDS);
            let records = audit::page::<DB>(&mut connection, &self.dialect, sequence, limit).await?;
            if records.is_empty() {
                return Ok(broken(sequence + 1));
            }
            for record in records {
                sequence += 1;
                hash = record.chained(&hash);
                if record.sequence != sequence || record.hash != hash {
                    return Ok(broken(sequence));
                }
            }
        }
        match chain.head {
            // The end itself is gone, and with it the proof that no tail was cut off.
            None => Ok(broken(sequence + 1)),
            Some(head) if hash != head.hash => Ok(broken(sequence)),
            // More records than the chain has: one was put in outside of it.
            Some(_) if chain.records != sequence => Ok(broken(sequence + 1)),
            Some(_) => Ok(AuditVerification::Intact { records: sequence.unsigned_abs() }),
        }
    }
}

const fn broken(sequence: i64) -> AuditVerification {
    AuditVerification::Broken { sequence: sequence.unsigned_abs() }
}
