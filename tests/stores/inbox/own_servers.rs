//! A full disk and a read-only replica, on servers of the test's own: each is an error of its own, without an effect and
//! without an inbox row, so without an acknowledgement.
//!
//! They run where `PERILUNE_TEST_DATABASES_REQUIRED` is set and the machine has the server's programs. PostgreSQL's full
//! disk is a small file system, so that test wants a user who may mount one.

use std::path::Path;
use std::time::{Duration, Instant};

use perilune::inbox::{Applied, ApplyErrorKind, Inbox};
use perilune::sql::{PoolSettings, SqlErrorKind};
use sqlx::Pool;

use super::{apply, apply_sql};
use crate::engines::{Site, TestEngine};
use crate::events::event;
use crate::own_server::{self, ANSWERS_WITHIN, OwnServer};

/// A loaded machine is slow; how slow decides nothing here.
fn settings() -> PoolSettings {
    let long = ANSWERS_WITHIN;
    PoolSettings { max_connections: 4, acquire_timeout: long, statement_timeout: long, ..PoolSettings::default() }
}

/// A pool on a server that answers its port and may not be ready yet.
async fn pool_on<DB: TestEngine>(url: &str) -> Pool<DB> {
    let parsed = url.parse().expect("a database URL");
    let until = Instant::now() + ANSWERS_WITHIN;
    loop {
        match DB::open(&parsed, &settings()).await {
            Ok(pool) => return pool,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A site on a server of its own.
async fn site_on<DB: TestEngine>(server: &OwnServer) -> Site<DB> {
    pool_on::<DB>(server.url()).await.close().await;
    Site::at(server.url().to_owned(), settings()).await
}

/// Runs a test where the databases are wanted; what the machine lacks for it is `missing`.
fn on_own_server<F: Future<Output = ()>>(missing: Option<String>, guarantee: impl FnOnce() -> F) {
    if std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_none() {
        println!("skipped: `.ci/databases cargo test --all-features --test stores` runs it on a server of its own");
    } else if let Some(missing) = missing {
        println!("skipped: {missing}");
    } else {
        actix_rt::System::new().block_on(guarantee());
    }
}

fn no_postgres() -> Option<String> {
    own_server::postgres_programs().err()
}

fn no_mariadb() -> Option<String> {
    own_server::mariadb_program().err()
}

/// The words of a command that mounts a small file system at `folder` and then becomes another one.
///
/// The mount is in a namespace of its own: it goes with the server, even where the test is killed.
fn with_a_small_disk(folder: &Path) -> Vec<String> {
    let script = "mount -t tmpfs -o size=16m,mode=700,uid=$(id -u postgres) small \"$0\" && exec \"$@\"";
    let unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script];
    unshare.into_iter().map(str::to_owned).chain([folder.display().to_string()]).collect()
}

fn no_small_disk() -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let words = with_a_small_disk(folder.path());
    let tried = std::process::Command::new(&words[0]).args(&words[1..]).arg("true").output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("no file system may be mounted: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Some(format!("no `unshare`: {error}")),
    }
}

/// Fills the disk that `{p}effect` is on, applies an event with the same statement, and makes room again.
async fn a_full_disk_is_an_error_of_its_own<DB: TestEngine>(site: Site<DB>, insert: &str) {
    let inbox = site.inbox("billing");
    let insert = site.sql(insert);
    let mut on = site.pool.acquire().await.expect("a connection");
    let mut rows = 0;
    while let Ok(inserted) = DB::run(&mut on, &insert).await {
        rows += inserted;
        assert!(rows < 10_000_000, "the disk is not small");
    }
    drop(on);
    let before = site.number("SELECT COUNT(*) FROM {p}effect").await;
    let error = apply_sql(&inbox, &event(1), &insert).await.expect_err("full");
    assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::DiskFull), "{error}");
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}effect").await, before);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}inbox").await, 0);
    assert!(!site.is_poisoned().await);

    site.run("TRUNCATE TABLE {p}effect").await;
    // MariaDB gives the room back in the background: the event is delivered again until it is there.
    let until = Instant::now() + ANSWERS_WITHIN;
    let applied = loop {
        match apply_sql(&inbox, &event(1), &insert).await {
            Err(error) if Instant::now() < until => {
                assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::DiskFull), "{error}");
                assert_eq!(site.number("SELECT COUNT(*) FROM {p}inbox").await, 0);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            applied => break applied,
        }
    };
    assert_eq!(applied.expect("there is room"), Applied::Fresh(()));
    let effects = site.number("SELECT COUNT(*) FROM {p}effect").await;
    assert_eq!(apply_sql(&inbox, &event(1), &insert).await.expect("known"), Applied::Duplicate);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}effect").await, effects);
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}inbox").await, 1);
    site.pool.close().await;
}

