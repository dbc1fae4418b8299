//! Cutting a batch of reports, so that others get their turn between its parts.

use super::Report;

/// Reports of one part.
const REPORTS_MAX: usize = 64;
/// Bytes of payloads and results of one part; one report goes whatever its size.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The parts of a batch, in its order.
pub(super) fn parts(reports: Vec<Report>) -> impl Iterator<Item = Vec<Report>> + Send {
    let mut reports = reports.into_iter().peekable();
    std::iter::from_fn(move || {
        reports.peek()?;
        let mut part = Vec::new();
        let mut bytes = 0;
        while part.len() < REPORTS_MAX && bytes < BYTES_MAX {
            let Some(report) = reports.next() else { break };
            bytes += report.payload.as_str().len() + report.result.as_str().len();
            part.push(report);
        }
        Some(part)
    })
}
