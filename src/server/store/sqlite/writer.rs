//! The one thread that writes.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::BoxFuture;
use perilune_proto::rng::Rng;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions};
use sqlx::{ConnectOptions as _, Connection as _, Sqlite, SqliteConnection};

use super::super::group::{self, Lane};
use super::super::lapses::{Lapses, Untold};
use super::super::upkeep::Waker;
use super::super::{Cause, Clock, OpenError, StoreError, Wake, fresh};
use super::log::Log;
use super::row::Times;
use crate::sql::SqlError;

/// The way to the thread. It ends after what was queued when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    lane: Lane<Unit>,
    commits: Arc<AtomicU64>,
}

/// What a question works with: the transaction and its time.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) connection: SqliteConnection,
    pub(super) times: Times,
    /// This host's monotonic clock, read before the store's.
    pub(super) began: Instant,
    /// The log's head and queues, read once and kept; forgotten whenever something is rolled back.
    pub(super) log: Option<Log>,
    /// What this question lets others know, once it is committed.
    pub(super) wakes: BTreeSet<Wake>,
    /// Leases that this question ended.
    pub(super) lapses: Lapses,
    pub(super) rng: Rng,
    clock: Arc<dyn Clock>,
    waker: Waker,
    untold: Untold,
    options: SqliteConnectOptions,
    commits: Arc<AtomicU64>,
    /// Keeps other servers out for as long as it lives.
    claim: Option<File>,
    /// Whether there is a savepoint `guard`.
    guarded: bool,
    /// Whether there is a savepoint `question`, within the other where that is.
    writing: bool,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        opened: (SqliteConnection, SqliteConnectOptions),
        claim: Option<File>,
        clock: Arc<dyn Clock>,
        (waker, untold): (Waker, Untold),
    ) -> Result<Self, OpenError> {
        let failed = |error: std::io::Error| OpenError::Unreachable(Cause::new(error));
        // A runtime of its own: no arbiter that blocks or ends can hold a transaction open.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let (lane, questions) = group::lane();
        let commits = Arc::new(AtomicU64::new(0));
        let unit = Unit {
            connection: opened.0,
            options: opened.1,
            times: Times::of(&*clock),
            began: Instant::now(),
            log: None,
            wakes: BTreeSet::new(),
            lapses: Lapses::default(),
            rng: Rng::new(fresh::seed()),
            clock,
            waker,
            untold,
            commits: Arc::clone(&commits),
            claim,
            guarded: false,
            writing: false,
        };
        let thread = std::thread::Builder::new().name("perilune-sqlite".to_owned());
        thread.spawn(move || runtime.block_on(group::serve(questions, unit))).map_err(failed)?;
        Ok(Self { lane, commits })
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lane.is_closed()
    }

    /// Asks one question. One connection writes, so nobody's rows are locked by others and any order will do.
    pub(super) async fn ask<T, F>(&self, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        self.lane.ask(0, question).await
    }

    pub(super) async fn close(&self) -> Result<(), StoreError> {
        self.lane.close().await
    }
}

impl Unit {
    /// Sets a savepoint before the first of several writes.
    pub(super) async fn guard(&mut self) -> Result<(), StoreError> {
        if !self.guarded {
            execute(&mut self.connection, "SAVEPOINT guard").await?;
            self.guarded = true;
        }
        Ok(())
    }

    /// Runs several writes as one text, in one round trip: it must begin with `SAVEPOINT question` and end with
    /// `RELEASE question`.
    ///
    /// The driver binds `?N` by its number in each statement of the text. A number that a statement skips below its
    /// highest uses up one of the arguments' count, so all statements together may skip as many as there are
    /// arguments, no more.
    pub(super) async fn write(&mut self, text: Query<'_, Sqlite, SqliteArguments>) -> Result<(), StoreError> {
        self.writing = true;
        text.execute(&mut self.connection).await?;
        self.writing = false;
        Ok(())
    }
}

impl group::Unit for Unit {
    async fn begin(&mut self) -> Result<(), StoreError> {
        execute(&mut self.connection, "BEGIN IMMEDIATE").await
    }

    async fn turn(&mut self) -> Result<(), StoreError> {
        self.began = Instant::now();
        self.times = Times::of(&*self.clock);
        Ok(())
    }

    async fn settle(&mut self, failure: Option<&StoreError>) -> Result<(), StoreError> {
        let (guarded, writing) = (std::mem::take(&mut self.guarded), std::mem::take(&mut self.writing));
        let Some(failure) = failure else {
            return if guarded { execute(&mut self.connection, "RELEASE guard").await } else { Ok(()) };
        };
        self.wakes.clear();
        self.lapses.clear();
        self.log = None;
        let undo = match failure {
            _ if guarded => "ROLLBACK TO guard; RELEASE guard",
            _ if writing => "ROLLBACK TO question; RELEASE question",
            // The engine may have ended the transaction; what came after would commit by itself.
            StoreError::Unavailable(_) | StoreError::Full => return Err(failure.clone()),
            _ => return Ok(()),
        };
        execute(&mut self.connection, undo).await.map_err(|_| failure.clone())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        execute(&mut self.connection, "COMMIT").await?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn abandon(&mut self) {
        self.log = None;
        (self.guarded, self.writing) = (false, false);
        self.wakes.clear();
        self.lapses.clear();
        // SQLite has already rolled back after some failures; then this one means nothing.
        let rolled_back = execute(&mut self.connection, "ROLLBACK").await;
        if rolled_back.is_ok() || execute(&mut self.connection, "BEGIN; ROLLBACK").await.is_ok() {
            return;
        }
        tracing::warn!("the writer's connection is lost; opening another");
        match self.options.connect().await {
            Ok(connection) => self.connection = connection,
            Err(error) => tracing::error!(error = %SqlError::from(error), "the database can't be opened again"),
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
        wakes.into_iter().for_each(|wake| self.waker.wake(wake));
    }

    async fn close(self) {
        self.waker.close();
        if let Err(error) = self.connection.close().await {
            tracing::warn!(error = %SqlError::from(error), "the database was not closed cleanly");
        }
        drop(self.claim);
    }
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), StoreError> {
    sqlx::raw_sql(statement).execute(connection).await?;
    Ok(())
}
