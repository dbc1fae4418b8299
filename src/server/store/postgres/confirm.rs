//! Confirming proofs in PostgreSQL.

use perilune_proto::lease::{Delivery, Judgement, Moment, Phase, SecretMatch};
use perilune_proto::scalar::{EventId, Generation};

use super::super::{Confirmation, Confirmed, Scope, SecretHash, StoreError, Wake};
use super::credential::scopes;
use super::lanes::Unit;
use super::row::{Columns, micros};

// The subscription's row is locked before its delivery is read, as everybody does.
const BEARER: &str = "WITH s AS MATERIALIZED (
        SELECT subscription_no, credential_id FROM subscription WHERE subscription_id = $2 FOR UPDATE)
    SELECT k.sha256, c.scopes, s.subscription_no
    FROM credential_secret k
    JOIN credential c ON c.credential_id = k.credential_id
    LEFT JOIN s ON s.credential_id = c.credential_id
    WHERE k.sha256 = $1 AND c.revoked_at IS NULL
        AND (k.ends_at IS NULL OR k.ends_at > clock_us()) AND (c.expires_at IS NULL OR c.expires_at > clock_us())";
const DELIVERY: &str = "SELECT state, due_at, generation, budget, event_id, secret_sha256, clock_us()
    FROM delivery WHERE delivery_id = $1 AND subscription_no = $2";
const CONFIRM: &str = "WITH confirmed AS (
        UPDATE delivery SET state = 3, due_at = $2, session_id = NULL, body = NULL WHERE delivery_id = $1)
    UPDATE subscription SET open = open - 1, expired = expired - $4, acknowledged = acknowledged + 1
        WHERE subscription_no = $3";

/// `delivery.state` of a confirmed delivery.
pub(super) const CONFIRMED: i32 = 3;
/// `delivery.state` of an EXPIRED delivery.
pub(super) const EXPIRED: i32 = 2;

pub(super) async fn confirm(unit: &mut Unit, confirmation: Confirmation) -> Result<Confirmed, StoreError> {
    let session = confirmation.session;
    let bearer = sqlx::query(BEARER)
        .bind(session.presented.as_bytes().to_vec())
        .bind(session.subscription_id.as_bytes().to_vec())
        .fetch_optional(&mut unit.connection)
        .await?;
    let Some(bearer) = bearer else { return Ok(Confirmed::Unauthenticated) };
    let bearer = Columns(&bearer);
    // Compared again in constant time, as at the handshake.
    if bearer.hash_if_any(0)?.map(SecretHash::from_bytes) != Some(session.presented) {
        return Ok(Confirmed::Unauthenticated);
    }
    if !scopes(bearer, 1)?.contains(Scope::Consume) {
        return Ok(Confirmed::PermissionDenied);
    }
    if bearer.is_null(2)? {
        return Ok(Confirmed::NotFound);
    }
    let number = bearer.integer(2)?;
    let delivery = sqlx::query(DELIVERY).bind(confirmation.delivery_id.as_bytes().to_vec()).bind(number);
    let Some(row) = delivery.fetch_optional(&mut unit.connection).await? else { return Ok(Confirmed::Lost) };
    let row = Columns(&row);
    let kept = row.hash_if_any(5)?.map(SecretHash::from_bytes);
    let presented = SecretHash::of(confirmation.secret.expose_bytes());
    let secret = if kept == Some(presented) { SecretMatch::Same } else { SecretMatch::Different };
    let event_id = EventId::from_bytes(row.id(4)?);
    match delivery_of(row)?.judge(confirmation.generation, secret) {
        Judgement::Lost => Ok(Confirmed::Lost),
        Judgement::Invalid => Ok(Confirmed::Invalid),
        Judgement::Replays => Ok(Confirmed::Acked { event_id, replayed: true }),
        Judgement::Confirms => {
            let was_expired = i64::from(row.code(0)? == EXPIRED);
            let now = micros(row.moment(6)?);
            let write = sqlx::query(CONFIRM).bind(confirmation.delivery_id.as_bytes().to_vec()).bind(now);
            write.bind(number).bind(was_expired).execute(&mut unit.connection).await?;
            unit.wakes.insert(Wake::Subscription(session.subscription_id));
            Ok(Confirmed::Acked { event_id, replayed: false })
        }
    }
}

/// The delivery of a row that begins with state, due_at, generation, budget.
fn delivery_of(row: Columns<'_>) -> Result<Delivery, StoreError> {
    let due: Moment = row.moment(1)?;
    let phase = match row.code(0)? {
        0 => Phase::Ready { from: due },
        1 => Phase::Leased { until: due },
        EXPIRED => Phase::Expired,
        3 => Phase::Confirmed { at: due },
        _ => return Err(StoreError::Damaged("a delivery's state is none")),
    };
    Ok(Delivery::kept(Generation(row.count(2)?), row.count(3)?, phase))
}
