//! The operation that the demo reports, as an application would define it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::{Operation, Outcome};
use crate::typescript::Catalogue;

/// What a report wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReportWanted {
    /// Which report.
    pub(crate) number: u64,
}

/// A report that was generated.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportGenerated {
    /// Which report.
    pub(crate) number: u64,
    /// How many pages it has.
    pub(crate) pages: u32,
}

impl Outcome for ReportGenerated {
    const TYPE: &'static str = "ReportGenerated";
    const SCHEMA_VERSION: u32 = 1;
}

/// Generates a report.
pub(crate) struct GenerateReport;

impl Operation for GenerateReport {
    const TYPE: &'static str = "GenerateReport";
    type Input = ReportWanted;
    type Outcome = ReportGenerated;
}

/// The demo's operations.
pub(crate) fn catalogue() -> Catalogue {
    Catalogue::new().operation::<GenerateReport>()
}
