//! Credentials in SQLite. Another process may write them, so nothing of them is kept in memory.

use perilune_proto::lease::Moment;
use perilune_proto::scalar::Name;
use sqlx::SqliteConnection;

use super::super::frozen::timestamp;
use super::super::{
    Answer, CredentialId, CredentialRecord, Credentials, NewCredential, Principal, Resource, Rotation, Scopes,
    SecretHash, StoreError, fresh,
};
use super::row::{Columns, joined, micros};
use super::writer::Unit;
use super::{SqliteStore, Times};

/// Columns of a record; `?1` is the wall time.
macro_rules! record {
    ($rest:literal) => {
        concat!(
            "SELECT c.credential_id, c.name, c.queues, c.scopes, c.created_at, c.expires_at, c.revoked_at,
                (SELECT max(k.ends_at) FROM credential_secret k
                    WHERE k.credential_id = c.credential_id AND k.ends_at > ?1)
             FROM credential c ",
            $rest
        )
    };
}

pub(super) const LIST: &str = record!("ORDER BY c.name, c.credential_id");
pub(super) const LIVE: &str = record!("WHERE c.name = ?2 AND c.revoked_at IS NULL");
pub(super) const ONE: &str = record!("WHERE c.credential_id = ?2");
pub(super) const CREATE: &str = "INSERT INTO credential (credential_id, name, queues, scopes, created_at, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
pub(super) const ADD_SECRET: &str = "INSERT INTO credential_secret (sha256, credential_id) VALUES (?1, ?2)";
pub(super) const END_SECRETS: &str =
    "UPDATE credential_secret SET ends_at = ?2 WHERE credential_id = ?1 AND ends_at IS NULL";
pub(super) const DROP_ENDED: &str = "DELETE FROM credential_secret WHERE credential_id = ?1 AND ends_at <= ?2";
pub(super) const REVOKE: &str = "UPDATE credential SET revoked_at = ?2 WHERE credential_id = ?1";
pub(super) const DROP_SECRETS: &str = "DELETE FROM credential_secret WHERE credential_id = ?1";
pub(super) const WHO: &str = "SELECT c.credential_id, c.name, c.queues, c.scopes, c.expires_at, k.ends_at, k.sha256
    FROM credential_secret k JOIN credential c ON c.credential_id = k.credential_id
    WHERE k.sha256 = ?1 AND c.revoked_at IS NULL
        AND (k.ends_at IS NULL OR k.ends_at > ?2) AND (c.expires_at IS NULL OR c.expires_at > ?2)";

impl Credentials for SqliteStore {
    fn create_credential(&self, new: NewCredential) -> Answer<'_, CredentialRecord> {
        self.write(move |unit| Box::pin(create(unit, new)))
    }

    fn credentials(&self) -> Answer<'_, Vec<CredentialRecord>> {
        Box::pin(async move {
            let (pool, times) = self.reader()?;
            let rows = sqlx::query(LIST).bind(micros(times.wall)).fetch_all(pool).await?;
            rows.iter().map(|row| record(Columns(row))).collect()
        })
    }

    fn rotate_credential(&self, rotation: Rotation) -> Answer<'_, CredentialRecord> {
        self.write(move |unit| Box::pin(rotate(unit, rotation)))
    }

    fn revoke_credential(&self, name: Name) -> Answer<'_, CredentialRecord> {
        self.write(move |unit| Box::pin(revoke(unit, name)))
    }

    fn authenticate(&self, presented: SecretHash) -> Answer<'_, Option<Principal>> {
        Box::pin(async move {
            let (pool, times) = self.reader()?;
            principal(&mut *pool.acquire().await?, presented, times).await
        })
    }
}

/// Who presents a secret, judged afresh.
pub(super) async fn principal(
    connection: &mut SqliteConnection,
    presented: SecretHash,
    times: Times,
) -> Result<Option<Principal>, StoreError> {
    let found = sqlx::query(WHO).bind(&presented.as_bytes()[..]).bind(micros(times.wall));
    let Some(row) = found.fetch_optional(connection).await? else { return Ok(None) };
    let row = Columns(&row);
    // The index found the hash by comparing it byte for byte; this comparison takes the same time for all.
    if row.hash_if_any(6)?.map(SecretHash::from_bytes) != Some(presented) {
        return Ok(None);
    }
    let ends = [row.moment_if_any(4)?, row.moment_if_any(5)?];
    Ok(Some(Principal {
        credential_id: id(row, 0)?,
        name: row.name(1)?,
        queues: row.names(2)?,
        scopes: scopes(row, 3)?,
        expires_at: ends.into_iter().flatten().min().map(timestamp),
    }))
}

