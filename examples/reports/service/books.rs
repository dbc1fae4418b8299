//! The books that reports are made from: always the same figures, so that there is nothing to set up.

use super::operation::{RegionTotal, ReportGenerated, ReportWanted, Subject};

/// The first year with bookings.
const FIRST_YEAR: u16 = 2020;
/// The last year that is closed.
const LAST_YEAR: u16 = 2025;
const REGIONS: [&str; 4] = ["North", "East", "South", "West"];

/// Why a report can't be made of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The quarter isn't closed yet: asking again changes nothing.
    NotClosed,
    /// The source was busy: trying again helps.
    Busy,
    /// The source is damaged.
    Damaged,
}

/// Reads a report off the books, at the given attempt, counted from 1.
pub(crate) fn read(wanted: ReportWanted, attempt: u32) -> Result<ReportGenerated, Unreadable> {
    match wanted.subject {
        _ if wanted.year > LAST_YEAR => return Err(Unreadable::NotClosed),
        _ if wanted.year < FIRST_YEAR => return Ok(ReportGenerated::NothingBooked { first_year: FIRST_YEAR }),
        Subject::Returns if attempt == 1 => return Err(Unreadable::Busy),
        Subject::Stock => return Err(Unreadable::Damaged),
        Subject::Sales | Subject::Returns => {}
    }
    let regions: Vec<_> = REGIONS.iter().zip(1..).map(|(region, place)| total(wanted, region, place)).collect();
    Ok(ReportGenerated::Ready {
        rows: regions.iter().map(|line| line.rows).sum(),
        total_cents: regions.iter().map(|line| line.total_cents).sum(),
        regions,
        file_name: format!("{}-{}-q{}.csv", wanted.subject.as_str(), wanted.year, wanted.quarter),
    })
}

fn total(wanted: ReportWanted, region: &str, place: u32) -> RegionTotal {
    let quarter = u32::from(u8::from(wanted.quarter));
    let scattered = (u32::from(wanted.year) * 31 + quarter * 17 + place * 101) * 7_919;
    let rows = 400 + scattered % 900;
    RegionTotal { region: region.to_owned(), rows, total_cents: u64::from(rows) * u64::from(2_000 + scattered % 7_777) }
}

/// A report as the file that a person takes away.
pub(crate) fn csv(regions: &[RegionTotal]) -> String {
    let line = |line: &RegionTotal| {
        format!("{},{},{}.{:02}\r\n", line.region, line.rows, line.total_cents / 100, line.total_cents % 100)
    };
    format!("region,rows,total\r\n{}", regions.iter().map(line).collect::<String>())
}
