//! What holds for an SQLite file besides the guarantees of every engine: whose it is, who has it, what a crash leaves.

use std::path::Path;
use std::sync::Arc;

use perilune::server::store::{HostClock, OpenError, Role, SqliteStore, StoreError, Switch};
use perilune::sql::DatabaseUrl;
use perilune_proto::event::Status;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};

use super::world::{World, acked, key, name, new_task, replayed, report, session, sqlite_url, written};

async fn open(folder: &Path, role: Role) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(&sqlite_url(folder), role, Arc::new(HostClock::new())).await
}

fn world(store: SqliteStore) -> World {
    World::new(Arc::new(store), Box::new(|_| Box::pin(std::future::ready(()))), Box::new(()))
}

/// A plain connection, as another program would have.
async fn another_program(folder: &Path) -> SqliteConnection {
    sqlite_url(folder).options.create_if_missing(true).connect().await.expect("connected")
}

async fn run(folder: &Path, sql: &'static str) {
    let mut connection = another_program(folder).await;
    sqlx::raw_sql(sql).execute(&mut connection).await.expect(sql);
    connection.close().await.expect("closed");
}

#[tokio::test]
async fn another_programs_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), "CREATE TABLE event (x); INSERT INTO event VALUES (1)").await;
    let file = folder.path().join("perilune.db");
    let before = std::fs::read(&file).expect("readable");
    for role in [Role::Server, Role::Operator] {
        let refused = open(folder.path(), role).await.expect_err("refused");
        assert!(matches!(refused, OpenError::Foreign(_)), "{refused:?}");
        assert_eq!(refused.to_string(), format!("{} is the database of another program", file.display()));
    }
    assert_eq!(std::fs::read(&file).expect("readable"), before);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("perilune.db");
    let text = "# notes\n".repeat(1_000);
    std::fs::write(&file, &text).expect("written");
    let refused = open(folder.path(), Role::Server).await.expect_err("refused");
    assert_eq!(refused.to_string(), format!("{} is not an SQLite database", file.display()));
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), text);
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("perilune.db"), "").expect("written");
    open(folder.path(), Role::Server).await.expect("opened");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path(), Role::Server).await.expect("made");
    run(folder.path(), "INSERT INTO perilune_migrations VALUES ('server', 99, 'from the future', 0)").await;
    for role in [Role::Server, Role::Operator] {
        let refused = open(folder.path(), role).await.expect_err("refused");
        assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn what_cant_be_opened_or_written_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = open(&folder.path().join("nowhere"), Role::Server).await.expect_err("refused");
    assert!(matches!(missing, OpenError::Unreadable { .. }), "{missing:?}");
    std::fs::create_dir(folder.path().join("perilune.db")).expect("made");
    let directory = open(folder.path(), Role::Server).await.expect_err("refused");
    assert!(matches!(directory, OpenError::Unreadable { .. }), "{directory:?}");

    for (url, sentence) in [
        ("sqlite::memory:", "an in-memory database can't be served"),
        ("sqlite:elsewhere.db?mode=ro", "elsewhere.db can't be written"),
    ] {
        let url: DatabaseUrl = url.parse().expect("a URL");
        let refused = perilune::server::store::open(&url, Role::Server).await.expect_err("refused");
        assert!(refused.to_string().starts_with(sentence), "{refused}");
    }
}

#[tokio::test]
async fn a_second_server_is_refused_until_the_first_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path(), Role::Server).await.expect("opened");
    let alias = tempfile::tempdir().expect("a folder");
    let (file, other_name) = (folder.path().join("perilune.db"), alias.path().join("perilune.db"));
    std::os::unix::fs::symlink(&file, &other_name).expect("linked");
    for at in [folder.path(), alias.path()] {
        let refused = open(at, Role::Server).await.expect_err("refused");
        assert!(matches!(refused, OpenError::InUse(_)), "{refused:?}");
        assert!(refused.to_string().ends_with("is in use by another server; one SQLite file serves one server"));
    }
    perilune::server::store::Upkeep::close(&first).await.expect("closed");
    open(folder.path(), Role::Server).await.expect("opened again");
}