async fn create(unit: &mut Unit, new: NewCredential) -> Result<CredentialRecord, StoreError> {
    if live(unit, &new.name).await?.is_some() {
        return Err(StoreError::NameTaken);
    }
    unit.guard().await?;
    let wall = unit.times.wall;
    let credential_id = CredentialId::from_u128(fresh::id());
    sqlx::query(CREATE)
        .bind(&credential_id.to_bytes()[..])
        .bind(new.name.as_str())
        .bind(joined(&new.queues))
        .bind(i64::from(new.scopes.bits()))
        .bind(micros(wall))
        .bind(new.expires_in.map(|wait| micros(wall.plus(wait))))
        .execute(&mut unit.connection)
        .await?;
    add_secret(unit, credential_id, new.secret).await?;
    shown(unit, credential_id).await
}

async fn rotate(unit: &mut Unit, rotation: Rotation) -> Result<CredentialRecord, StoreError> {
    let credential_id = live(unit, &rotation.name).await?.ok_or(StoreError::NotFound(Resource::Credential))?;
    unit.guard().await?;
    let wall = unit.times.wall;
    with_moment(unit, DROP_ENDED, credential_id, wall).await?;
    with_moment(unit, END_SECRETS, credential_id, wall.plus(rotation.overlap)).await?;
    add_secret(unit, credential_id, rotation.secret).await?;
    shown(unit, credential_id).await
}

async fn revoke(unit: &mut Unit, name: Name) -> Result<CredentialRecord, StoreError> {
    let credential_id = live(unit, &name).await?.ok_or(StoreError::NotFound(Resource::Credential))?;
    unit.guard().await?;
    let wall = unit.times.wall;
    with_moment(unit, REVOKE, credential_id, wall).await?;
    with_moment(unit, DROP_SECRETS, credential_id, wall).await?;
    shown(unit, credential_id).await
}

async fn live(unit: &mut Unit, name: &Name) -> Result<Option<CredentialId>, StoreError> {
    let query = sqlx::query(LIVE).bind(micros(unit.times.wall)).bind(name.as_str());
    let row = query.fetch_optional(&mut unit.connection).await?;
    row.map(|row| id(Columns(&row), 0)).transpose()
}

async fn shown(unit: &mut Unit, credential_id: CredentialId) -> Result<CredentialRecord, StoreError> {
    let query = sqlx::query(ONE).bind(micros(unit.times.wall)).bind(credential_id.to_bytes().to_vec());
    record(Columns(&query.fetch_one(&mut unit.connection).await?))
}

async fn add_secret(unit: &mut Unit, credential_id: CredentialId, secret: SecretHash) -> Result<(), StoreError> {
    let query = sqlx::query(ADD_SECRET).bind(secret.as_bytes().to_vec()).bind(credential_id.to_bytes().to_vec());
    query.execute(&mut unit.connection).await?;
    Ok(())
}

async fn with_moment(
    unit: &mut Unit,
    statement: &'static str,
    credential_id: CredentialId,
    moment: Moment,
) -> Result<(), StoreError> {
    let query = sqlx::query(statement).bind(credential_id.to_bytes().to_vec()).bind(micros(moment));
    query.execute(&mut unit.connection).await?;
    Ok(())
}

fn record(row: Columns<'_>) -> Result<CredentialRecord, StoreError> {
    Ok(CredentialRecord {
        credential_id: id(row, 0)?,
        name: row.name(1)?,
        queues: row.names(2)?,
        scopes: scopes(row, 3)?,
        created_at: timestamp(row.moment(4)?),
        expires_at: row.moment_if_any(5)?.map(timestamp),
        revoked_at: row.moment_if_any(6)?.map(timestamp),
        overlap_until: row.moment_if_any(7)?.map(timestamp),
    })
}

fn id(row: Columns<'_>, at: usize) -> Result<CredentialId, StoreError> {
    Ok(CredentialId::from_u128(u128::from_be_bytes(row.id(at)?)))
}

fn scopes(row: Columns<'_>, at: usize) -> Result<Scopes, StoreError> {
    let bits = u8::try_from(row.integer(at)?).map_err(|_| StoreError::Damaged("scopes are out of their range"))?;
    Ok(Scopes::from_bits(bits))
}
