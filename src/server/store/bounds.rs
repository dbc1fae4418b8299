//! How much one call does at the most, so that no call holds the others up for long.

/// Deliveries that one lease call grants.
pub(super) const LEASES_MAX: usize = 64;
/// Bytes of events that one lease call grants; one delivery goes whatever its size.
pub(super) const LEASE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Events of one queue that are looked at before the cursor is kept and others get their turn.
pub(super) const SCAN_MAX: usize = 1_000;
/// Deliveries of all subscriptions that one page of acknowledged ones is looked for among: they have no index of their own,
/// since every confirmation would pay for it.
pub(super) const LISTED_MAX: u32 = 10_000;
/// Rows that one sweep ends, takes or forgets of a kind.
pub(super) const SWEEP_MAX: usize = 500;
/// Subscriptions whose windows a sweep fills at once.
pub(super) const TOGETHER_MAX: usize = 64;
/// Subscriptions named in the figures as blocked.
pub(super) const BLOCKED_MAX: usize = 1_000;
