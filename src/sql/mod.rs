//! What the SQL parts share: URLs, pools, error classes, table prefixes, migrations.
//!
//! | file | holds |
//! | --- | --- |
//! | [`url`] | which engine and database a text names, and a sentence for every text that names none |
//! | [`pool`] | pools with the durability, isolation and time limits that exactly-once effects need |
//! | [`engine`] | what differs between the engines: how a write transaction begins, how many writers there may be |
//! | [`error`] | one class for each thing that can go wrong, told by code and constraint, never by text |
//! | [`prefix`] | the prefix of our tables in somebody else's database |
//! | [`writer`] | write transactions that nobody can drop half-way |
//! | [`migrate`] | embedded, versioned migrations that several programs may run at once |
//!
//! It knows no table of its neighbours: inbox, outbox, outcomes and server bring their own statements and
//! migrations.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(unused, reason = "without an engine there is nothing to adapt")
)]

pub mod engine;
pub mod error;
pub mod migrate;
pub mod pool;
pub mod prefix;
pub mod url;
pub mod writer;

pub use engine::Engine;
pub use error::{SqlError, SqlErrorKind};
pub use migrate::{Component, MigrateError, Migration};
pub use pool::PoolSettings;
pub use prefix::TablePrefix;
pub use url::{DatabaseUrl, DatabaseUrlError, EngineName};
pub use writer::Writer;
