//! Each fault is an error of its own, in any language, and none is acknowledged.

use std::time::Duration;

use perilune::inbox::{Applied, ApplyErrorKind, Inbox, OpenTransaction};
use perilune::sql::{PoolSettings, SqlErrorKind};

use super::{apply, apply_sql};
use crate::engines::{Site, TestEngine, exercise_with, on_servers, turn_at_innodb_trx};
use crate::events::event;

on_servers! {
    another_language_changes_nothing,
    a_read_only_session_is_an_error_of_its_own,
    a_user_s_default_isolation_does_not_matter,
}

/// One connection whose session was set up by hand.
async fn with_session<DB: TestEngine>(site: &Site<DB>, sql: &str) -> Inbox<DB> {
    let pool = site.another_pool(PoolSettings { max_connections: 1, ..site.settings }).await;
    let mut on = pool.acquire().await.expect("a connection");
    DB::run(&mut on, sql).await.expect(sql);
    drop(on);
    Inbox::with_prefix(pool, "billing", &site.prefix).expect("a consumer's name")
}

/// A language of the server's that is not English, where there is one.
async fn another_language<DB: TestEngine>(site: &Site<DB>) -> &'static str {
    let mut on = site.pool.acquire().await.expect("a connection");
    for set in ["SET lc_messages = 'de_DE'", "SET lc_messages = 'de_DE.UTF-8'", "SET lc_messages = 'de_DE.utf8'"] {
        if DB::run(&mut on, set).await.is_ok() {
            // The pool must not keep it.
            drop(on.detach());
            return set;
        }
    }
    println!("this server has no German messages: the codes are tested in its own language");
    "SELECT 1"
}

async fn another_language_changes_nothing<DB: TestEngine>(site: Site<DB>) {
    let set = another_language(&site).await;
    let inbox = with_session(&site, set).await;
    let told = {
        let mut on = inbox.pool().acquire().await.expect("a connection");
        DB::run(&mut on, &site.sql("INSERT INTO {p}sku VALUES ('a', 1)")).await.expect_err("taken").to_string()
    };
    println!("the server says: {told}");
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("known"), Applied::Duplicate);
    let error = apply_sql(&inbox, &event(2), &site.sql("INSERT INTO {p}sku VALUES ('a', 1)")).await.expect_err("taken");
    assert_eq!((error.kind(), error.sql_kind()), (ApplyErrorKind::Handler, Some(SqlErrorKind::UniqueViolation)));
    site.close().await;
}

async fn a_read_only_session_is_an_error_of_its_own<DB: TestEngine>(site: Site<DB>) {
    let set = if DB::NAME == "PostgreSQL" {
        "SET default_transaction_read_only = on"
    } else {
        "SET SESSION TRANSACTION READ ONLY"
    };
    let inbox = with_session(&site, set).await;
    let error = apply(&site, &inbox, &event(1), "x").await.expect_err("read-only");
    assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::ReadOnly));
    site.close().await;
}

async fn a_user_s_default_isolation_does_not_matter<DB: TestEngine>(site: Site<DB>) {
    let set = if DB::NAME == "PostgreSQL" {
        "SET default_transaction_isolation = 'serializable'"
    } else {
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"
    };
    let inbox = with_session(&site, set).await;
    let level = if DB::NAME == "PostgreSQL" {
        "CASE current_setting('transaction_isolation') WHEN 'read committed' THEN 1 ELSE 0 END"
    } else {
        // The session's default stands; the engine shows the running transaction's level in its own table.
        "SELECT COUNT(*) FROM information_schema.innodb_trx
         WHERE trx_mysql_thread_id = CONNECTION_ID() AND trx_isolation_level = 'READ COMMITTED'"
    };
    let seen = inbox
        .apply_once(&event(1), move |mut tx: OpenTransaction<DB>| async move {
            let _turn = turn_at_innodb_trx::<DB>().await;
            DB::number(&mut tx, level).await
        })
        .await;
    assert_eq!(seen.expect("applied"), Applied::Fresh(1));
    site.close().await;
}

/// A pool whose limits are short.
fn with_short_limits<DB: TestEngine, F: Future<Output = ()>>(guarantee: impl FnOnce(Site<DB>) -> F) {
    let settings = PoolSettings {
        max_connections: 4,
        statement_timeout: Duration::from_secs(2),
        lock_timeout: Duration::from_secs(1),
        ..PoolSettings::default()
    };
    exercise_with(settings, guarantee);
}

async fn a_slow_statement_is_an_error_of_its_own<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    // Not `SLEEP` or `BENCHMARK`, which MariaDB ends early with a value instead of an error.
    let slow = if DB::NAME == "PostgreSQL" {
        "SELECT pg_sleep(20)"
    } else {
        "SELECT COUNT(*) FROM information_schema.collations a, information_schema.collations b,
         information_schema.collations c, information_schema.collations d"
    };
    let error = apply_sql(&inbox, &event(1), slow).await.expect_err("too slow");
    assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::StatementTimeout));
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}

