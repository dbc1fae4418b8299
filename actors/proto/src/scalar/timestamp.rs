//! `time`: RFC 3339, UTC, ends in `Z`, 0 to 9 fractional digits, a real calendar date.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use time::{Date, Month, OffsetDateTime, Time};

use super::{ScalarError, Written};

const EXPECTED: ScalarError = ScalarError::new("an RFC 3339 time in UTC that ends in Z, with 0 to 9 fractional digits");

/// A moment of the platform's wall clock, with the number of fractional digits it was written with,
/// so that it is written again as it came.
///
/// Wall-clock times are data. Nothing in this crate compares one with a deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    moment: OffsetDateTime,
    fraction_digits: u8,
}

impl Timestamp {
    /// Makes a timestamp from microseconds since 1970, written with six fractional digits.
    ///
    /// `None` for a moment outside the years 0 to 9999.
    #[must_use]
    pub fn from_unix_micros(micros: i64) -> Option<Self> {
        let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).ok()?;
        (0..=9_999).contains(&moment.year()).then_some(Self { moment, fraction_digits: 6 })
    }

    /// Microseconds since 1970, rounded down.
    #[must_use]
    pub fn unix_micros(&self) -> i64 {
        let micros = self.moment.unix_timestamp_nanos().div_euclid(1_000);
        // Years 0 to 9999 fit easily.
        i64::try_from(micros).unwrap_or(i64::MAX)
    }
}

impl FromStr for Timestamp {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        parse(text.as_bytes()).ok_or(EXPECTED)
    }
}

/// Reads `YYYY-MM-DDTHH:MM:SS[.F{1,9}]Z`.
fn parse(text: &[u8]) -> Option<Timestamp> {
    let (seconds, rest) = text.split_first_chunk::<19>()?;
    let [.., b'-', _, _, b'-', _, _, b'T', _, _, b':', _, _, b':', _, _] = seconds else { return None };
    let mut strange = 0;
    let mut two = |at: usize| {
        let (tens, ones) = (seconds[at].wrapping_sub(b'0'), seconds[at + 1].wrapping_sub(b'0'));
        // Above 9 where either is no digit; looked at once, behind them all.
        strange |= u8::from(tens > 9) | u8::from(ones > 9);
        tens.wrapping_mul(10).wrapping_add(ones)
    };
    let year = i32::from(two(0)) * 100 + i32::from(two(2));
    let (month, day) = (two(5), two(8));
    let (hour, minute, second) = (two(11), two(14), two(17));
    if strange != 0 {
        return None;
    }
    let date = Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()?;
    let (fraction_digits, nanos) = fraction(rest)?;
    let time = Time::from_hms_nano(hour, minute, second, nanos).ok()?;
    Some(Timestamp { moment: date.with_time(time).assume_utc(), fraction_digits })
}

fn fraction(rest: &[u8]) -> Option<(u8, u32)> {
    match rest {
        b"Z" => Some((0, 0)),
        [b'.', digits @ .., b'Z'] if (1..=9).contains(&digits.len()) => {
            let count = u8::try_from(digits.len()).ok()?;
            Some((count, number(digits)? * 10_u32.pow(9 - u32::from(count))))
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |n, c| c.is_ascii_digit().then(|| n * 10 + u32::from(c - b'0')))
}

impl Written for Timestamp {
    fn push_to(&self, text: &mut String) {
        write!(text, "{self}").expect("a string takes whatever is written");
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.moment;
        write!(f, "{:04}-{:02}-{:02}", at.year(), u8::from(at.month()), at.day())?;
        write!(f, "T{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())?;
        if self.fraction_digits > 0 {
            let width = usize::from(self.fraction_digits);
            let fraction = at.nanosecond() / 10_u32.pow(9 - u32::from(self.fraction_digits));
            write!(f, ".{fraction:0width$}")?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_it_came() {
        for text in [
            "2026-08-01T10:00:00Z",
            "2024-02-29T23:59:59.1Z",
            "0001-01-01T00:00:00.000000001Z",
            "9999-12-31T23:59:59.120Z",
        ] {
            assert_eq!(text.parse::<Timestamp>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn impossible_and_foreign_times_are_refused() {
        for bad in [
            "",
            "2026-08-01",
            "2026-08-01T10:00:00",
            "2026-08-01T10:00:00+00:00",
            "2026-08-01t10:00:00Z",
            "2026-08-01T10:00:00z",
            "2026-02-29T10:00:00Z",
            "2026-13-01T10:00:00Z",
            "2026-08-01T24:00:00Z",
            "2026-08-01T10:60:00Z",
            "2026-06-30T23:59:60Z",
            "2026-08-01T10:00:00.Z",
            "2026-08-01T10:00:00.1234567890Z",
            "2026-08-01T10:00:00,1Z",
            "+026-08-01T10:00:00Z",
            "2026-08-01 10:00:00Z",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(EXPECTED), "{bad}");
        }
    }
}
