//! Writing every blob anew with the active key, in batches, while everything goes on.
//!
//! Source: outcome.md section 2. A reader meets a blob under its old key or its new one; it needs both until the
//! rotation is done.

use super::operations::to_its_end;
use super::protect::{self, BlobContext, ProtectedBlob, Purpose};
use super::store::Value;
use super::store::row;
use super::{OperationId, Operations, OutcomeEngine, OutcomeStoreError};
use crate::sql::writer::transaction;

/// The statements on one table of blobs.
#[derive(Clone, Copy)]
struct Statements {
    candidates: &'static str,
    read: &'static str,
    update: &'static str,
}

macro_rules! statements {
    ($table:literal) => {
        Statements {
            candidates: concat!(
                "SELECT operation_id FROM {prefix}",
                $table,
                " WHERE key_id <> ? AND operation_id > ? ORDER BY operation_id LIMIT ?"
            ),
            read: concat!(
                "SELECT o.operation_id, o.operation_type, o.tenant, x.schema_version, x.payload FROM {prefix}operations o \
                 JOIN {prefix}",
                $table,
                " x ON x.operation_id = o.operation_id WHERE o.operation_id IN ({ids}) AND x.key_id <> ?"
            ),
            update: concat!("UPDATE {prefix}", $table, " SET payload = ?, key_id = ? WHERE operation_id = ?"),
        }
    };
}

const TABLES: [(Purpose, Statements); 3] = [
    (Purpose::Input, statements!("operation_inputs")),
    (Purpose::Outcome, statements!("outcomes")),
    (Purpose::DeadLetterReason, statements!("dead_letters")),
];

/// What a rotation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyRotation {
    /// Blobs that are under the active key now.
    pub rewritten: u64,
    /// Blobs that could not be opened and were left as they are: their key is lost, or they were altered.
    pub unreadable: u64,
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// Writes every blob that is under another key anew with the active one, `batch` (1 to 1,000) in a transaction.
    /// Batches that have committed stay when a later one fails; calling it again goes on.
    ///
    /// # Errors
    /// [`OutcomeStoreError::Protection`] where the key provider fails, [`OutcomeStoreError::Storage`].
    pub async fn rotate_keys(&self, batch: u16) -> Result<KeyRotation, OutcomeStoreError> {
        let mut done = KeyRotation::default();
        for (purpose, statements) in TABLES {
            let mut after = String::new();
            loop {
                let (this, behind, batch) = (self.clone(), after.clone(), batch.clamp(1, 1_000));
                let rotated = async move { this.rotate_batch(purpose, statements, &behind, batch).await };
                let (last, rotated) = to_its_end(rotated).await?;
                done.rewritten += rotated.rewritten;
                done.unreadable += rotated.unreadable;
                match last {
                    Some(last) => after = last,
                    None => break,
                }
            }
        }
        Ok(done)
    }

    async fn rotate_batch(
        &self,
        purpose: Purpose,
        statements: Statements,
        after: &str,
        batch: u16,
    ) -> Result<(Option<String>, KeyRotation), OutcomeStoreError> {
        transaction(&self.pool, async |on| self.rotate_batch_on(on, purpose, statements, after, batch).await).await
    }

    async fn rotate_batch_on(
        &self,
        on: &mut DB::Connection,
        purpose: Purpose,
        statements: Statements,
        after: &str,
        batch: u16,
    ) -> Result<(Option<String>, KeyRotation), OutcomeStoreError> {
        let active = self.keys.active_key()?.id();
        let values = [Value::Integer(active.0.into()), Value::Text(after), Value::Integer(batch.into())];
        let rows = DB::rows(on, &self.dialect.statement(statements.candidates), &values).await?;
        let ids = rows.iter().filter_map(|row| DB::text(row, 0).transpose()).collect::<Result<Vec<_>, _>>()?;
        let Some(last) = ids.last().cloned() else { return Ok((None, KeyRotation::default())) };
        // The operations before their blobs, as purges and events do: else one would wait for the other for ever.
        let ids = self.dialect.ids(ids.iter().map(String::as_str).collect());
        let mut values = ids.values();
        DB::rows(on, &self.dialect.statement_for(row::LOCK_MANY, &ids), &values).await?;
        values.push(Value::Integer(active.0.into()));
        let rows = DB::rows(on, &self.dialect.statement_for(statements.read, &ids), &values).await?;
        let mut done = KeyRotation::default();
        for row in &rows {
            let id = DB::text(row, 0)?.unwrap_or_default();
            let operation_type = DB::text(row, 1)?.unwrap_or_default();
            let tenant = DB::text(row, 2)?;
            let context = BlobContext {
                purpose,
                operation_id: id.parse().unwrap_or_else(|_| OperationId::from_u128(0)),
                operation_type: &operation_type,
                schema_version: DB::integer(row, 3)?.and_then(|version| version.try_into().ok()).unwrap_or_default(),
                tenant: tenant.as_deref(),
            };
            let blob = ProtectedBlob::from_stored(DB::bytes(row, 4)?.unwrap_or_default());
            match protect::open(&*self.keys, &context, &blob) {
                Ok(plaintext) => {
                    let blob = protect::protect(&*self.keys, &context, &plaintext)?;
                    let values =
                        [Value::Bytes(blob.as_stored()), Value::Integer(blob.key_id()?.0.into()), Value::Text(&id)];
                    DB::execute(on, &self.dialect.statement(statements.update), &values).await?;
                    done.rewritten += 1;
                }
                Err(protect::ProtectError::KeyProvider) => return Err(protect::ProtectError::KeyProvider.into()),
                Err(_) => done.unreadable += 1,
            }
        }
        Ok((Some(last), done))
    }
}
