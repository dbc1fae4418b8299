//! Between columns and the types of the port. What does not fit is damage, never a guess.

use std::collections::BTreeSet;

use perilune_proto::event::Status;
use perilune_proto::lease::Moment;
use perilune_proto::scalar::Name;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::super::StoreError;

/// A moment as a column holds it.
pub(super) fn micros(moment: Moment) -> i64 {
    stored(moment.0)
}

/// A count as a column holds it. A sequence that nobody reaches is as good as any other such.
pub(super) fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Names as a column holds them.
pub(super) fn texts(names: &BTreeSet<Name>) -> Vec<String> {
    names.iter().map(|name| name.as_str().to_owned()).collect()
}

/// Statuses as a column holds them: one bit each.
pub(super) fn bits(statuses: &BTreeSet<Status>) -> i64 {
    statuses.iter().fold(0, |bits, status| bits | 1 << code(*status))
}

/// A status as a column holds it: its place among [`Status::ALL`].
pub(super) fn code(status: Status) -> i32 {
    let place = Status::ALL.iter().position(|known| *known == status);
    place.and_then(|place| i32::try_from(place).ok()).unwrap_or(i32::MAX)
}

/// Reads a row's columns by their place.
#[derive(Clone, Copy)]
pub(super) struct Columns<'r>(pub(super) &'r PgRow);

impl Columns<'_> {
    pub(super) fn integer(self, at: usize) -> Result<i64, StoreError> {
        Ok(self.0.try_get(at)?)
    }

    pub(super) fn count(self, at: usize) -> Result<u64, StoreError> {
        u64::try_from(self.integer(at)?).map_err(|_| StoreError::Damaged("a count is negative"))
    }

    pub(super) fn small(self, at: usize) -> Result<u32, StoreError> {
        u32::try_from(self.integer(at)?).map_err(|_| StoreError::Damaged("a count is out of its range"))
    }

    /// An `INTEGER` column: a state or a status.
    pub(super) fn code(self, at: usize) -> Result<i32, StoreError> {
        Ok(self.0.try_get(at)?)
    }

    pub(super) fn flag(self, at: usize) -> Result<bool, StoreError> {
        Ok(self.0.try_get(at)?)
    }

    pub(super) fn moment(self, at: usize) -> Result<Moment, StoreError> {
        self.count(at).map(Moment)
    }

    pub(super) fn moment_if_any(self, at: usize) -> Result<Option<Moment>, StoreError> {
        if self.is_null(at)? { Ok(None) } else { self.moment(at).map(Some) }
    }

    pub(super) fn is_null(self, at: usize) -> Result<bool, StoreError> {
        let value = self.0.try_get_raw(at)?;
        Ok(sqlx::ValueRef::is_null(&value))
    }

    pub(super) fn id(self, at: usize) -> Result<[u8; 16], StoreError> {
        let bytes: &[u8] = self.0.try_get(at)?;
        bytes.try_into().map_err(|_| StoreError::Damaged("an id has another length"))
    }

    pub(super) fn hash_if_any(self, at: usize) -> Result<Option<[u8; 32]>, StoreError> {
        let bytes: Option<&[u8]> = self.0.try_get(at)?;
        bytes.map(TryInto::try_into).transpose().map_err(|_| StoreError::Damaged("a hash has another length"))
    }

    /// A text that is kept as bytes.
    pub(super) fn text_if_any(self, at: usize) -> Result<Option<String>, StoreError> {
        let bytes: Option<Vec<u8>> = self.0.try_get(at)?;
        bytes.map(String::from_utf8).transpose().map_err(|_| StoreError::Damaged("a text is not UTF-8"))
    }

    pub(super) fn name(self, at: usize) -> Result<Name, StoreError> {
        let text: &str = self.0.try_get(at)?;
        text.parse().map_err(|_| StoreError::Damaged("a name is none"))
    }

    pub(super) fn names(self, at: usize) -> Result<BTreeSet<Name>, StoreError> {
        let texts: Vec<String> = self.0.try_get(at)?;
        let names = texts.iter().map(|text| text.parse());
        names.collect::<Result<_, _>>().map_err(|_| StoreError::Damaged("a name is none"))
    }

    pub(super) fn texts(self, at: usize) -> Result<Vec<String>, StoreError> {
        Ok(self.0.try_get(at)?)
    }

    pub(super) fn numbers(self, at: usize) -> Result<Vec<i64>, StoreError> {
        Ok(self.0.try_get(at)?)
    }

    pub(super) fn status(self, at: usize) -> Result<Status, StoreError> {
        let status = usize::try_from(self.code(at)?).ok().and_then(|place| Status::ALL.get(place));
        status.copied().ok_or(StoreError::Damaged("a status is none"))
    }

    pub(super) fn statuses(self, at: usize) -> Result<BTreeSet<Status>, StoreError> {
        let bits = self.integer(at)?;
        Ok(Status::ALL.into_iter().filter(|status| bits & (1 << code(*status)) != 0).collect())
    }
}
