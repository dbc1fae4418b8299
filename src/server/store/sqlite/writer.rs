//! The one thread that writes, and how questions share its commits.
//!
//! ```text
//! questions ─▶ bounded queue ─▶ BEGIN IMMEDIATE ─ question ─ question ─ … ─ COMMIT ─▶ wakes, answers
//! ```
//!
//! A group takes what is queued when its turn comes; nobody waits for company. While one group is flushed to disk
//! the next one gathers, so the busier the store, the more questions a flush serves. A question that fails is rolled
//! back to its own savepoint. A transaction that the engine itself gave up fails for all in it, and they are told so.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use perilune_proto::rng::Rng;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions};
use sqlx::{ConnectOptions as _, Connection as _, Sqlite, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use super::super::upkeep::Waker;
use super::super::{Cause, Clock, OpenError, StoreError, Wake, fresh};
use super::log::Log;
use super::row::Times;
use crate::sql::SqlError;

/// Questions that wait at the most; whoever comes then waits outside.
const QUEUE_MAX: usize = 1_024;
/// Questions of one transaction at the most.
const GROUP_MAX: usize = 256;
/// After so long a group is committed, whoever else waits.
const GROUP_TIME_MAX: Duration = Duration::from_millis(50);
/// How long a question waits for a place in the queue.
const PLACE_WAIT: Duration = Duration::from_secs(5);

/// The sending end of the writer's queue. The thread ends after what was queued when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Message>,
    commits: Arc<AtomicU64>,
}

enum Message {
    Ask(Box<dyn Question>),
    Close(oneshot::Sender<()>),
}

/// What a question works with: the transaction, its time, and what to tell when it is committed.
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
    pub(super) rng: Rng,
    clock: Arc<dyn Clock>,
    options: SqliteConnectOptions,
    commits: Arc<AtomicU64>,
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
        waker: Waker,
    ) -> Result<Self, OpenError> {
        let failed = |error: std::io::Error| OpenError::Unreachable(Cause::new(error));
        // A runtime of its own: no arbiter that blocks or ends can hold a transaction open.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        let commits = Arc::new(AtomicU64::new(0));
        let unit = Unit {
            commits: Arc::clone(&commits),
            connection: opened.0,
            options: opened.1,
            times: Times::of(&*clock),
            began: Instant::now(),
            log: None,
            wakes: BTreeSet::new(),
            rng: Rng::new(fresh::seed()),
            clock,
            guarded: false,
            writing: false,
        };
        let thread = std::thread::Builder::new().name("perilune-sqlite".to_owned());
        thread.spawn(move || runtime.block_on(run(messages, unit, waker, claim))).map_err(failed)?;
        Ok(Self { queue, commits })
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Asks one question and waits for the commit behind its answer.
    pub(super) async fn ask<T, F>(&self, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let message = Message::Ask(Box::new(Asked { question, reply }));
        match self.queue.try_send(message) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(StoreError::Closed),
            Err(mpsc::error::TrySendError::Full(message)) => {
                let place = tokio::time::timeout(PLACE_WAIT, self.queue.reserve()).await;
                let place = place.map_err(|_| StoreError::Busy)?;
                place.map_err(|_| StoreError::Closed)?.send(message);
            }
        }
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Answers what was queued before, then ends the thread and lets go of the file.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let (reply, closed) = oneshot::channel();
        self.queue.send(Message::Close(reply)).await.map_err(|_| StoreError::Closed)?;
        closed.await.map_err(|_| StoreError::Closed)
    }
}

/// A question with the way back to whoever asked.
struct Asked<T, F> {
    question: F,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// An answer that waits for its commit.
struct Answered {
    failure: Option<StoreError>,
    tell: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

trait Question: Send {
    fn run(self: Box<Self>, unit: &mut Unit) -> BoxFuture<'_, Answered>;
    /// There will be no transaction.
    fn refuse(self: Box<Self>, error: StoreError);
}

impl<T, F> Question for Asked<T, F>
where
    T: Send + 'static,
    F: for<'u> FnOnce(&'u mut Unit) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
{
    fn run(self: Box<Self>, unit: &mut Unit) -> BoxFuture<'_, Answered> {
        Box::pin(async move {
            let answer = (self.question)(unit).await;
            let failure = answer.as_ref().err().cloned();
            let reply = self.reply;
            // Whoever asked may have gone; what was done stays done.
            let tell = Box::new(move |committed: Result<(), StoreError>| drop(reply.send(committed.and(answer))));
            Answered { failure, tell }
        })
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        drop(self.reply.send(Err(error)));
    }
}

