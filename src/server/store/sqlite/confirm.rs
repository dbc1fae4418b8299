//! Confirming proofs in SQLite: one question that also judges the bearer, and one text of writes.

use perilune_proto::lease::{Delivery, Judgement, Moment, Phase, SecretMatch};
use perilune_proto::scalar::{EventId, Generation};

use super::super::{Confirmation, Confirmed, Scope, Scopes, SecretHash, StoreError, Wake};
use super::row::{Columns, micros};
use super::writer::Unit;

pub(super) const PROOF: &str = "SELECT k.sha256, c.scopes, s.subscription_no,
        d.state, d.due_at, d.generation, d.budget, d.event_id, d.secret_sha256
    FROM credential_secret k
    JOIN credential c ON c.credential_id = k.credential_id
    LEFT JOIN subscription s ON s.subscription_id = ?3 AND s.credential_id = c.credential_id
    LEFT JOIN delivery d ON d.delivery_id = ?4 AND d.subscription_no = s.subscription_no
    WHERE k.sha256 = ?1 AND c.revoked_at IS NULL
        AND (k.ends_at IS NULL OR k.ends_at > ?2) AND (c.expires_at IS NULL OR c.expires_at > ?2)";
pub(super) const CONFIRM: &str = "SAVEPOINT question;
    UPDATE delivery SET state = 3, due_at = ?2, session_id = NULL, body = NULL WHERE delivery_id = ?1;
    UPDATE subscription SET open = open - 1, expired = expired - ?4, acknowledged = acknowledged + 1
        WHERE subscription_no = ?3;
    RELEASE question";

pub(super) async fn confirm(unit: &mut Unit, confirmation: Confirmation) -> Result<Confirmed, StoreError> {
    let row = sqlx::query(PROOF)
        .bind(confirmation.session.presented.as_bytes().to_vec())
        .bind(micros(unit.times.wall))
        .bind(confirmation.session.subscription_id.as_bytes().to_vec())
        .bind(confirmation.delivery_id.as_bytes().to_vec())
        .fetch_optional(&mut unit.connection)
        .await?;
    let Some(row) = row else { return Ok(Confirmed::Unauthenticated) };
    let row = Columns(&row);
    // Compared again in constant time, as at the handshake.
    if row.hash_if_any(0)?.map(SecretHash::from_bytes) != Some(confirmation.session.presented) {
        return Ok(Confirmed::Unauthenticated);
    }
    if !scopes(row)?.contains(Scope::Consume) {
        return Ok(Confirmed::PermissionDenied);
    }
    if row.is_null(2)? {
        return Ok(Confirmed::NotFound);
    }
    if row.is_null(3)? {
        return Ok(Confirmed::Lost);
    }
    let kept = row.hash_if_any(8)?.map(SecretHash::from_bytes);
    let presented = SecretHash::of(confirmation.secret.expose_bytes());
    let secret = if kept == Some(presented) { SecretMatch::Same } else { SecretMatch::Different };
    let event_id = EventId::from_bytes(row.id(7)?);
    match delivery(row)?.judge(confirmation.generation, secret) {
        Judgement::Lost => Ok(Confirmed::Lost),
        Judgement::Invalid => Ok(Confirmed::Invalid),
        Judgement::Replays => Ok(Confirmed::Acked { event_id, replayed: true }),
        Judgement::Confirms => {
            write(unit, &confirmation, row).await?;
            Ok(Confirmed::Acked { event_id, replayed: false })
        }
    }
}

async fn write(unit: &mut Unit, confirmation: &Confirmation, row: Columns<'_>) -> Result<(), StoreError> {
    let was_expired = i64::from(row.integer(3)? == EXPIRED);
    let text = sqlx::query(CONFIRM)
        .bind(confirmation.delivery_id.as_bytes().to_vec())
        .bind(micros(unit.times.now))
        .bind(row.integer(2)?)
        .bind(was_expired);
    unit.write(text).await?;
    unit.wakes.insert(Wake::Subscription(confirmation.session.subscription_id));
    Ok(())
}

/// `delivery.state` of a confirmed delivery.
pub(super) const CONFIRMED: i64 = 3;
/// `delivery.state` of an EXPIRED delivery.
pub(super) const EXPIRED: i64 = 2;

/// The delivery of a row whose columns from the fourth on are state, due_at, generation, budget.
fn delivery(row: Columns<'_>) -> Result<Delivery, StoreError> {
    let due: Moment = row.moment(4)?;
    let phase = match row.integer(3)? {
        0 => Phase::Ready { from: due },
        1 => Phase::Leased { until: due },
        EXPIRED => Phase::Expired,
        3 => Phase::Confirmed { at: due },
        _ => return Err(StoreError::Damaged("a delivery's state is none")),
    };
    Ok(Delivery::kept(Generation(row.count(5)?), row.count(6)?, phase))
}

fn scopes(row: Columns<'_>) -> Result<Scopes, StoreError> {
    let bits = u8::try_from(row.integer(1)?).map_err(|_| StoreError::Damaged("scopes are out of their range"))?;
    Ok(Scopes::from_bits(bits))
}