#[tokio::test]
async fn an_operators_credentials_reach_a_running_server_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = world(open(folder.path(), Role::Server).await.expect("opened"));
    let operator = world(open(folder.path(), Role::Operator).await.expect("opened beside it"));
    let bearer = operator.bearer("worker", &["q"]).await;
    assert!(server.store.authenticate(bearer.hash).await.expect("an answer").is_some());
    let reader = server.reader_of(bearer, |_| ()).await;
    server.write("q", 1).await;
    let lease = server.lease_one(&reader).await;
    operator.store.revoke_credential(name("worker")).await.expect("revoked");
    assert!(server.store.authenticate(bearer.hash).await.expect("an answer").is_none());
    let judged = server.confirm(&reader, &lease).await;
    assert_eq!(judged, perilune::server::store::Confirmed::Unauthenticated);
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = world(open(folder.path(), Role::Server).await.expect("opened"));
    let reader = before.reader_with(|new| new.window = 3).await;
    let paused = before.reader_of(reader.bearer, |_| ()).await;
    before.store.switch_subscription(key(&paused), Switch::Pause).await.expect("paused");
    before.write("q", 5).await;
    let leases = before.lease(&reader, &[session(1, 2)]).await.granted;
    before.confirm(&reader, &leases[0]).await;
    let shown = [before.show(&reader).await, before.show(&paused).await];
    before.store.close().await.expect("closed");

    let after = world(open(folder.path(), Role::Server).await.expect("opened again"));
    assert_eq!([after.show(&reader).await, after.show(&paused).await], shown);
    assert!(!shown[1].subscription.enabled, "a pause survives");
    assert_eq!(after.confirm(&reader, &leases[0]).await, replayed(&leases[0]));
    // The open lease counts on in its session and its window.
    assert_eq!(after.lease(&reader, &[session(1, 2)]).await.granted.len(), 1);
    assert_eq!(after.confirm(&reader, &leases[1]).await, acked(&leases[1]));
    assert_eq!(after.write("q", 1).await[0].sequence.0, 6);
}

/// Reports of 20 tasks at once, the seventh of which the database refuses by `trigger`; who was refused.
async fn refused_of_twenty(trigger: &'static str) -> (World, Vec<usize>) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(open(folder.path(), Role::Server).await.expect("opened"));
    run(folder.path(), trigger).await;
    let world = World::new(store, Box::new(|_| Box::pin(std::future::ready(()))), Box::new(folder));
    world.write("q", 1).await;
    let mut reports: Vec<_> = (0..20).map(|_| report("q", new_task(), Status::Started)).collect();
    reports[7].task_id = perilune_proto::scalar::TaskId::from_u128(7);
    let answers = futures_util::future::join_all(reports.into_iter().map(|report| world.store.report(report))).await;
    let refused = answers.iter().enumerate().filter(|(_, answer)| answer.is_err()).map(|(place, _)| place).collect();
    for answer in answers {
        match answer {
            Ok(verdict) => drop(written(verdict)),
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
        }
    }
    (world, refused)
}

#[tokio::test]
async fn a_question_that_fails_spoils_no_other() {
    let (world, refused) = refused_of_twenty(
        "CREATE TRIGGER sabotage BEFORE INSERT ON task WHEN NEW.task_id = unhex('00000000000000000000000000000007')
         BEGIN SELECT RAISE(ABORT, 'sabotage'); END",
    )
    .await;
    assert_eq!(refused, [7]);
    assert_eq!(world.write("q", 1).await[0].sequence.0, 21, "the failed one left no place behind");
}

#[tokio::test]
async fn a_transaction_that_the_engine_ends_is_told_to_all_in_it() {
    let (world, refused) = refused_of_twenty(
        "CREATE TRIGGER sabotage BEFORE INSERT ON task WHEN NEW.task_id = unhex('00000000000000000000000000000007')
         BEGIN SELECT RAISE(ROLLBACK, 'sabotage'); END",
    )
    .await;
    assert!(refused.contains(&7), "{refused:?}");
    let figures = world.store.figures().await.expect("figures");
    let kept = 1 + 20 - u64::try_from(refused.len()).expect("few");
    assert_eq!((figures.head.0, figures.events), (kept, kept), "nothing that was refused was written");
    assert_eq!(world.write("q", 1).await[0].sequence.0, kept + 1);
}

/// A file system of two megabytes, where this process may mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["-t", "tmpfs", "-o", "size=2m", "none"];
        let mounted = std::process::Command::new("mount").args(arguments).arg(folder.path()).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self(folder));
        }
        println!("a_full_disk_is_said_and_spoils_nothing: skipped, since only root may mount a small disk");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the store's thread may still be closing its file.
        let _ended = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_spoils_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    let world = world(open(disk.0.path(), Role::Server).await.expect("opened"));
    let reader = world.reader().await;
    let big = format!("\"{}\"", "x".repeat(50_000));
    let mut written_to = 0;
    let refused = loop {
        let payload = perilune_proto::json::RawJson::parse(&big, 61).expect("strict JSON");
        let report = perilune::server::store::Report { payload, ..report("q", new_task(), Status::Started) };
        match world.store.report(report).await {
            Ok(verdict) => written_to = written(verdict).sequence.0,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StoreError::Full), "{refused:?}");
    assert!(written_to > 5);
    let figures = world.store.figures().await.expect("reads go on");
    assert_eq!((figures.head.0, figures.events), (written_to, written_to), "no half of an event is there");

    // With room again it goes on where it was.
    let remount = ["-o", "remount,size=8m"];
    let grown = std::process::Command::new("mount").args(remount).arg(disk.0.path()).status();
    assert!(grown.expect("mount runs").success());
    assert_eq!(world.write("q", 1).await[0].sequence.0, written_to + 1);
    assert_eq!(world.lease(&reader, &[session(1, 1)]).await.granted.len(), 1);
    world.store.close().await.expect("closed");
}
