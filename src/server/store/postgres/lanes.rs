//! The connections that write, each with a queue of questions that share its commits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use perilune_proto::rng::Rng;
use perilune_proto::scalar::{Name, SubscriptionId};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool};
use tokio::task::JoinHandle;

use super::super::group::{self, Lane};
use super::super::lapses::{Lapses, Untold};
use super::super::{StoreError, Wake, fresh};
use super::news::News;
use crate::sql::engine::Engine as _;
use crate::sql::{SqlError, SqlErrorKind};

/// Lanes of subscriptions. A subscription has one of them, so its questions share commits and never wait for each
/// other's row lock within a server.
const SUBSCRIPTION_LANES: usize = 4;

/// The server ends a statement after 20 s. Whoever is silent for longer than that is out of reach, though no connection
/// may have ended: a network that drops packets ends none for a quarter of an hour.
const STATEMENT_MAX: Duration = Duration::from_secs(25);
/// How long undoing may take before the connection is given up.
const UNDO_MAX: Duration = Duration::from_secs(5);
/// How long another connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The ways to the connections that write.
#[derive(Debug)]
pub(super) struct Lanes {
    append: Lane<Unit>,
    subscriptions: Vec<Lane<Unit>>,
}

/// What a question works with.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) connection: PgConnection,
    /// This host's monotonic clock, read before the database's.
    pub(super) began: Instant,
    /// The log's newest sequence, known while this transaction has the log's lock.
    pub(super) head: Option<u64>,
    /// Queues by their names; a queue keeps its number for good.
    pub(super) queues: HashMap<Name, i64>,
    /// What this question lets others know, once it is committed.
    pub(super) wakes: BTreeSet<Wake>,
    /// Leases that this question ended.
    pub(super) lapses: Lapses,
    pub(super) rng: Rng,
    news: Arc<News>,
    untold: Untold,
    options: PgConnectOptions,
    /// Questions of this transaction so far. The first needs no savepoint: if it fails, all of the transaction goes.
    questions: usize,
}

impl Lanes {
    /// Opens the connections and starts a task for each.
    pub(super) async fn start(
        pool: &PgPool,
        news: &Arc<News>,
        untold: &Untold,
    ) -> Result<(Self, Vec<JoinHandle<()>>), sqlx::Error> {
        let mut ended = Vec::new();
        let mut lanes = Vec::new();
        for _ in 0..=SUBSCRIPTION_LANES {
            let unit = Unit::connect(pool, news, untold).await?;
            let (lane, questions) = group::lane();
            ended.push(tokio::spawn(group::serve(questions, unit)));
            lanes.push(lane);
        }
        let append = lanes.remove(0);
        Ok((Self { append, subscriptions: lanes }, ended))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.append.is_closed()
    }

    /// Asks the lane that appends.
    pub(super) async fn append<T, F>(&self, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        self.append.ask(0, question).await
    }

    /// Asks a subscription's lane. Questions of one transaction go by the ids of their subscriptions.
    pub(super) async fn of<T, F>(&self, subscription_id: SubscriptionId, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        let place = usize::from(subscription_id.as_bytes()[15]) % self.subscriptions.len().max(1);
        let lane = self.subscriptions.get(place).ok_or(StoreError::Closed)?;
        lane.ask(u128::from_be_bytes(*subscription_id.as_bytes()), question).await
    }

    /// Answers what was asked before and lets go of the connections.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        self.append.close().await?;
        for lane in &self.subscriptions {
            lane.close().await?;
        }
        Ok(())
    }
}

impl Unit {
    async fn connect(pool: &PgPool, news: &Arc<News>, untold: &Untold) -> Result<Self, sqlx::Error> {
        Ok(Self {
            connection: pool.acquire().await?.detach(),
            began: Instant::now(),
            head: None,
            queues: HashMap::new(),
            wakes: BTreeSet::new(),
            lapses: Lapses::default(),
            rng: Rng::new(fresh::seed()),
            news: Arc::clone(news),
            untold: untold.clone(),
            options: (*pool.connect_options()).clone(),
            questions: 0,
        })
    }

    /// Forgets what a rollback made untrue.
    fn forget(&mut self) {
        self.wakes.clear();
        self.lapses.clear();
        self.queues.clear();
        self.head = None;
    }
}

impl group::Unit for Unit {
    const QUESTION_MAX: Duration = super::ANSWER_MAX;

    async fn begin(&mut self) -> Result<(), StoreError> {
        (self.head, self.questions) = (None, 0);
        let begun = execute(&mut self.connection, STATEMENT_MAX, sqlx::Postgres::BEGIN_WRITE).await;
        let Err(error) = begun.map_err(SqlError::from) else { return Ok(()) };
        if error.kind() != SqlErrorKind::Unavailable {
            return Err(error.into());
        }
        // The database went away since the last question; it may be back.
        self.connection = in_time(CONNECT_MAX, self.options.connect()).await?;
        Ok(execute(&mut self.connection, STATEMENT_MAX, sqlx::Postgres::BEGIN_WRITE).await?)
    }

    async fn turn(&mut self) -> Result<(), StoreError> {
        self.questions += 1;
        let marked = match self.questions {
            1 => Ok(()),
            2 => execute(&mut self.connection, STATEMENT_MAX, "SAVEPOINT question").await,
            _ => {
                let mark = "RELEASE SAVEPOINT question; SAVEPOINT question";
                execute(&mut self.connection, STATEMENT_MAX, mark).await
            }
        };
        self.began = Instant::now();
        Ok(marked?)
    }

    async fn settle(&mut self, failure: Option<&StoreError>) -> Result<(), StoreError> {
        let Some(failure) = failure else { return Ok(()) };
        self.forget();
        let undo = match self.questions {
            0 | 1 => {
                self.questions = 0;
                "ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
            }
            _ => "ROLLBACK TO SAVEPOINT question",
        };
        execute(&mut self.connection, UNDO_MAX, undo).await.map_err(|_| failure.clone())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        let committed = execute(&mut self.connection, STATEMENT_MAX, "COMMIT").await;
        self.head = None;
        committed.map_err(|error| SqlError::at_commit(error).into())
    }

    async fn abandon(&mut self) {
        self.forget();
        if execute(&mut self.connection, UNDO_MAX, "ROLLBACK").await.is_ok() {
            return;
        }
        match in_time(CONNECT_MAX, self.options.connect()).await {
            Ok(connection) => self.connection = connection,
            // `begin` tries again.
            Err(error) => tracing::warn!(error = %SqlError::from(error), "the database can't be reached"),
        }
    }

    fn wakes(&mut self) -> &mut BTreeSet<Wake> {
        &mut self.wakes
    }

    fn lapses(&mut self) -> &mut Lapses {
        &mut self.lapses
    }

    fn tell(&mut self, wakes: BTreeSet<Wake>, lapses: Lapses) {
        self.untold.keep(lapses);
        self.news.tell(wakes);
    }

    async fn close(self) {
        if let Err(error) = in_time(UNDO_MAX, self.connection.close()).await {
            tracing::debug!(error = %SqlError::from(error), "a connection was not closed cleanly");
        }
    }
}

async fn execute(connection: &mut PgConnection, limit: Duration, statement: &'static str) -> Result<(), sqlx::Error> {
    in_time(limit, sqlx::raw_sql(statement).execute(connection)).await.map(drop)
}

/// Takes a database that is silent for so long for one that is out of reach.
async fn in_time<T>(limit: Duration, asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let answered = tokio::time::timeout(limit, asked).await;
    answered.unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
