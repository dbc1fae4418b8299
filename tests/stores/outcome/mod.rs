//! Operations and outcomes, on every engine: each row of outcome.md in [`rows`], one function per guarantee elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use perilune::outcome::protect::{Key, KeyId, KeyRing};
use perilune::outcome::{
    AppliedEvent, Authoriser, AuthoriserError, Caller, Deciding, Decision, EmptyOutcome, Operation, OperationId,
    Operations, Origin, Outcome, OutcomeEngine, OutcomeStoreError, Subject,
};
use perilune_proto::scalar::{EventId, TaskVersion};
use perilune_proto::{RawJson, ResultEvent, Status, TaskError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::engines::{Site, TestEngine};
use crate::events;

mod audit;
mod damage;
mod dispatch;
mod document;
mod faults;
mod lifecycle;
mod log;
mod orders;
mod plaintext;
mod query;
mod races;
mod retention;
mod rows;
mod status;
mod store;
mod waiting;

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportGenerated {
    pub(crate) pages: u32,
}

impl Outcome for ReportGenerated {
    const TYPE: &'static str = "ReportGenerated";
    const SCHEMA_VERSION: u32 = 2;
}

/// The operation of [`events::event`].
pub(crate) struct GenerateReport;

impl Operation for GenerateReport {
    const TYPE: &'static str = "GenerateReport";
    type Input = String;
    type Outcome = ReportGenerated;
}

pub(crate) struct CloseAccount;

impl Operation for CloseAccount {
    const TYPE: &'static str = "CloseAccount";
    type Input = ();
    type Outcome = EmptyOutcome;
}

pub(crate) fn key(id: u32) -> Key {
    Key::new(KeyId(id), [u8::try_from(id).expect("a small id"); 32])
}

/// The operations of a site, with their tables.
pub(crate) async fn operations<DB: TestEngine + OutcomeEngine>(site: &Site<DB>) -> Operations<DB> {
    operations_with(site, KeyRing::new(key(1))).await
}

pub(crate) async fn operations_with<DB: TestEngine + OutcomeEngine>(site: &Site<DB>, keys: KeyRing) -> Operations<DB> {
    let operations = Operations::builder(site.pool.clone(), keys)
        .table_prefix(site.prefix.clone())
        .operation::<GenerateReport>()
        .operation::<CloseAccount>()
        .origin_of(|event| match event.queue().as_str() {
            "reports" => Origin::default(),
            tenant => Origin { tenant: Some(tenant.to_owned()), actor: Some("ann".to_owned()) },
        })
        .build();
    operations.migrate().await.expect("migrated");
    operations
}

/// What a task says at a version. `n` names the task.
pub(crate) fn event(n: u128, version: u64, status: Status) -> ResultEvent {
    let mut event = events::event(n * 1_000 + u128::from(version));
    event.event_id = EventId::from_u128(n * 1_000 + u128::from(version));
    event.snapshot.task_id = operation_id(n).task_id();
    event.snapshot.version = TaskVersion(version);
    event.snapshot.status = status;
    if status == Status::Succeeded {
        event.snapshot.result = json(r#"{"pages": 3}"#);
    }
    event
}

/// The same in a tenant.
pub(crate) fn event_of(tenant: &str, n: u128, version: u64, status: Status) -> ResultEvent {
    let mut event = event(n, version, status);
    event.snapshot.queue = tenant.parse().expect("a name");
    event
}

pub(crate) fn with_error(mut event: ResultEvent, code: &str) -> ResultEvent {
    event.snapshot.error = Some(TaskError { code: code.to_owned(), message: "a person's words".to_owned() });
    event
}

pub(crate) fn json(text: &str) -> RawJson {
    RawJson::parse(text, 61).expect("JSON")
}

pub(crate) fn operation_id(n: u128) -> OperationId {
    OperationId::from_u128(n)
}

/// Applies an event in a transaction of its own.
pub(crate) async fn apply<DB: TestEngine + OutcomeEngine>(
    site: &Site<DB>,
    operations: &Operations<DB>,
    event: &ResultEvent,
) -> Result<AppliedEvent, OutcomeStoreError> {
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let applied = operations.apply(&mut transaction, event).await;
    match &applied {
        Ok(_) => transaction.commit().await.expect("committed"),
        Err(_) => transaction.rollback().await.expect("rolled back"),
    }
    applied
}

/// Allows or denies, or fails, and counts how often it was asked.
#[derive(Clone)]
pub(crate) struct Counting {
    pub(crate) decision: Option<Decision>,
    asked: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

impl Counting {
    pub(crate) fn new(decision: Option<Decision>) -> Self {
        Self { decision, asked: Arc::default(), changed: Arc::default() }
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until it was asked that often.
    pub(crate) async fn until(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.count() >= count {
                return;
            }
            changed.await;
        }
    }
}

impl Authoriser for Counting {
    fn decide<'a>(&'a self, _subject: Subject<'a>) -> Deciding<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
        let decided = self.decision.ok_or_else(|| AuthoriserError("down".into()));
        Box::pin(std::future::ready(decided))
    }
}

pub(crate) fn caller(tenant: Option<&str>) -> Caller {
    Caller { actor: Some("ann".to_owned()), tenant: tenant.map(str::to_owned) }
}
