//! What is kept how long: policy, plan, purge with its audit, and holds that always win.
//!
//! Source: outcome.md section 6.

mod audit;
mod candidates;
mod hold;
mod plan;
mod policy;
mod purge;
mod verify;

pub use audit::{AuditPage, AuditRecord};
pub use hold::{Hold, HoldCategory, HoldId, PlaceHold};
pub use plan::{PLAN_LISTED_MAX, PlannedRemoval, RetentionPlan, TargetPlan};
pub use policy::{RetentionPolicy, RetentionPolicyError, Target};
pub use purge::{PurgeOrder, RetentionPurgeResult};
pub use verify::AuditVerification;

use super::OperationId;
use crate::sql::SqlError;

/// Why retention can't do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionError {
    /// There is no such operation for the tenant.
    #[error("there is no operation {0}")]
    UnknownOperation(OperationId),
    /// There is no such hold for the tenant.
    #[error("there is no such hold")]
    UnknownHold,
    /// The hold was released before; its history stays as it is.
    #[error("the hold was released already")]
    AlreadyReleased,
    /// A text is empty or too long for its column.
    #[error("{field} must be {allowed}")]
    Text {
        /// Which.
        field: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The database failed; nothing of the batch under way was kept.
    #[error("the database failed")]
    Storage(#[from] SqlError),
}

/// Whose operations a call may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantScope {
    /// Everybody's: for an operator.
    Every,
    /// This tenant's alone; `None` for those without one.
    Only(Option<String>),
}

impl TenantScope {
    /// Whether an operation of `tenant` may be touched.
    #[must_use]
    pub fn includes(&self, tenant: Option<&str>) -> bool {
        match self {
            Self::Every => true,
            Self::Only(only) => only.as_deref() == tenant,
        }
    }
}

/// A text that must fit its column: 1 to 255 bytes.
fn checked(field: &'static str, text: &str) -> Result<(), RetentionError> {
    if (1..=255).contains(&text.len()) {
        return Ok(());
    }
    Err(RetentionError::Text { field, allowed: "1 to 255 bytes" })
}