/// The business table is on a small disk; the log is elsewhere, since its full disk ends the whole server.
#[test]
fn a_full_disk_is_an_error_of_its_own_on_postgres() {
    on_own_server(no_postgres().or_else(no_small_disk), || async {
        let folder = own_server::postgres_files().expect("a fresh server's files");
        let small = folder.path().join("small");
        std::fs::create_dir(&small).expect("a mount point");
        // Vacuuming would make room behind the test's back.
        let more = ["-c", "autovacuum=off"];
        let server = own_server::postgres(folder, &with_a_small_disk(&small), &more).expect("a server");
        let site = site_on::<sqlx::Postgres>(&server).await;
        site.run(&format!("CREATE TABLESPACE small LOCATION '{}'", small.display())).await;
        site.run("ALTER TABLE {p}effect SET TABLESPACE small").await;
        let insert = "INSERT INTO {p}effect (tag) SELECT repeat('x', 64) FROM generate_series(1, 100000)";
        a_full_disk_is_an_error_of_its_own(site, insert).await;
    });
}

/// InnoDB's one file may not grow beyond a limit, which it reports as it reports a full disk.
#[test]
fn a_full_disk_is_an_error_of_its_own_on_mariadb() {
    on_own_server(no_mariadb(), || async {
        let limit = "--innodb-data-file-path=ibdata1:12M:autoextend:max:24M";
        // What is needed to roll back is elsewhere, so that it is the table that gets full.
        let more = ["--innodb-file-per-table=0", limit, "--innodb-undo-tablespaces=2"];
        let server = own_server::mariadb(&more).expect("a server");
        let site = site_on::<sqlx::MySql>(&server).await;
        let insert = "INSERT INTO {p}effect (tag) SELECT REPEAT('x', 64) FROM seq_1_to_20000";
        a_full_disk_is_an_error_of_its_own(site, insert).await;
    });
}

/// The event fails on `replica` and applies on the server behind `site`.
async fn a_replica_is_an_error_of_its_own<DB: TestEngine>(site: Site<DB>, replica: Inbox<DB>) {
    let error = apply(&site, &replica, &event(1), "x").await.expect_err("read-only");
    assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::ReadOnly), "{error}");
    assert_eq!((site.effects("x").await, site.number("SELECT COUNT(*) FROM {p}inbox").await), (0, 0));
    let inbox = site.inbox("billing");
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("known"), Applied::Duplicate);
    assert_eq!(site.effects("x").await, 1);
    replica.pool().close().await;
    site.pool.close().await;
}

/// A hot standby of a PostgreSQL.
fn standby_of(primary: &OwnServer) -> Result<OwnServer, String> {
    let folder = own_server::folder_of("postgres")?;
    let data = folder.path().join("data").display().to_string();
    let arguments = ["-d", primary.url(), "-D", &data, "-R", "-X", "stream", "-c", "fast", "--no-sync"];
    own_server::run("postgres", &own_server::postgres_programs()?.join("pg_basebackup"), &arguments)?;
    own_server::postgres(folder, &[], &[])
}

#[test]
fn a_read_only_replica_is_an_error_of_its_own_on_postgres() {
    on_own_server(no_postgres(), || async {
        let files = own_server::postgres_files().expect("a fresh server's files");
        let primary = own_server::postgres(files, &[], &[]).expect("a server");
        // The tables are in the backup, so the replica has them from its start.
        let site = site_on::<sqlx::Postgres>(&primary).await;
        let standby = standby_of(&primary).expect("a standby");
        let pool = pool_on::<sqlx::Postgres>(standby.url()).await;
        let replica = Inbox::with_prefix(pool, "billing", &site.prefix).expect("a consumer's name");
        a_replica_is_an_error_of_its_own(site, replica).await;
    });
}

/// A replica of MariaDB is a server with `read_only` and its users have no right to write nevertheless: what it answers
/// them depends on nothing else, so there is no replication in this test.
#[test]
fn a_read_only_replica_is_an_error_of_its_own_on_mariadb() {
    on_own_server(no_mariadb(), || async {
        let server = own_server::mariadb(&[]).expect("a server");
        let site = site_on::<sqlx::MySql>(&server).await;
        site.run("CREATE USER shop@'%'; GRANT ALL ON test.* TO shop@'%'; SET GLOBAL read_only = ON").await;
        let url = server.url().replace("root@", "shop@");
        let replica = Inbox::with_prefix(pool_on(&url).await, "billing", &site.prefix).expect("a consumer's name");
        // The administrator may write there nevertheless, as replication does.
        a_replica_is_an_error_of_its_own(site, replica).await;
    });
}
