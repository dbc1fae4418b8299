//! What a purge would remove and why. A plan changes nothing.

use perilune_proto::scalar::Timestamp;

use super::RetentionError;
use super::candidates::{self, Candidate, Page};
use super::policy::{RetentionPolicy, Target};
use crate::outcome::{OperationId, Operations, OutcomeEngine};
use crate::sql::SqlError;

/// Removals that a plan lists one by one, for each target; the rest is counted.
pub const PLAN_LISTED_MAX: u32 = 1_000;

/// What a purge at this moment would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPlan {
    /// The moment.
    pub now: Timestamp,
    /// Each target, in the order in which a purge takes them.
    pub targets: Vec<TargetPlan>,
}

/// What would go of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPlan {
    /// The target.
    pub target: Target,
    /// Operations that ended at this moment or before are due.
    pub cutoff: Timestamp,
    /// Of how many operations it would go.
    pub due: u64,
    /// Of how many it would go, were they not held.
    pub held: u64,
    /// The longest-ended of those due, where there is one.
    pub oldest: Option<Timestamp>,
    /// The first of those due, at most [`PLAN_LISTED_MAX`], in the order of their ids.
    pub removals: Vec<PlannedRemoval>,
}

/// One removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRemoval {
    /// The operation.
    pub operation_id: OperationId,
    /// Its type.
    pub operation_type: String,
    /// Its tenant.
    pub tenant: Option<String>,
    /// When it ended.
    pub completed_at: Timestamp,
    /// Why it would go, for a person to read.
    pub reason: String,
}

impl<DB: OutcomeEngine> Operations<DB> {
    /// What a purge at `now` would remove, and why. Changes nothing.
    ///
    /// # Errors
    /// [`RetentionError::Storage`].
    pub async fn plan(&self, policy: &RetentionPolicy, now: Timestamp) -> Result<RetentionPlan, RetentionError> {
        let mut connection = self.readers.acquire().await.map_err(SqlError::from)?;
        let mut targets = Vec::new();
        for target in Target::ALL {
            let cutoff = policy.cutoff(target, now.unix_micros());
            let due = candidates::count_due::<DB>(&mut connection, &self.dialect, target, cutoff).await?;
            let held = candidates::count_held::<DB>(&mut connection, &self.dialect, target, cutoff).await?;
            let page = Page { target, cutoff, after: "", limit: PLAN_LISTED_MAX.into() };
            let listed = candidates::due::<DB>(&mut connection, &self.dialect, page).await?;
            let days = policy.period(target).as_secs() / 86_400;
            let removal = |found: Candidate| {
                let completed_at = moment(found.completed_at);
                Some(PlannedRemoval {
                    operation_id: found.operation_id.parse().ok()?,
                    operation_type: found.operation_type,
                    tenant: found.tenant,
                    completed_at,
                    reason: format!(
                        "ended at {completed_at}; {target} is kept for {} s ({days} days)",
                        policy.period(target).as_secs()
                    ),
                })
            };
            targets.push(TargetPlan {
                target,
                cutoff: moment(cutoff),
                due: due.operations.unsigned_abs(),
                held: held.operations.unsigned_abs(),
                oldest: due.oldest.map(moment),
                removals: listed.into_iter().filter_map(removal).collect(),
            });
        }
        Ok(RetentionPlan { now, targets })
    }
}

/// A stored time; one outside the years 0 to 9999, which only a cutoff can be, is shown as 1970.
pub(super) fn moment(micros: i64) -> Timestamp {
    const EPOCH: fn() -> Option<Timestamp> = || Timestamp::from_unix_micros(0);
    Timestamp::from_unix_micros(micros).or_else(EPOCH).expect("1970 is within the years 0 to 9999")
}
