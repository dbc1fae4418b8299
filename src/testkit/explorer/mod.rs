//! The crash-point explorer: a handler comes to harm at every point of its work, one point a run, and must have one
//! effect all the same.
//!
//! A run is a real consumer with the handler and its inbox, a real database and the scripted platform, for one event.
//! Its points are numbered as they come: before and after each frame, statement and commit. At run *n* harm is done at
//! point *n*; then the run is healed, and the event has to end up confirmed, with one effect. The exploration is over
//! with the first run that ends before its point comes; one that does not end proves nothing.
//!
//! - `attempt`: one run, and what is left of it.
//! - `engine`: how each engine's statements become points: `server` with its `link` and the `packet`s on it, `sqlite`.
//! - `report`: what was found.

mod attempt;
mod engine;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod link;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod packet;
mod report;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use perilune_actors::EventHandler;
use perilune_proto::ResultEvent;
use sqlx::Pool;

use self::attempt::Attempt;
pub use self::engine::Explorable;
pub use self::report::{CrashReport, Point, PointsFailed};
use super::assertion::Unmet;
use super::gate::Harm;
use crate::inbox::{Inbox, OpenError};
use crate::sql::{DatabaseUrl, DatabaseUrlError, PoolSettings, TablePrefix};

/// Points explored at most, for each kind of harm. A handler with more has a loop that should not be in one transaction.
const POINTS_MAX: u64 = 1_000;

/// Explores the crash points of a handler on one engine: `sqlx::Sqlite`, `sqlx::Postgres` or `sqlx::MySql`.
///
/// The database holds whatever tables the handler needs; the inbox's own are made. Every run has an event and a task
/// under fresh ids, so nothing has to be cleaned in between.
#[derive(Debug, Clone)]
#[must_use]
pub struct CrashPoints {
    url: String,
    consumer: String,
    prefix: TablePrefix,
    template: Option<ResultEvent>,
}

/// An exploration came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The URL names no database of this engine.
    #[error(transparent)]
    Url(#[from] DatabaseUrlError),
    /// A database in memory ends with its connection, and a crash takes the connection.
    #[error("the database is in memory; it has to outlive a crash, so give a file")]
    InMemory,
    /// The database can't be reached by TCP, so its statements can't be held back.
    #[error("the database is reached by a socket file; crash points need its host and port")]
    SocketFile,
    /// The inbox could not be made.
    #[error(transparent)]
    Inbox(#[from] OpenError),
    /// A statement of the explorer's own failed, or the effects could not be counted.
    #[error("the database failed outside any run")]
    Database(#[from] sqlx::Error),
    /// A platform, a port or a consumer could not be made.
    #[error("a run could not be made")]
    Run(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Without any harm the handler has not one effect.
    #[error("without any harm the event had {effects} effects; it should have 1")]
    Effects {
        /// How many it has.
        effects: i64,
    },
    /// Without any harm the event is not confirmed.
    #[error("without any harm the event was not confirmed")]
    Unconfirmed(#[source] Unmet),
    /// A run came neither to its point nor to its end within 20 s, so nobody knows whether there are more points: the
    /// handler hangs now and then, or the machine is too slow.
    #[error("a {harm} was due at point {number}, and its run came neither there nor to its end")]
    Undecided {
        /// The kind of harm.
        harm: Harm,
        /// The point, from 1.
        number: u64,
        /// What did not come.
        #[source]
        source: Unmet,
    },
    /// There is no end of points.
    #[error("there are more than {POINTS_MAX} points in one run")]
    TooManyPoints,
}

impl ExploreError {
    fn run(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Run(Box::new(error))
    }
}

impl CrashPoints {
    /// Points of the handler of `consumer`, whose inbox lives in this database.
    pub fn of(url: &str, consumer: &str) -> Self {
        Self { url: url.to_owned(), consumer: consumer.to_owned(), prefix: TablePrefix::default(), template: None }
    }

    /// What the inbox's tables begin with; `perilune_` by default.
    pub fn table_prefix(mut self, prefix: TablePrefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// What the events are like; each run gives it an event id and a task id of its own.
    /// [`sample_event`](super::sample_event) by default.
    pub fn event(mut self, template: ResultEvent) -> Self {
        self.template = Some(template);
        self
    }

    /// Explores.
    ///
    /// `process` makes the handler, as your program does when it starts: it is called for each process, and what it
    /// remembers dies with that. Let it do its database work on the inbox's pool: what it does elsewhere can't be held
    /// back. `effects` counts the effects of an event, on a connection of its own.
    ///
    /// Call it in an actix system.
    ///
    /// # Errors
    /// [`ExploreError`] where there was nothing to explore. What was found is the report's to tell: see
    /// [`CrashReport::one_effect`].
    pub async fn explore<DB, H, E>(
        self,
        process: impl Fn(Inbox<DB>) -> H,
        effects: E,
    ) -> Result<CrashReport, ExploreError>
    where
        DB: Explorable,
        H: EventHandler + Send + Sync,
        E: AsyncFn(Pool<DB>, Arc<ResultEvent>) -> Result<i64, sqlx::Error>,
    {
        let url: DatabaseUrl = self.url.parse()?;
        let settings = PoolSettings { max_connections: 4, ..PoolSettings::default() };
        DB::explorable(&url)?;
        let pool = DB::open(&url, &settings).await.map_err(OpenError::from)?;
        Inbox::with_prefix(pool.clone(), &self.consumer, &self.prefix)?.migrate().await.map_err(OpenError::from)?;
        let attempt = Attempt { options: &self, url: &url, pool: &pool, process: &process, effects: &effects };
        let explored = attempt.all().await;
        pool.close().await;
        explored
    }
}

impl<DB, P, H, E> Attempt<'_, DB, P, E>
where
    DB: Explorable,
    P: Fn(Inbox<DB>) -> H,
    H: EventHandler + Send + Sync,
    E: AsyncFn(Pool<DB>, Arc<ResultEvent>) -> Result<i64, sqlx::Error>,
{
    async fn all(&self) -> Result<CrashReport, ExploreError> {
        self.unharmed().await?;
        let mut points = Vec::new();
        for harm in [Harm::Crash, Harm::Cut] {
            for number in 1.. {
                if number > POINTS_MAX {
                    return Err(ExploreError::TooManyPoints);
                }
                match self.harmed(harm, number).await? {
                    Some(point) => points.push(point),
                    None => break,
                }
            }
        }
        Ok(CrashReport::new(points))
    }
}