async fn run(mut messages: mpsc::Receiver<Message>, mut unit: Unit, waker: Waker, claim: Option<File>) {
    let mut closing = None;
    while let Some(message) = messages.recv().await {
        match message {
            Message::Ask(first) => closing = group(&mut messages, &mut unit, &waker, first).await,
            Message::Close(reply) => closing = Some(reply),
        }
        if closing.is_some() {
            break;
        }
    }
    messages.close();
    while let Ok(message) = messages.try_recv() {
        if let Message::Ask(question) = message {
            question.refuse(StoreError::Closed);
        }
    }
    waker.close();
    if let Err(error) = unit.connection.close().await {
        tracing::warn!(error = %SqlError::from(error), "the database was not closed cleanly");
    }
    drop(claim);
    if let Some(reply) = closing {
        // Whoever asked for it may have gone.
        let _gone = reply.send(());
    }
}

/// Runs one transaction; returns the wish to close that came amid it.
async fn group(
    messages: &mut mpsc::Receiver<Message>,
    unit: &mut Unit,
    waker: &Waker,
    first: Box<dyn Question>,
) -> Option<oneshot::Sender<()>> {
    if let Err(error) = unit.begin().await {
        first.refuse(error);
        return None;
    }
    let begun = Instant::now();
    let mut answers = Vec::new();
    let mut closing = None;
    let mut next = Some(first);
    let mut broken = None;
    let mut wakes = BTreeSet::new();
    while let Some(question) = next.take() {
        let answered = unit.answer(question).await;
        match answered {
            Ok(answered) => {
                answers.push(answered);
                wakes.append(&mut unit.wakes);
            }
            Err((answered, error)) => {
                answers.push(answered);
                broken = Some(error);
                break;
            }
        }
        if answers.len() >= GROUP_MAX || begun.elapsed() > GROUP_TIME_MAX {
            break;
        }
        match messages.try_recv() {
            Ok(Message::Ask(question)) => next = Some(question),
            Ok(Message::Close(reply)) => closing = Some(reply),
            Err(_) => {}
        }
    }
    let committed = match broken {
        Some(error) => Err(error),
        None => unit.commit().await,
    };
    match committed {
        Ok(()) => wakes.into_iter().for_each(|wake| waker.wake(wake)),
        Err(_) => unit.abandon().await,
    }
    for answered in answers {
        (answered.tell)(committed.clone());
    }
    closing
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
    pub(super) async fn write(&mut self, text: Query<'_, Sqlite, SqliteArguments>) -> Result<(), StoreError> {
        self.writing = true;
        text.execute(&mut self.connection).await?;
        self.writing = false;
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        execute(&mut self.connection, "BEGIN IMMEDIATE").await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        execute(&mut self.connection, "COMMIT").await?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Runs a question and undoes what it did where it failed; an error where the whole transaction is lost.
    async fn answer(&mut self, question: Box<dyn Question>) -> Result<Answered, (Answered, StoreError)> {
        self.began = Instant::now();
        self.times = Times::of(&*self.clock);
        let answered = question.run(self).await;
        let (guarded, writing) = (std::mem::take(&mut self.guarded), std::mem::take(&mut self.writing));
        let settled = match &answered.failure {
            None if guarded => execute(&mut self.connection, "RELEASE guard").await,
            None => Ok(()),
            Some(failure) => {
                self.wakes.clear();
                self.log = None;
                match failure {
                    _ if guarded => execute(&mut self.connection, "ROLLBACK TO guard; RELEASE guard").await,
                    _ if writing => execute(&mut self.connection, "ROLLBACK TO question; RELEASE question").await,
                    // The engine may have ended the transaction; what came after would commit by itself.
                    StoreError::Unavailable(_) | StoreError::Full => Err(failure.clone()),
                    _ => Ok(()),
                }
            }
        };
        match settled {
            Ok(()) => Ok(answered),
            Err(error) => {
                let error = answered.failure.clone().unwrap_or(error);
                Err((answered, error))
            }
        }
    }

    /// Leaves the transaction behind, and the connection too where it can't be left.
    async fn abandon(&mut self) {
        self.log = None;
        (self.guarded, self.writing) = (false, false);
        self.wakes.clear();
        // SQLite has already rolled back after some failures; then this one means nothing.
        let rolled_back = execute(&mut self.connection, "ROLLBACK").await;
        if rolled_back.is_ok() || execute(&mut self.connection, "BEGIN IMMEDIATE; ROLLBACK").await.is_ok() {
            return;
        }
        tracing::warn!("the writer's connection is lost; opening another");
        match self.options.connect().await {
            Ok(connection) => self.connection = connection,
            Err(error) => tracing::error!(error = %SqlError::from(error), "the database can't be opened again"),
        }
    }
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), StoreError> {
    sqlx::raw_sql(statement).execute(connection).await?;
    Ok(())
}
