//! The explorer: a right handler passes at every point, and each kind of wrong one is found.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use perilune::consumer::{EventContext, EventHandler, HandlerResult};
use perilune::inbox::Inbox;
use perilune::proto::ResultEvent;
use perilune::proto::scalar::TaskId;
use perilune::testkit::{CrashPoints, Explorable, ExploreError, Harm};
use sqlx::{Pool, Sqlite};
use tokio::sync::Notify;

use crate::run::in_system;

const CREATE: &str = "CREATE TABLE invoice (task_id TEXT NOT NULL)";

/// A database in a folder of its own, with the business table.
struct Books {
    _folder: tempfile::TempDir,
    url: String,
}

impl Books {
    async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("books.db").display());
        let inbox = Inbox::<Sqlite>::connect(&url, "setup").await.expect("a database");
        sqlx::query(CREATE).execute(inbox.pool()).await.expect("a table");
        inbox.pool().close().await;
        Self { _folder: folder, url }
    }

    fn points(&self) -> CrashPoints {
        CrashPoints::of(&self.url, "billing")
    }
}

async fn insert(on: impl sqlx::SqliteExecutor<'_>, task: TaskId) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO invoice VALUES (?)").bind(task.to_string()).execute(on).await.map(drop)
}

async fn effects(pool: Pool<Sqlite>, event: Arc<ResultEvent>) -> Result<i64, sqlx::Error> {
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM invoice WHERE task_id = ?");
    count.bind(event.task_id().to_string()).fetch_one(&pool).await
}

/// What the inbox is for.
fn right(inbox: &Inbox<Sqlite>) -> impl EventHandler + Send + Sync + use<> {
    inbox.handler(|event, mut tx| async move { insert(&mut **tx, event.task_id()).await })
}

#[test]
fn a_right_handler_has_one_effect_whatever_happens_and_wherever() {
    in_system(|| async {
        let books = Books::open().await;
        let report = books.points().explore(|inbox| right(&inbox), effects).await.expect("explored");
        report.one_effect().expect("exactly once");
        let places = |harm| {
            let points = report.points().iter().filter(move |point| point.harm == harm);
            points.map(|point| point.place.as_str()).collect::<Vec<_>>()
        };
        let crashed = places(Harm::Crash);
        for place in [
            "before the platform gets `register`",
            "after `welcome` was sent",
            "before `delivery` is sent",
            "after the insert of a row of `invoice`",
            "before a commit",
            "after a commit",
            "before the platform gets `ack`",
            "after the platform got `ack`",
            "after `acked` was sent",
        ] {
            assert!(crashed.contains(&place), "{place} is missing in {crashed:#?}");
        }
        assert!(places(Harm::Cut).contains(&"before a commit"));
    });
}

/// Commits its effect before its inbox row.
struct WritesOutside(Inbox<Sqlite>);

impl EventHandler for WritesOutside {
    async fn handle(&self, event: Arc<ResultEvent>, _context: EventContext) -> HandlerResult {
        insert(self.0.pool(), event.task_id()).await?;
        self.0.apply_once(&event, async |_| Ok::<_, sqlx::Error>(())).await?;
        Ok(())
    }
}

#[test]
fn a_handler_that_writes_outside_the_transaction_is_found() {
    in_system(|| async {
        let books = Books::open().await;
        let report = books.points().explore(WritesOutside, effects).await.expect("explored");
        let failed = report.one_effect().expect_err("two effects somewhere");
        let twice = failed.points().iter().find(|point| point.harm == Harm::Crash && point.effects == 2);
        let twice = twice.unwrap_or_else(|| panic!("no crash made two effects: {failed}"));
        assert_eq!((twice.place.as_str(), twice.confirmed), ("after a commit", true), "{failed}");
        assert!(failed.points().len() < report.points().len(), "a crash before the effect does no harm");
    });
}

