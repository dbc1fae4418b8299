//! SQLite: hooks of its connection, since there is no wire to cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::sqlite::{LockedSqliteHandle, SqliteOperation, SqliteSynchronous};

use super::ExploreError;
use super::engine::{Explorable, Opened};
use crate::inbox::OpenError;
use crate::sql::url::SqlitePlace;
use crate::sql::{DatabaseUrl, DatabaseUrlError, EngineName, PoolSettings, SqlError, pool};
use crate::testkit::gate::{Gate, Harm};

fn failed(error: sqlx::Error) -> ExploreError {
    OpenError::from(pool::OpenError::from(SqlError::from(error))).into()
}

impl Explorable for sqlx::Sqlite {
    fn explorable(url: &DatabaseUrl) -> Result<(), ExploreError> {
        match url {
            DatabaseUrl::Sqlite(url) if url.place == SqlitePlace::Memory => Err(ExploreError::InMemory),
            _ => Ok(()),
        }
    }

    async fn open_gated(url: &DatabaseUrl, gate: Arc<Gate>) -> Result<Opened<Self>, ExploreError> {
        #[allow(irrefutable_let_patterns, reason = "with one engine compiled in there is no other")]
        let DatabaseUrl::Sqlite(url) = url else {
            let wanted = EngineName::Sqlite;
            return Err(DatabaseUrlError::OtherEngine { wanted, found: url.engine() }.into());
        };
        // The inbox's own pool, but that a process's end is not the machine's: nothing waits for the disk.
        let (writer, options) = pool::sqlite_writer(url, &PoolSettings::default());
        let hooked = Arc::clone(&gate);
        let pool = writer
            .after_connect(move |connection, _| {
                let gate = Arc::clone(&hooked);
                Box::pin(async move {
                    hook(&mut connection.lock_handle().await?, &gate);
                    Ok(())
                })
            })
            .connect_with(options.synchronous(SqliteSynchronous::Off))
            .await
            .map_err(failed)?;
        Ok(Opened { pool, gate, _link: None })
    }
}

/// A row that has struck dooms its transaction: SQLite can't be told to fail before the commit.
fn hook(handle: &mut LockedSqliteHandle<'_>, gate: &Arc<Gate>) {
    let doomed = Arc::new(AtomicBool::new(false));
    let (rows, row_doomed) = (Arc::clone(gate), Arc::clone(&doomed));
    handle.set_update_hook(move |row| {
        if rows.pass(|| format!("after {} of a row of `{}`", verb(&row.operation), row.table)).is_err() {
            row_doomed.store(true, Ordering::Relaxed);
        }
    });
    let rolled_back = Arc::clone(&doomed);
    handle.set_rollback_hook(move || rolled_back.store(false, Ordering::Relaxed));
    let commits = Arc::clone(gate);
    handle.set_commit_hook(move || {
        if doomed.load(Ordering::Relaxed) || commits.pass(|| "before a commit".to_owned()).is_err() {
            return false;
        }
        if commits.harm() == Harm::Crash {
            // It is done; where this strikes nobody hears of it. A connection that lives on can't lose an answer here.
            let _ = commits.pass(|| "after a commit".to_owned());
        }
        true
    });
}

const fn verb(operation: &SqliteOperation) -> &'static str {
    match operation {
        SqliteOperation::Insert => "the insert",
        SqliteOperation::Update => "the update",
        SqliteOperation::Delete => "the deletion",
        SqliteOperation::Unknown(_) => "a change",
    }
}