/// A twin that stays open for longer than all attempts: the caller hears of the lock, and nothing else happens.
async fn a_twin_that_never_ends_is_an_error_of_its_own<DB: TestEngine>(site: Site<DB>) {
    let inbox = site.inbox("billing");
    let mut twin = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    inbox.admit(&mut twin, &event(1)).await.expect("admitted");
    let sql = site.effect("x");
    let scope = perilune::inbox::Scope::lease(Duration::from_millis(1_500));
    let error = inbox
        .apply_once_within(scope, &event(1), move |mut tx: OpenTransaction<DB>| {
            let sql = sql.clone();
            async move { DB::run(&mut tx, &sql).await.map(drop) }
        })
        .await
        .expect_err("the twin is still open");
    assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::LockTimeout));
    twin.rollback().await.expect("rolled back");
    assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    site.close().await;
}

#[test]
fn a_slow_statement_is_an_error_of_its_own_on_postgres() {
    with_short_limits::<sqlx::Postgres, _>(a_slow_statement_is_an_error_of_its_own);
}

#[test]
fn a_slow_statement_is_an_error_of_its_own_on_mysql() {
    with_short_limits::<sqlx::MySql, _>(a_slow_statement_is_an_error_of_its_own);
}

#[test]
fn a_twin_that_never_ends_is_an_error_of_its_own_on_postgres() {
    with_short_limits::<sqlx::Postgres, _>(a_twin_that_never_ends_is_an_error_of_its_own);
}

#[test]
fn a_twin_that_never_ends_is_an_error_of_its_own_on_mysql() {
    with_short_limits::<sqlx::MySql, _>(a_twin_that_never_ends_is_an_error_of_its_own);
}

/// Another process that writes to the same file.
#[test]
fn a_writer_elsewhere_is_waited_for_and_then_an_error_of_its_own_on_sqlite() {
    with_short_limits::<sqlx::Sqlite, _>(|site| async move {
        let inbox = site.inbox("billing");
        let elsewhere = site.another_pool(site.settings).await;
        let twin = elsewhere.begin_with("BEGIN IMMEDIATE").await.expect("a transaction");
        let sql = site.effect("x");
        let scope = perilune::inbox::Scope::lease(Duration::from_millis(1_500));
        let error = inbox
            .apply_once_within(scope, &event(1), move |mut tx: OpenTransaction<sqlx::Sqlite>| {
                let sql = sql.clone();
                async move { sqlx::Sqlite::run(&mut tx, &sql).await.map(drop) }
            })
            .await
            .expect_err("the writer is still there");
        assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::LockTimeout));
        twin.rollback().await.expect("rolled back");
        assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    });
}

/// SQLite rolls back by itself when the disk is full, and sqlx goes on counting the transaction as open.
#[test]
fn a_full_disk_is_an_error_of_its_own_on_sqlite() {
    with_short_limits::<sqlx::Sqlite, _>(|site| async move {
        let inbox = site.inbox("billing");
        let pages = site.number("SELECT page_count FROM pragma_page_count").await;
        site.run(&format!("PRAGMA max_page_count = {pages}")).await;
        let fill =
            site.sql("INSERT INTO {p}effect (tag) SELECT hex(zeroblob(4000)) FROM pragma_function_list LIMIT 400");
        let error = apply_sql(&inbox, &event(1), &fill).await.expect_err("full");
        assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::DiskFull));
        site.run("PRAGMA max_page_count = 4294967294").await;
        assert_eq!(apply(&site, &inbox, &event(1), "x").await.expect("applied"), Applied::Fresh(()));
    });
}

#[test]
fn a_read_only_file_is_an_error_of_its_own_on_sqlite() {
    with_short_limits::<sqlx::Sqlite, _>(|site| async move {
        let read_only = format!("{}?mode=ro", site.url).parse().expect("a URL");
        let pool = <sqlx::Sqlite as perilune::sql::Engine>::open(&read_only, &site.settings).await.expect("opened");
        let inbox = Inbox::with_prefix(pool, "billing", &site.prefix).expect("a name");
        let error = apply(&site, &inbox, &event(1), "x").await.expect_err("read-only");
        assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::ReadOnly));
    });
}

/// A server that is not there.
#[test]
fn no_server_is_unavailable() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // A port that nothing listens on.
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("bound").port();
        drop(socket);
        let pool = sqlx::postgres::PgPoolOptions::new()
            .acquire_timeout(Duration::from_millis(300))
            .connect_lazy(&format!("postgres://u@127.0.0.1:{port}/d"))
            .expect("a URL");
        let inbox = Inbox::new(pool, "billing").expect("a name");
        let scope = perilune::inbox::Scope::lease(Duration::from_millis(100));
        let error = inbox
            .apply_once_within(scope, &event(1), |_tx| async { Ok::<_, sqlx::Error>(()) })
            .await
            .expect_err("nobody is there");
        assert_eq!(error.kind(), ApplyErrorKind::Database(SqlErrorKind::Unavailable));
        assert_eq!(error.to_string(), "the database is unavailable");
    });
}