/// Says ok first and writes later.
struct WritesBehind {
    waiting: Arc<Mutex<Vec<TaskId>>>,
}

impl EventHandler for WritesBehind {
    async fn handle(&self, event: Arc<ResultEvent>, _context: EventContext) -> HandlerResult {
        self.waiting.lock().expect("whole").push(event.task_id());
        Ok(())
    }
}

#[test]
fn a_handler_that_is_acknowledged_before_its_commit_is_found() {
    in_system(|| async {
        let books = Books::open().await;
        // The process that lives writes what it remembers, in the end; a dead one remembers nothing.
        let memory: Arc<Mutex<Arc<Mutex<Vec<TaskId>>>>> = Arc::default();
        let (kept, latest) = (Arc::clone(&memory), memory);
        let process = move |_| {
            let waiting = Arc::default();
            *kept.lock().expect("whole") = Arc::clone(&waiting);
            WritesBehind { waiting }
        };
        let written = move |pool, event| {
            let waiting = std::mem::take(&mut *latest.lock().expect("whole").lock().expect("whole"));
            async move {
                for task in waiting {
                    insert(&pool, task).await?;
                }
                effects(pool, event).await
            }
        };
        let report = books.points().explore(process, written).await.expect("explored");
        let failed = report.one_effect().expect_err("the effect is lost somewhere");
        let crashed = failed.points().iter().filter(|point| point.harm == Harm::Crash);
        let places: HashMap<_, _> = crashed.map(|point| (point.place.as_str(), point)).collect();
        let lost = places.get("after the platform got `ack`").unwrap_or_else(|| panic!("not there: {failed}"));
        assert_eq!((lost.effects, lost.confirmed), (0, true));
        assert!(!places.contains_key("before the platform gets `ack`"), "{failed}");
    });
}

/// Has no inbox.
struct Forgetful(Pool<Sqlite>);

impl EventHandler for Forgetful {
    async fn handle(&self, event: Arc<ResultEvent>, _context: EventContext) -> HandlerResult {
        insert(&self.0, event.task_id()).await?;
        Ok(())
    }
}

#[test]
fn a_handler_without_an_inbox_is_found() {
    in_system(|| async {
        let books = Books::open().await;
        let report = books.points().explore(|inbox| Forgetful(inbox.pool().clone()), effects).await.expect("explored");
        let failed = report.one_effect().expect_err("two effects somewhere");
        assert!(failed.points().iter().any(|point| point.place == "before the platform gets `ack`"), "{failed}");
    });
}

/// Takes an error for a success.
struct Careless(Inbox<Sqlite>);

impl EventHandler for Careless {
    async fn handle(&self, event: Arc<ResultEvent>, _context: EventContext) -> HandlerResult {
        let task = event.task_id();
        let applied = self.0.apply_once(&event, move |mut tx| async move { insert(&mut **tx, task).await }).await;
        drop(applied);
        Ok(())
    }
}

#[test]
fn a_handler_that_swallows_an_error_is_found_by_a_cut() {
    in_system(|| async {
        let books = Books::open().await;
        let report = books.points().explore(Careless, effects).await.expect("explored");
        let failed = report.one_effect().expect_err("the effect is lost somewhere");
        assert!(failed.points().iter().all(|point| point.harm == Harm::Cut && point.effects == 0), "{failed}");
        assert!(failed.points().iter().any(|point| point.place == "before a commit"), "{failed}");
    });
}

/// Notes each attempt in a transaction of its own, before the one that counts.
struct Notes(Inbox<Sqlite>);

impl EventHandler for Notes {
    async fn handle(&self, event: Arc<ResultEvent>, _context: EventContext) -> HandlerResult {
        let mut own = self.0.pool().begin().await?;
        sqlx::query("INSERT INTO attempt DEFAULT VALUES").execute(&mut *own).await?;
        own.commit().await?;
        let task = event.task_id();
        self.0.apply_once(&event, move |mut tx| async move { insert(&mut **tx, task).await }).await?;
        Ok(())
    }
}

