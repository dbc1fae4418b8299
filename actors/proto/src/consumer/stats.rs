//! Counters and gauges of one run.
//!
//! Source: consumer.md section 6.

/// Counters and gauges of one run; all zero at its start. Gauges are zero again at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Gauge: deliveries that wait for a slot.
    pub waiting: u64,
    /// Gauge: events whose handler runs.
    pub running: u64,
    /// Gauge: events whose proof is committed and unconfirmed.
    pub committed: u64,
    /// Gauge: newer deliveries of events still held.
    pub successors: u64,
    /// Handler runs started.
    pub started: u64,
    /// Handler runs that ended without ok.
    pub handler_failures: u64,
    /// Receipts: proofs confirmed, re-reports included.
    pub acknowledged: u64,
    /// Proofs that the platform no longer takes.
    pub proofs_lost: u64,
    /// Leases that lapsed before a slot was free or while a handler ran.
    pub leases_lapsed: u64,
    /// Deliveries dropped because their generation, or a newer one, was held already.
    pub stale_deliveries: u64,
    /// Sessions opened after the first.
    pub reconnects: u64,
    /// Dials that failed.
    pub dials_failed: u64,
    /// Notices dropped because their reader was slow.
    pub dropped_notices: u64,
    /// Crashed children, shells included.
    pub children_lost: u64,
    /// Inputs that came late or made no sense in the state they met, and had no effect.
    pub ignored_inputs: u64,
}
