//! The operation: what a report is asked for, and how it ends. The page's client is generated from these types.

use std::fmt;

use perilune::outcome::{Operation, Outcome};
use perilune::typescript::Catalogue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Generates a report.
pub(crate) struct GenerateReport;

impl Operation for GenerateReport {
    const TYPE: &'static str = "GenerateReport";
    type Input = ReportWanted;
    type Outcome = ReportGenerated;
}

/// Which report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportWanted {
    pub(crate) subject: Subject,
    pub(crate) year: u16,
    pub(crate) quarter: Quarter,
}

/// What a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Subject {
    Sales,
    Returns,
    Stock,
}

impl Subject {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Sales => "sales",
            Self::Returns => "returns",
            Self::Stock => "stock",
        }
    }
}

/// A quarter of a year: 1 to 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub(crate) struct Quarter(u8);

impl TryFrom<u8> for Quarter {
    type Error = &'static str;

    fn try_from(quarter: u8) -> Result<Self, Self::Error> {
        if (1..=4).contains(&quarter) { Ok(Self(quarter)) } else { Err("quarter must be 1 to 4") }
    }
}

impl From<Quarter> for u8 {
    fn from(quarter: Quarter) -> Self {
        quarter.0
    }
}

impl fmt::Display for Quarter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a report that completed came out.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(crate) enum ReportGenerated {
    /// There is something to read.
    Ready {
        /// Bookings that it counts.
        rows: u32,
        /// What they come to, in cents.
        total_cents: u64,
        regions: Vec<RegionTotal>,
        /// What the file is called that has it all.
        file_name: String,
    },
    /// Nothing was booked then.
    NothingBooked {
        /// The first year with bookings.
        first_year: u16,
    },
}

/// A line of the report.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RegionTotal {
    pub(crate) region: String,
    pub(crate) rows: u32,
    pub(crate) total_cents: u64,
}

impl Outcome for ReportGenerated {
    const TYPE: &'static str = "ReportGenerated";
    const SCHEMA_VERSION: u32 = 1;
}

/// The operations that the page has a client for.
pub(crate) fn catalogue() -> Catalogue {
    Catalogue::new().operation::<GenerateReport>()
}