#[test]
fn a_commit_that_is_refused_in_a_handler_s_own_transaction_does_no_harm_to_the_next() {
    in_system(|| async {
        let books = Books::open().await;
        let setup = Inbox::<Sqlite>::connect(&books.url, "setup").await.expect("a database");
        sqlx::query("CREATE TABLE attempt (n INTEGER PRIMARY KEY)").execute(setup.pool()).await.expect("a table");
        setup.pool().close().await;
        let report = books.points().explore(Notes, effects).await.expect("explored");
        report.one_effect().expect("the inbox's transaction has the effect, once");
    });
}

#[test]
fn a_handler_that_does_not_work_at_all_is_not_explored() {
    in_system(|| async {
        let books = Books::open().await;
        let nothing = |inbox: Inbox<Sqlite>| inbox.handler(|_, _| async { Ok::<_, sqlx::Error>(()) });
        let error = books.points().explore(nothing, effects).await.expect_err("no effect");
        assert!(matches!(error, ExploreError::Effects { effects: 0 }), "{error}");
    });
}

/// Never comes to its end in one of its processes.
struct Hangs<H> {
    inner: H,
    /// Told by the process that hangs.
    hangs: Option<Arc<Notify>>,
}

impl<H: EventHandler> EventHandler for Hangs<H> {
    async fn handle(&self, event: Arc<ResultEvent>, context: EventContext) -> HandlerResult {
        if let Some(hangs) = &self.hangs {
            hangs.notify_one();
            pending::<()>().await;
        }
        self.inner.handle(event, context).await
    }
}

#[test]
fn an_exploration_with_a_run_that_hangs_before_its_point_is_not_complete() {
    in_system(|| async {
        // The handler begins before this point of its run. Each point has two processes, and there is one before them.
        const HANGS_BEFORE: u64 = 10;
        let books = Books::open().await;
        let (processes, hangs) = (AtomicU64::new(0), Arc::new(Notify::new()));
        let process = |inbox: Inbox<Sqlite>| {
            let number = processes.fetch_add(1, Ordering::Relaxed) + 1;
            let hangs = (number == 2 * HANGS_BEFORE).then(|| Arc::clone(&hangs));
            Hangs { inner: right(&inbox), hangs }
        };
        let hung = async {
            hangs.notified().await;
            // Nobody waits by the clock for what never comes.
            tokio::time::pause();
            pending::<()>().await;
        };
        let explored = tokio::select! {
            explored = books.points().explore(process, effects) => explored,
            () = hung => unreachable!("it is pending"),
        };
        let error = explored.expect_err("whether there are more points is unknown");
        let unknown = "a crash was due at point 10, and its run came neither there nor to its end";
        assert_eq!(error.to_string(), unknown);
    });
}

async fn refused<DB: Explorable>(url: &str) -> ExploreError {
    let process = |inbox: Inbox<DB>| inbox.handler(|_, _| async { Ok::<_, sqlx::Error>(()) });
    CrashPoints::of(url, "billing").explore(process, async |_, _| Ok(0)).await.expect_err("no such database")
}

#[test]
fn a_database_that_can_not_be_explored_is_refused() {
    in_system(|| async {
        assert!(matches!(refused::<Sqlite>("sqlite::memory:").await, ExploreError::InMemory));
        assert!(matches!(refused::<Sqlite>("nonsense").await, ExploreError::Url(_)));
        let other = refused::<Sqlite>("postgres://nobody@127.0.0.1:1/nothing").await.to_string();
        assert_eq!(other, "the database is PostgreSQL, and SQLite is needed here");
        let name = CrashPoints::of(&Books::open().await.url, "no name").explore(|inbox| right(&inbox), effects).await;
        assert!(name.expect_err("a bad name").to_string().starts_with("a consumer's name must be"));
    });
}
