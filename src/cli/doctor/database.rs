//! The server's database, where this is its host.

use super::finding::Finding;
use crate::server::store::{self, OpenError};
use crate::sql::DatabaseUrl;

/// Looks at the database and its schema; changes neither.
pub(super) async fn examine(database: &DatabaseUrl) -> Vec<Finding> {
    let Err(error) = store::examine(database).await else {
        return vec![
            Finding::ok("database", "a server's, and readable"),
            Finding::ok("migrations", "at this program's version"),
        ];
    };
    let found = super::super::database::sentence(&error);
    match error {
        OpenError::Older { found: 0, .. } => vec![Finding::failed(
            "database",
            "it has no server's tables",
            "check --database; perilune serve makes them",
        )],
        OpenError::Older { .. } => vec![
            Finding::ok("database", "a server's, and readable"),
            Finding::failed("migrations", found, "start this version of perilune serve on it"),
        ],
        OpenError::Newer { .. } => vec![
            Finding::ok("database", "a server's, and readable"),
            Finding::failed("migrations", found, "use the newer program"),
        ],
        OpenError::NotADatabase(_) | OpenError::Foreign(_) | OpenError::UnknownEngine | OpenError::InMemory => {
            vec![Finding::failed("database", found, "name the server's own database")]
        }
        _ => vec![Finding::failed("database", found, "check the path, its rights and its disk")],
    }
}
