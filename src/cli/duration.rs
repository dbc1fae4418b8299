//! Durations as they are written on the command line: `200ms`, `30s`, `5m`, `24h`, `90d`.

use std::ops::RangeInclusive;
use std::time::Duration;

const EXPECTED: &str = "must be a whole number above zero with a unit, such as `200ms`, `30s`, `5m`, `24h` or `90d`";

/// Reads a duration.
///
/// # Errors
/// A clause for the usage error: no unit, an unknown one, zero, or beyond 2⁶⁴ milliseconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    read(text).ok_or_else(|| EXPECTED.to_owned())
}

fn read(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_at);
    let count: u64 = digits.parse().ok()?;
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = count.checked_mul(millis_per_unit)?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

/// Reads a duration within a range.
///
/// The parser's error is a clause that names the range.
pub(crate) fn within(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = parse(text)?;
        if range.contains(&duration) {
            Ok(duration)
        } else {
            Err(format!("must be from {} to {}", show(*range.start()), show(*range.end())))
        }
    }
}

/// Writes a duration as [`parse`] reads it, in the largest unit that keeps it whole.
///
/// Parts of a millisecond are cut.
pub(crate) fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (millis_per_unit, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if millis > 0 && millis.is_multiple_of(millis_per_unit) {
            return format!("{}{unit}", millis / millis_per_unit);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_positive_whole_number_with_a_unit() {
        for (text, millis) in
            [("200ms", 200), ("30s", 30_000), ("5m", 300_000), ("24h", 86_400_000), ("90d", 7_776_000_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
            assert_eq!(parse(&show(Duration::from_millis(millis))), Ok(Duration::from_millis(millis)));
        }
        for bad in [
            "",
            "30",
            "0s",
            "0ms",
            "s",
            "-1s",
            "+1s",
            "1.5s",
            "1 s",
            "1S",
            "1w",
            "99999999999999999999s",
            "213503982335d",
        ] {
            assert_eq!(parse(bad), Err(EXPECTED.to_owned()), "{bad}");
        }
    }

    #[test]
    fn a_range_is_named_by_the_one_who_keeps_it() {
        let parse = within(Duration::from_millis(1)..=Duration::from_secs(300));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse("6m"), Err("must be from 1ms to 5m".to_owned()));
    }
}
