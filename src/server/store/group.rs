//! Questions that share a transaction: a bounded queue, one task that serves it, answers after the commit.
//!
//! ```text
//! questions ─▶ bounded queue ─▶ begin ─ question ─ question ─ … ─ commit ─▶ wakes, answers
//! ```
//!
//! A group takes what is queued while it runs; nobody waits for company. While one group is flushed to disk the next
//! one gathers, so the busier the store, the more questions a flush serves. A question that fails is undone alone. A
//! transaction that the engine itself gave up fails for all in it, and they are told so.
//!
//! Questions of a group run in the order of their keys, so that two groups that lock rows in that order never wait
//! for each other.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::lapses::Lapses;
use super::{StoreError, Wake};

/// Questions that wait at the most; whoever comes then waits outside.
const QUEUE_MAX: usize = 1_024;
/// Questions of one transaction at the most.
const GROUP_MAX: usize = 256;
/// After so long a group is committed, whoever else waits.
const GROUP_TIME_MAX: Duration = Duration::from_millis(50);
/// How long a question waits for a place in the queue.
const PLACE_WAIT: Duration = Duration::from_secs(5);

/// What questions work with: a connection with an open transaction.
pub(super) trait Unit: Sized + Send + 'static {
    /// After so long without an answer a question has failed: a database beyond a network may fall silent.
    const QUESTION_MAX: Duration = Duration::MAX;

    /// Begins a transaction.
    fn begin(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A question begins: it gets a time of its own and, where the engine needs one, a place to go back to.
    fn turn(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A question ended. What a failed one wrote is undone; an error where the whole transaction is lost.
    fn settle(&mut self, failure: Option<&StoreError>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Commits the transaction.
    fn commit(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Leaves the transaction behind, and the connection too where it can't be left.
    fn abandon(&mut self) -> impl Future<Output = ()> + Send;

    /// What the latest question lets others know once it is committed.
    fn wakes(&mut self) -> &mut BTreeSet<Wake>;

    /// Leases that the latest question ended.
    fn lapses(&mut self) -> &mut Lapses;

    /// Tells what was committed.
    fn tell(&mut self, wakes: BTreeSet<Wake>, lapses: Lapses);

    /// Lets go of the database.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The sending end of a queue of questions. Its task ends after what was queued when the last clone is dropped.
#[derive(Debug)]
pub(super) struct Lane<U> {
    queue: mpsc::Sender<Message<U>>,
}

/// The receiving end of a [`Lane`], for [`serve`].
pub(super) struct Questions<U>(mpsc::Receiver<Message<U>>);

enum Message<U> {
    Ask(u128, Box<dyn Question<U>>),
    Close(oneshot::Sender<()>),
}

/// An empty queue.
pub(super) fn lane<U: Unit>() -> (Lane<U>, Questions<U>) {
    let (queue, messages) = mpsc::channel(QUEUE_MAX);
    (Lane { queue }, Questions(messages))
}

impl<U: Unit> Lane<U> {
    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Asks one question and waits for the commit behind its answer. `key` is the question's place among others.
    pub(super) async fn ask<T, F>(&self, key: u128, question: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'u> FnOnce(&'u mut U) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        match self.queue.try_send(Message::Ask(key, Box::new(Asked { question, reply }))) {
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

    /// Answers what was queued before, then ends the task and lets go of the database.
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
    /// The question broke off somewhere: nobody knows what state its transaction is in.
    panicked: bool,
    tell: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

trait Question<U>: Send {
    fn run(self: Box<Self>, unit: &mut U) -> BoxFuture<'_, Answered>;
    /// There will be no transaction.
    fn refuse(self: Box<Self>, error: StoreError);
}

impl<U, T, F> Question<U> for Asked<T, F>
where
    U: Unit,
    T: Send + 'static,
    F: for<'u> FnOnce(&'u mut U) -> BoxFuture<'u, Result<T, StoreError>> + Send + 'static,
{
    fn run(self: Box<Self>, unit: &mut U) -> BoxFuture<'_, Answered> {
        Box::pin(async move {
            let Self { question, reply } = *self;
            // Both the call and its future: one question's fault must not end the task that serves all.
            let asked = AssertUnwindSafe(async { question(unit).await }).catch_unwind();
            let (answer, panicked) = match tokio::time::timeout(U::QUESTION_MAX, asked).await {
                Ok(Ok(answer)) => (answer, false),
                Ok(Err(_)) => (Err(StoreError::Damaged("a question to it panicked")), true),
                Err(_) => (Err(StoreError::silent()), false),
            };
            let failure = answer.as_ref().err().cloned();
            // Whoever asked may have gone; what was done stays done.
            let tell = Box::new(move |committed: Result<(), StoreError>| drop(reply.send(committed.and(answer))));
            Answered { failure, panicked, tell }
        })
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        drop(self.reply.send(Err(error)));
    }
}

/// Questions that have left the queue, by key and then by age.
struct Waiting<U> {
    by_key: BTreeMap<(u128, u64), Box<dyn Question<U>>>,
    age: u64,
    /// Where the last group ended: the next one begins behind it, so that no key waits for ever.
    last: (u128, u64),
}

impl<U: Unit> Waiting<U> {
    fn push(&mut self, key: u128, question: Box<dyn Question<U>>) {
        self.age += 1;
        self.by_key.insert((key, self.age), question);
    }

    /// The next question in order; `None` where all that wait come before the last one.
    fn next(&mut self) -> Option<Box<dyn Question<U>>> {
        let at = *self.by_key.range(self.last..).next()?.0;
        self.last = at;
        self.by_key.remove(&at)
    }

    /// Refuses all.
    fn refuse(&mut self, error: &StoreError) {
        std::mem::take(&mut self.by_key).into_values().for_each(|question| question.refuse(error.clone()));
    }

    /// Begins another round.
    fn wrap(&mut self) {
        if self.by_key.range(self.last..).next().is_none() {
            self.last = (0, 0);
        }
    }
}

/// Serves a lane until it is closed or dropped. Run it in a task that nobody aborts.
pub(super) async fn serve<U: Unit>(Questions(mut messages): Questions<U>, mut unit: U) {
    let mut waiting = Waiting { by_key: BTreeMap::new(), age: 0, last: (0, 0) };
    let mut closing = None;
    while closing.is_none() {
        if waiting.by_key.is_empty() {
            match messages.recv().await {
                Some(Message::Ask(key, question)) => waiting.push(key, question),
                Some(Message::Close(reply)) => closing = Some(reply),
                None => break,
            }
        }
        while !waiting.by_key.is_empty() {
            group(&mut messages, &mut waiting, &mut closing, &mut unit).await;
        }
    }
    messages.close();
    while let Ok(message) = messages.try_recv() {
        if let Message::Ask(_, question) = message {
            question.refuse(StoreError::Closed);
        }
    }
    unit.close().await;
    if let Some(reply) = closing {
        // Whoever asked for it may have gone.
        let _gone = reply.send(());
    }
}

/// Runs one transaction.
async fn group<U: Unit>(
    messages: &mut mpsc::Receiver<Message<U>>,
    waiting: &mut Waiting<U>,
    closing: &mut Option<oneshot::Sender<()>>,
    unit: &mut U,
) {
    waiting.wrap();
    if let Err(error) = unit.begin().await {
        unit.abandon().await;
        // All that wait, and those that came meanwhile: they would only find out one group after the other.
        waiting.refuse(&error);
        gather(messages, waiting, closing);
        waiting.refuse(&error);
        return;
    }
    let begun = Instant::now();
    let mut answers = Vec::new();
    let (mut wakes, mut lapses) = (BTreeSet::new(), Lapses::default());
    let mut lost = None;
    while answers.len() < GROUP_MAX && begun.elapsed() < GROUP_TIME_MAX {
        gather(messages, waiting, closing);
        let Some(question) = waiting.next() else { break };
        if let Err(error) = unit.turn().await {
            question.refuse(error.clone());
            lost = Some(error);
            break;
        }
        let answered = question.run(unit).await;
        let settled = match &answered.failure {
            Some(failure) if answered.panicked => Err(failure.clone()),
            failure => unit.settle(failure.as_ref()).await,
        };
        wakes.append(unit.wakes());
        lapses.append(std::mem::take(unit.lapses()));
        answers.push(answered);
        if let Err(error) = settled {
            lost = Some(error);
            break;
        }
    }
    let committed = match lost {
        Some(error) => Err(error),
        None => unit.commit().await,
    };
    match committed {
        Ok(()) => unit.tell(wakes, lapses),
        Err(_) => unit.abandon().await,
    }
    for answered in answers {
        (answered.tell)(committed.clone());
    }
}

/// Takes what is queued, up to a wish to close: what comes behind that is refused.
fn gather<U: Unit>(
    messages: &mut mpsc::Receiver<Message<U>>,
    waiting: &mut Waiting<U>,
    closing: &mut Option<oneshot::Sender<()>>,
) {
    while closing.is_none() && waiting.by_key.len() < QUEUE_MAX {
        match messages.try_recv() {
            Ok(Message::Ask(key, question)) => waiting.push(key, question),
            Ok(Message::Close(reply)) => *closing = Some(reply),
            Err(_) => break,
        }
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
