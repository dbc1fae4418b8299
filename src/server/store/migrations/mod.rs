//! The schema of the server's tables, embedded and versioned.

use crate::sql::migrate::{Component, Migration};

/// The server's tables. They stand alone in an SQLite file, and in a schema of their own on PostgreSQL, so their
/// names carry no prefix.
pub(super) const SERVER: Component = Component {
    name: "server",
    migrations: &[Migration {
        version: 1,
        name: "credentials, log, subscriptions, deliveries",
        sqlite: include_str!("sqlite/0001_server.sql"),
        postgres: include_str!("postgres/0001_server.sql"),
        // The server keeps its log in SQLite or PostgreSQL.
        mysql: "",
    }],
};
