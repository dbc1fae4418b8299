//! The tables of operations and outcomes.
//!
//! | table | holds |
//! | --- | --- |
//! | `operations` | one row an operation, clear columns only: what a decision needs |
//! | `operation_inputs`, `outcomes`, `dead_letters` | protected blobs, one row an operation |
//! | `operation_journal` | one row an event that was applied |
//! | `operation_holds` | holds, released ones too |
//! | `retention_audit`, `retention_head` | what was purged, chained by hash; the chain's end |
//!
//! Times are microseconds since 1970. On MySQL text is VARBINARY, so that it compares byte for byte.

use crate::sql::{Component, Migration};

pub(in crate::outcome) const COMPONENT: Component = Component {
    name: "outcome",
    migrations: &[Migration {
        version: 1,
        name: "operations, outcomes, retention",
        sqlite: include_str!("migrations/sqlite_0001.sql"),
        postgres: include_str!("migrations/postgres_0001.sql"),
        mysql: include_str!("migrations/mysql_0001.sql"),
    }],
};
