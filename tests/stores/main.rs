//! Conformance: one function per guarantee, run on every engine.
//!
//! SQLite always runs, in a fresh folder. PostgreSQL and MySQL or MariaDB run where
//! `PERILUNE_TEST_POSTGRES_URL` and `PERILUNE_TEST_MYSQL_URL` name a database; without them the tests say
//! that they are skipped. `.ci/databases cargo test --all-features --test stores` starts servers where there
//! are none.

mod engines;
mod events;
mod inbox;
mod outbox;
mod outcome;
#[path = "../own_server/mod.rs"]
mod own_server;
#[cfg(feature = "server")]
mod server_store;
