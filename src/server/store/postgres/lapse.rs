//! Ending leases that have lapsed: back to ready after a backoff, or EXPIRED.

use perilune_proto::lease::{Moment, redelivery};
use perilune_proto::scalar::{Generation, SubscriptionId};

use super::super::lapses::Window;
use super::super::{StoreError, Wake};
use super::lanes::Unit;
use super::record::backoff;
use super::row::{Columns, micros};

const LAPSED: &str = "SELECT d.delivery_id, d.due_at, d.generation, d.budget, s.backoff_min, s.backoff_max,
        s.subscription_id, s.room, s.expired
    FROM delivery d JOIN subscription s ON s.subscription_no = d.subscription_no
    WHERE d.subscription_no = $1 AND d.state = 1 AND d.due_at <= $2";
const END: &str = "WITH ended AS (
        UPDATE delivery d SET state = v.state, due_at = v.due
            FROM unnest($2::bytea[], $3::integer[], $4::bigint[]) v (delivery, state, due)
            WHERE d.delivery_id = v.delivery)
    UPDATE subscription SET expired = expired + $5 WHERE subscription_no = $1";

/// What became of the lapsed leases of one subscription.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ended {
    pub(super) again: u64,
    pub(super) expired: u64,
    /// When the first of them may be leased again.
    pub(super) next: Option<Moment>,
}

impl Unit {
    /// Ends every lapsed lease of a subscription whose row is locked; the window bounds them.
    pub(super) async fn lapse(&mut self, number: i64, now: Moment) -> Result<Ended, StoreError> {
        let query = sqlx::query(LAPSED).bind(number).bind(micros(now));
        let rows = query.fetch_all(&mut self.connection).await?;
        let mut ended = Ended::default();
        let (mut deliveries, mut states, mut dues) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let row = Columns(row);
            let (lapse, generation, budget) = (row.moment(1)?, row.count(2)?, row.count(3)?);
            let (state, due) = if generation < budget {
                let due = redelivery(lapse, Generation(generation), &backoff(row, 4)?, &mut self.rng);
                ended.again += 1;
                ended.next = Some(ended.next.map_or(due, |next| next.min(due)));
                (0, due)
            } else {
                ended.expired += 1;
                (2, lapse)
            };
            deliveries.push(row.id(0)?.to_vec());
            states.push(state);
            dues.push(micros(due));
        }
        if let Some(first) = rows.first() {
            let expired = i64::try_from(ended.expired).unwrap_or(i64::MAX);
            let end = sqlx::query(END).bind(number).bind(deliveries).bind(states).bind(dues).bind(expired);
            end.execute(&mut self.connection).await?;
            let first = Columns(first);
            let subscription_id = SubscriptionId::from_bytes(first.id(6)?);
            self.wakes.insert(Wake::Subscription(subscription_id));
            let before = Window { room: first.small(7)?, expired: first.small(8)? };
            self.lapses.add(subscription_id, ended.again, ended.expired, before);
        }
        Ok(ended)
    }
}
