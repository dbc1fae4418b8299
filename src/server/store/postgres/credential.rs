//! Credentials in PostgreSQL.

use perilune_proto::lease::Moment;
use perilune_proto::scalar::Name;
use sqlx::PgConnection;

use super::super::frozen::timestamp;
use super::super::{
    Answer, CredentialId, CredentialRecord, Credentials, NewCredential, Principal, Resource, Rotation, Scopes,
    SecretHash, StoreError, fresh,
};
use super::PostgresStore;
use super::lanes::Unit;
use super::row::{Columns, micros, texts};
use crate::sql::{SqlError, SqlErrorKind};

macro_rules! record {
    ($rest:literal) => {
        concat!(
            "SELECT c.credential_id, c.name, c.queues, c.scopes, c.created_at, c.expires_at, c.revoked_at,
                (SELECT max(k.ends_at) FROM credential_secret k
                    WHERE k.credential_id = c.credential_id AND k.ends_at > clock_us()),
                clock_us()
             FROM credential c ",
            $rest
        )
    };
}

const LIST: &str = record!(r#"ORDER BY c.name COLLATE "C", c.credential_id"#);
const LIVE: &str = record!("WHERE c.name = $1 AND c.revoked_at IS NULL FOR UPDATE OF c");
const ONE: &str = record!("WHERE c.credential_id = $1");
const CREATE: &str = "INSERT INTO credential (credential_id, name, queues, scopes, created_at, expires_at)
    SELECT $1, $2, $3, $4, now.us, now.us + $5 FROM (SELECT clock_us() AS us) now";
const ADD_SECRET: &str = "INSERT INTO credential_secret (sha256, credential_id) VALUES ($1, $2)";
const END_SECRETS: &str = "UPDATE credential_secret SET ends_at = $2 WHERE credential_id = $1 AND ends_at IS NULL";
const DROP_ENDED: &str = "DELETE FROM credential_secret WHERE credential_id = $1 AND ends_at <= $2";
const REVOKE: &str = "UPDATE credential SET revoked_at = $2 WHERE credential_id = $1";
const DROP_SECRETS: &str = "DELETE FROM credential_secret WHERE credential_id = $1 AND $2::bigint IS NOT NULL";
const WHO: &str = "SELECT c.credential_id, c.name, c.queues, c.scopes, c.expires_at, k.ends_at, k.sha256
    FROM credential_secret k JOIN credential c ON c.credential_id = k.credential_id
    WHERE k.sha256 = $1 AND c.revoked_at IS NULL
        AND (k.ends_at IS NULL OR k.ends_at > clock_us()) AND (c.expires_at IS NULL OR c.expires_at > clock_us())";

impl Credentials for PostgresStore {
    fn create_credential(&self, new: NewCredential) -> Answer<'_, CredentialRecord> {
        self.append(move |unit| Box::pin(create(unit, new)))
    }

    fn credentials(&self) -> Answer<'_, Vec<CredentialRecord>> {
        self.read(|pool| async move {
            let rows = sqlx::query(LIST).fetch_all(&pool).await?;
            rows.iter().map(|row| record(Columns(row))).collect()
        })
    }

    fn rotate_credential(&self, rotation: Rotation) -> Answer<'_, CredentialRecord> {
        self.append(move |unit| Box::pin(rotate(unit, rotation)))
    }

    fn revoke_credential(&self, name: Name) -> Answer<'_, CredentialRecord> {
        self.append(move |unit| Box::pin(revoke(unit, name)))
    }

    fn authenticate(&self, presented: SecretHash) -> Answer<'_, Option<Principal>> {
        self.read(move |pool| async move { principal(&mut *pool.acquire().await?, presented).await })
    }
}

/// Who presents a secret, judged afresh.
pub(super) async fn principal(
    connection: &mut PgConnection,
    presented: SecretHash,
) -> Result<Option<Principal>, StoreError> {
    let found = sqlx::query(WHO).bind(presented.as_bytes().to_vec()).fetch_optional(connection).await?;
    let Some(row) = found else { return Ok(None) };
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
    unit.locked_head().await?;
    let credential_id = CredentialId::from_u128(fresh::id());
    let lasts = new.expires_in.map(|wait| i64::try_from(wait.as_micros()).unwrap_or(i64::MAX / 2));
    let created = sqlx::query(CREATE)
        .bind(credential_id.to_bytes().to_vec())
        .bind(new.name.as_str().to_owned())
        .bind(texts(&new.queues))
        .bind(i64::from(new.scopes.bits()))
        .bind(lasts)
        .execute(&mut unit.connection)
        .await;
    if let Err(error) = created.map_err(SqlError::from) {
        let taken = error.kind() == SqlErrorKind::UniqueViolation && error.constraint() == Some("credential_name");
        return Err(if taken { StoreError::NameTaken } else { error.into() });
    }
    add_secret(unit, credential_id, new.secret).await?;
    shown(unit, credential_id).await
}

async fn rotate(unit: &mut Unit, rotation: Rotation) -> Result<CredentialRecord, StoreError> {
    let (credential_id, now) = live(unit, &rotation.name).await?;
    with_moment(unit, DROP_ENDED, credential_id, now).await?;
    with_moment(unit, END_SECRETS, credential_id, now.plus(rotation.overlap)).await?;
    add_secret(unit, credential_id, rotation.secret).await?;
    shown(unit, credential_id).await
}

async fn revoke(unit: &mut Unit, name: Name) -> Result<CredentialRecord, StoreError> {
    let (credential_id, now) = live(unit, &name).await?;
    with_moment(unit, REVOKE, credential_id, now).await?;
    with_moment(unit, DROP_SECRETS, credential_id, now).await?;
    shown(unit, credential_id).await
}

/// Locks the credential of that name that isn't revoked, behind the log's lock as everything here.
async fn live(unit: &mut Unit, name: &Name) -> Result<(CredentialId, Moment), StoreError> {
    unit.locked_head().await?;
    let found = sqlx::query(LIVE).bind(name.as_str().to_owned()).fetch_optional(&mut unit.connection).await?;
    let row = found.ok_or(StoreError::NotFound(Resource::Credential))?;
    Ok((id(Columns(&row), 0)?, Columns(&row).moment(8)?))
}

async fn shown(unit: &mut Unit, credential_id: CredentialId) -> Result<CredentialRecord, StoreError> {
    let query = sqlx::query(ONE).bind(credential_id.to_bytes().to_vec());
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

/// Reads a set of scopes.
pub(super) fn scopes(row: Columns<'_>, at: usize) -> Result<Scopes, StoreError> {
    let bits = u8::try_from(row.integer(at)?).map_err(|_| StoreError::Damaged("scopes are out of their range"))?;
    Ok(Scopes::from_bits(bits))
}
