//! What a test may want to be true at its end.

use std::collections::BTreeSet;
use std::fmt;

use perilune_proto::scalar::{EventId, Generation};

use super::journal::{Journal, Outcome, Record, Verdict};

/// Records that an unmet expectation shows.
const SHOWN_MAX: usize = 40;

/// An expectation that does not hold, with what happened instead.
#[derive(Clone, PartialEq, Eq)]
pub struct Unmet {
    expected: String,
    seen: Vec<Record>,
}

impl Unmet {
    pub(crate) fn new(expected: impl Into<String>, seen: &[Record]) -> Self {
        Self { expected: expected.into(), seen: seen.to_vec() }
    }

    /// What was expected, in one clause.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}; what happened:", self.expected)?;
        for record in self.seen.iter().take(SHOWN_MAX) {
            write!(f, "\n  {record:?}")?;
        }
        match self.seen.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

// `unwrap` and `expect` print it: one record a line reads better than one line for all.
impl fmt::Debug for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Unmet {}

impl Journal {
    /// One call of the watched handler for this event ended well, and no more than one. Calls that failed don't count.
    ///
    /// It speaks of calls, not of effects: a handler that finds its inbox row does nothing and ends well all the same.
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn handled_once(&self, event_id: EventId) -> Result<(), Unmet> {
        let about = self.about(event_id)?;
        let ended_well =
            about.iter().filter(|record| matches!(record, Record::HandlerEnded { outcome: Outcome::Ok, .. })).count();
        if ended_well == 1 {
            return Ok(());
        }
        Err(Unmet::new(format!("event {event_id} to be handled once, and it was {ended_well} times"), &about))
    }

    /// The platform has confirmed this event by a proof of this generation.
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn acknowledged(&self, event_id: EventId, generation: Generation) -> Result<(), Unmet> {
        let about = self.about(event_id)?;
        let verdict = Verdict::Confirmed;
        if about.contains(&Record::Judged { event_id, generation, verdict }) {
            return Ok(());
        }
        Err(Unmet::new(format!("event {event_id} to be acknowledged with generation {generation}"), &about))
    }

    /// Whatever was published is confirmed.
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn nothing_unconfirmed(&self) -> Result<(), Unmet> {
        let records = self.whole()?;
        match unconfirmed(&records).len() {
            0 => Ok(()),
            left => Err(Unmet::new(format!("nothing to be unconfirmed, and {left} events are"), &records)),
        }
    }

    /// Every fault of the script was played: a test whose fault never comes proves nothing.
    ///
    /// # Errors
    /// [`Unmet`].
    pub fn every_fault_played(&self) -> Result<(), Unmet> {
        let records = self.whole()?;
        match self.unplayed_faults() {
            0 => Ok(()),
            left => Err(Unmet::new(format!("every fault to be played, and {left} were not"), &records)),
        }
    }

    fn whole(&self) -> Result<Vec<Record>, Unmet> {
        let records = self.records();
        if self.overflowed() {
            return Err(Unmet::new("the journal to hold everything, and it is full", &records));
        }
        Ok(records)
    }

    fn about(&self, event_id: EventId) -> Result<Vec<Record>, Unmet> {
        let mut records = self.whole()?;
        records.retain(|record| event_of(record).is_none_or(|id| id == event_id));
        Ok(records)
    }
}

const fn event_of(record: &Record) -> Option<EventId> {
    match record {
        Record::Published { event_id }
        | Record::Delivered { event_id, .. }
        | Record::Judged { event_id, .. }
        | Record::HandlerCalled { event_id, .. }
        | Record::HandlerEnded { event_id, .. } => Some(*event_id),
        Record::HandshakeRefused { .. } | Record::SessionOpened { .. } | Record::ConnectionEnded => None,
    }
}

/// The published events without a confirmation.
pub(crate) fn unconfirmed(records: &[Record]) -> BTreeSet<EventId> {
    let mut open = BTreeSet::new();
    for record in records {
        match record {
            Record::Published { event_id } => drop(open.insert(*event_id)),
            Record::Judged { event_id, verdict: Verdict::Confirmed, .. } => drop(open.remove(event_id)),
            _ => {}
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::super::journal::RECORDS_MAX;
    use super::*;

    const EVENT: EventId = EventId::from_u128(1);
    const OTHER: EventId = EventId::from_u128(2);

    fn journal(records: &[Record]) -> Journal {
        let journal = Journal::new();
        records.iter().for_each(|record| journal.write(*record));
        journal
    }

    const fn ended(event_id: EventId, outcome: Outcome) -> Record {
        Record::HandlerEnded { event_id, generation: Generation(1), outcome }
    }

    const fn judged(event_id: EventId, generation: u64, verdict: Verdict) -> Record {
        Record::Judged { event_id, generation: Generation(generation), verdict }
    }

    #[test]
    fn handled_once_counts_the_calls_that_ended_well() {
        let once = [ended(EVENT, Outcome::Error), ended(EVENT, Outcome::Ok), ended(OTHER, Outcome::Ok)];
        journal(&once).handled_once(EVENT).expect("one call ended well");
        let twice = journal(&[ended(EVENT, Outcome::Ok), ended(EVENT, Outcome::Ok)]);
        assert!(twice.handled_once(EVENT).expect_err("two").expected().contains("2 times"));
        let never = journal(&[ended(EVENT, Outcome::Dropped), ended(OTHER, Outcome::Ok)]);
        assert!(never.handled_once(EVENT).expect_err("none").expected().contains("0 times"));
    }

    #[test]
    fn acknowledged_wants_this_event_this_generation_and_a_confirmation() {
        let journal = journal(&[
            judged(EVENT, 1, Verdict::Lost),
            judged(EVENT, 2, Verdict::Confirmed),
            judged(EVENT, 3, Verdict::Replayed),
        ]);
        journal.acknowledged(EVENT, Generation(2)).expect("confirmed");
        for generation in [1, 3, 4] {
            journal.acknowledged(EVENT, Generation(generation)).expect_err("not confirmed by this one");
        }
        journal.acknowledged(OTHER, Generation(2)).expect_err("another event");
    }

    #[test]
    fn nothing_is_unconfirmed_once_each_published_event_is_confirmed() {
        let published = |event_id| Record::Published { event_id };
        journal(&[]).nothing_unconfirmed().expect("nothing was published");
        let open = journal(&[published(EVENT), published(OTHER), judged(EVENT, 1, Verdict::Confirmed)]);
        assert!(open.nothing_unconfirmed().expect_err("one is open").expected().contains("1 events"));
        open.write(judged(OTHER, 1, Verdict::Invalid));
        open.nothing_unconfirmed().expect_err("an invalid proof confirms nothing");
        open.write(judged(OTHER, 1, Verdict::Confirmed));
        open.nothing_unconfirmed().expect("both are confirmed");
    }

    #[test]
    fn a_fault_that_never_came_is_told() {
        let journal = journal(&[]);
        journal.every_fault_played().expect("there was none");
        journal.set_unplayed(1);
        journal.every_fault_played().expect_err("one is left");
    }

    #[test]
    fn a_full_journal_meets_no_expectation() {
        let journal = journal(&vec![Record::ConnectionEnded; RECORDS_MAX]);
        journal.nothing_unconfirmed().expect("full to the brim, and whole");
        journal.write(Record::ConnectionEnded);
        for unmet in [journal.nothing_unconfirmed(), journal.handled_once(EVENT), journal.every_fault_played()] {
            let text = unmet.expect_err("records are missing").to_string();
            assert!(text.contains("it is full") && text.ends_with("more"), "{text}");
        }
    }
}
