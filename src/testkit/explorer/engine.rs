//! How each engine's statements become points.

use std::future::Future;
use std::sync::Arc;

use sqlx::Pool;
use tokio::task::JoinSet;

use super::ExploreError;
use crate::inbox::Store;
use crate::sql::DatabaseUrl;
use crate::testkit::gate::Gate;

/// An engine whose crash points can be explored: `sqlx::Sqlite`, `sqlx::Postgres` or `sqlx::MySql`.
///
/// | engine | points |
/// | --- | --- |
/// | PostgreSQL, MySQL, MariaDB | before each request that goes to the server (a statement, a commit), and after it was done and before its answer arrives; the connection is cut there |
/// | SQLite | after each row that a statement has changed (of a table with rowids), before each commit and after it |
pub trait Explorable: Store {
    /// Whether this database outlives a crash and can be held back.
    #[doc(hidden)]
    fn explorable(url: &DatabaseUrl) -> Result<(), ExploreError>;

    /// Opens the connections of one process.
    #[doc(hidden)]
    fn open_gated(
        url: &DatabaseUrl,
        gate: Arc<Gate>,
    ) -> impl Future<Output = Result<Opened<Self>, ExploreError>> + Send;
}

/// The connections of one process.
#[doc(hidden)]
pub struct Opened<DB: Explorable> {
    pub(super) pool: Pool<DB>,
    pub(super) gate: Arc<Gate>,
    /// Carries the connections while it lives.
    pub(super) _link: Option<JoinSet<()>>,
}
