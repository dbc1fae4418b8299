//! The demo's ledger: what went in must have come out, once.

use serde::Serialize;

use super::super::exit::{Failure, Outcome};
use super::super::output::OutputArgs;

/// The demo's figures at its end.
#[derive(Debug, Serialize)]
pub(super) struct Ledger {
    /// Results that were to be published.
    pub(super) events: u64,
    /// Results that the platform has on its log, as the publisher was told.
    pub(super) published: u64,
    /// Effects in the receiver's own database.
    pub(super) applied: u64,
    /// Events that have exactly one effect there.
    pub(super) applied_once: u64,
    /// Operations whose typed outcome is kept.
    pub(super) outcomes: u64,
    /// Deliveries that the platform counts as confirmed.
    pub(super) acknowledged: u64,
    /// Deliveries of events that had been applied before: the inbox kept them from a second effect.
    pub(super) duplicates: u64,
    /// Proofs that were reported again since their answer had been lost.
    pub(super) replayed: u64,
    /// Handlers that failed.
    pub(super) failures: u64,
    /// Sessions that were opened after another was lost.
    pub(super) reconnects: u64,
    /// Connections that were cut on purpose.
    pub(super) cut: u64,
    /// Those of them that lost the server's answers first.
    pub(super) deafened: u64,
}

impl Ledger {
    /// Prints the ledger.
    pub(super) fn show(&self, output: OutputArgs) -> Outcome {
        let rows = [
            ("published", self.published),
            ("applied", self.applied),
            ("outcomes kept", self.outcomes),
            ("acknowledged", self.acknowledged),
            ("duplicates suppressed", self.duplicates),
            ("receipts replayed", self.replayed),
            ("handlers failed", self.failures),
            ("reconnects survived", self.reconnects),
            ("connections cut", self.cut),
            ("answers lost", self.deafened),
        ];
        output.object(self, &rows.map(|(name, count)| (name, count.to_string())))
    }

    /// Whether every published result was applied exactly once and acknowledged.
    ///
    /// # Errors
    /// A sentence with the figures that don't fit.
    pub(super) fn balance(&self) -> Outcome {
        let figures = [self.published, self.applied, self.applied_once, self.outcomes, self.acknowledged];
        if figures == [self.events; 5] {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "the ledger does not balance: {} to publish, {} published, {} effects, {} events with one, {} outcomes, {} acknowledged",
            self.events, self.published, self.applied, self.applied_once, self.outcomes, self.acknowledged
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger {
            events: 10,
            published: 10,
            applied: 10,
            applied_once: 10,
            outcomes: 10,
            acknowledged: 10,
            duplicates: 3,
            replayed: 1,
            failures: 0,
            reconnects: 2,
            cut: 2,
            deafened: 1,
        }
    }

    #[test]
    fn a_ledger_balances_when_each_event_went_all_the_way_once() {
        assert!(ledger().balance().is_ok());
        for wrong in [
            Ledger { published: 9, ..ledger() },
            Ledger { applied: 11, ..ledger() },
            Ledger { applied: 11, applied_once: 9, ..ledger() },
            Ledger { applied_once: 9, ..ledger() },
            Ledger { outcomes: 9, ..ledger() },
            Ledger { acknowledged: 9, ..ledger() },
        ] {
            assert!(wrong.balance().is_err(), "{wrong:?}");
        }
    }
}
