//! What an exploration found.

use std::fmt;

use crate::testkit::gate::Harm;

/// One point, and what came of the harm that was done there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Point {
    /// The kind of harm.
    pub harm: Harm,
    /// Its number among the points of its run, from 1.
    pub number: u64,
    /// Where it is: before or after which frame, statement or commit.
    pub place: String,
    /// How many effects the event has in the end. One is right.
    pub effects: i64,
    /// Whether the platform has the event confirmed in the end.
    pub confirmed: bool,
}

impl Point {
    /// Whether all is right: one effect, and confirmed.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        self.effects == 1 && self.confirmed
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { harm, number, place, effects, confirmed } = self;
        let confirmed = if *confirmed { "confirmed" } else { "not confirmed" };
        write!(f, "{harm} at point {number}, {place}: {effects} effects, {confirmed}")
    }
}

/// What an exploration found, in the order of its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct CrashReport {
    points: Vec<Point>,
}

impl CrashReport {
    pub(super) const fn new(points: Vec<Point>) -> Self {
        Self { points }
    }

    /// Every point that was explored.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whatever harm was done, the event had one effect and was confirmed.
    ///
    /// # Errors
    /// [`PointsFailed`] names every point where it was not so; none where no point was explored.
    pub fn one_effect(&self) -> Result<(), PointsFailed> {
        let failed: Vec<_> = self.points.iter().filter(|point| !point.is_right()).cloned().collect();
        let right = failed.is_empty() && !self.points.is_empty();
        if right { Ok(()) } else { Err(PointsFailed { of: self.points.len(), failed }) }
    }
}

/// Harm at these points led to an effect too many, none at all, or an event that nobody confirmed. Without any point,
/// nothing was explored.
#[derive(Clone, PartialEq, Eq)]
pub struct PointsFailed {
    of: usize,
    failed: Vec<Point>,
}

impl PointsFailed {
    /// The points.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.failed
    }
}

impl fmt::Display for PointsFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of == 0 {
            return f.write_str("no point was explored");
        }
        write!(f, "{} of {} points failed:", self.failed.len(), self.of)?;
        self.failed.iter().try_for_each(|point| write!(f, "\n  {point}"))
    }
}

// `unwrap` and `expect` print it: a point a line.
impl fmt::Debug for PointsFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PointsFailed {}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(number: u64, effects: i64, confirmed: bool) -> Point {
        Point { harm: Harm::Crash, number, place: "before COMMIT".to_owned(), effects, confirmed }
    }

    #[test]
    fn one_effect_and_a_confirmation_are_right_and_nothing_else() {
        CrashReport::new(vec![point(1, 1, true)]).one_effect().expect("right");
        for wrong in [point(2, 0, true), point(2, 2, true), point(2, 1, false)] {
            let report = CrashReport::new(vec![point(1, 1, true), wrong.clone()]);
            let failed = report.one_effect().expect_err("wrong");
            assert_eq!(failed.points(), [wrong]);
        }
        let failed = CrashReport::new(vec![point(7, 2, false)]).one_effect().expect_err("wrong").to_string();
        assert_eq!(failed, "1 of 1 points failed:\n  crash at point 7, before COMMIT: 2 effects, not confirmed");
    }

    #[test]
    fn a_report_without_points_proves_nothing() {
        let failed = CrashReport::new(Vec::new()).one_effect().expect_err("nothing was explored");
        assert_eq!(failed.to_string(), "no point was explored");
    }
}
