//! Where a run takes place: a fresh file, a server that the environment names, or an instance of the test's own that may
//! be killed.

use std::time::Instant;

use crate::own_server::{self, ANSWERS_WITHIN, OwnServer};

/// A database for one run.
pub(crate) struct Place {
    engine: &'static str,
    url: String,
    prefix: String,
    server: Option<OwnServer>,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    pub(crate) const fn engine(&self) -> &'static str {
        self.engine
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether the server is the test's own, so that it may be killed.
    pub(crate) const fn is_own(&self) -> bool {
        self.server.is_some()
    }

    /// Kills the server with SIGKILL and starts it again.
    pub(crate) fn kill_server(&mut self) {
        let server = self.server.as_mut().expect("a server of the test's own");
        server.kill();
        // PostgreSQL's children notice by themselves and keep a successor waiting until they have.
        let until = Instant::now() + ANSWERS_WITHIN;
        while !server.start() {
            assert!(Instant::now() < until, "the server does not come back");
        }
    }
}

/// The place of one engine's run, with a server of the test's own or not, or why there is none.
pub(crate) fn place(engine: &str, own: bool) -> Result<Place, String> {
    match engine {
        "SQLite" => file(),
        "PostgreSQL" if own => own_place("PostgreSQL", own_postgres()),
        "MySQL" if own => own_place("MySQL", own_server::mariadb(&[])),
        "PostgreSQL" => named("PostgreSQL", "PERILUNE_TEST_POSTGRES_URL"),
        "MySQL" => named("MySQL", "PERILUNE_TEST_MYSQL_URL"),
        _ => panic!("ENGINES: {engine} is none of SQLite, PostgreSQL, MySQL"),
    }
}

fn own_postgres() -> Result<OwnServer, String> {
    own_server::postgres(own_server::postgres_files()?, &[], &[])
}

/// Where the databases must be there, a missing one is a failure.
fn own_place(engine: &'static str, server: Result<OwnServer, String>) -> Result<Place, String> {
    let server = server.map_err(|why| format!("\n{engine} skipped: {why}"));
    if let Err(skipped) = &server {
        assert!(std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_none(), "{skipped}");
    }
    let server = server?;
    let url = server.url().to_owned();
    Ok(Place { engine, url, prefix: fresh_prefix(), server: Some(server), _folder: None })
}

fn fresh_prefix() -> String {
    format!("c{}_", std::process::id())
}

fn file() -> Result<Place, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("crash.db").display());
    Ok(Place { engine: "SQLite", url, prefix: fresh_prefix(), server: None, _folder: Some(folder) })
}

fn named(engine: &'static str, variable: &str) -> Result<Place, String> {
    match std::env::var(variable) {
        Ok(url) => Ok(Place { engine, url, prefix: fresh_prefix(), server: None, _folder: None }),
        Err(_) if std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_some() => panic!("{variable} is not set"),
        Err(_) => Err(format!(
            "\n{engine} skipped: {variable} is not set; `.ci/databases cargo test --all-features --test crash` runs it"
        )),
    }
}
