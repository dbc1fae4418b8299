//! What differs between the engines, as constants of a sealed trait.

use std::future::Future;

use sqlx::Transaction;

use super::pool::{OpenError, PoolSettings};
use super::url::{DatabaseUrl, DatabaseUrlError, EngineName};

mod sealed {
    /// Only the three drivers of sqlx that we test are engines.
    pub trait Sealed {}
}

/// One of the three databases: `sqlx::Sqlite`, `sqlx::Postgres` or `sqlx::MySql`.
///
/// Sealed: each engine's statements and traps are tested one by one.
pub trait Engine: sqlx::Database + sealed::Sealed {
    /// The engine's name.
    const ENGINE: EngineName;

    /// How a transaction begins that will write, at READ COMMITTED whatever the connection's default is.
    ///
    /// It is one round trip on every engine. SQLite takes its write lock here: a deferred transaction that reads
    /// first and writes later fails at once when somebody else wrote in between, and no busy timeout helps.
    const BEGIN_WRITE: &'static str;

    /// Whether only one connection may write at a time, so that writers queue in the program (fairly) and not
    /// in the engine (by polling).
    const WRITERS: Writers;

    /// Opens a pool for writing on the database that a URL names.
    ///
    /// # Errors
    /// [`OpenError`]: the URL names another engine, or the database can't be opened.
    fn open(
        url: &DatabaseUrl,
        settings: &PoolSettings,
    ) -> impl Future<Output = Result<sqlx::Pool<Self>, OpenError>> + Send;

    /// Commits, and leaves a clean connection also where that fails.
    ///
    /// # Errors
    /// The driver's; [`SqlError::at_commit`](super::SqlError::at_commit) classifies it.
    fn commit(tx: Transaction<'static, Self>) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        tx.commit()
    }

    /// Rolls back and waits for it.
    ///
    /// # Errors
    /// The driver's; the pool then closes the connection or rolls back itself.
    fn roll_back(tx: Transaction<'static, Self>) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        tx.rollback()
    }
}

/// How many connections may write at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// One.
    One,
    /// Many; rows are locked one by one.
    Many,
}

#[cfg(feature = "sqlite")]
impl sealed::Sealed for sqlx::Sqlite {}
#[cfg(feature = "sqlite")]
impl Engine for sqlx::Sqlite {
    const ENGINE: EngineName = EngineName::Sqlite;
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";
    const WRITERS: Writers = Writers::One;

    async fn open(url: &DatabaseUrl, settings: &PoolSettings) -> Result<sqlx::Pool<Self>, OpenError> {
        #[allow(unreachable_patterns, reason = "with one engine compiled in there is no other")]
        match url {
            DatabaseUrl::Sqlite(url) => Ok(super::pool::open_sqlite(url, settings).await?.writer),
            other => Err(DatabaseUrlError::OtherEngine { wanted: Self::ENGINE, found: other.engine() }.into()),
        }
    }

    async fn commit(mut tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        let committed = sqlx::raw_sql("COMMIT; BEGIN").execute(&mut *tx).await.map(drop);
        if committed.is_err() && reset(tx).await.is_err() {
            tracing::debug!("a failed transaction's connection could not be reset");
        }
        committed
    }

    async fn roll_back(mut tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        match sqlx::raw_sql("ROLLBACK; BEGIN").execute(&mut *tx).await {
            Ok(_) => Ok(()),
            Err(_) => reset(tx).await,
        }
    }
}

/// Makes sqlx and SQLite agree that there is no transaction.
///
/// SQLite ends a transaction by itself after a full disk or an I/O error. sqlx goes on counting it as open until its own
/// `COMMIT` or `ROLLBACK` succeeds, and neither does; every later `BEGIN` would be refused. So a transaction is ended by a
/// statement of ours with an empty transaction behind it, in one message to the connection's thread. Dropping sqlx's own
/// queues the rollback of that one, which nobody waits for.
#[cfg(feature = "sqlite")]
async fn reset(mut tx: Transaction<'static, sqlx::Sqlite>) -> Result<(), sqlx::Error> {
    // Where there is no transaction this begins one; where there is, it fails and changes nothing.
    let _only_where_there_was_none = sqlx::raw_sql("BEGIN").execute(&mut *tx).await;
    tx.rollback().await
}

#[cfg(feature = "postgres")]
impl sealed::Sealed for sqlx::Postgres {}
#[cfg(feature = "postgres")]
impl Engine for sqlx::Postgres {
    const ENGINE: EngineName = EngineName::Postgres;
    const BEGIN_WRITE: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED";
    const WRITERS: Writers = Writers::Many;

    async fn open(url: &DatabaseUrl, settings: &PoolSettings) -> Result<sqlx::Pool<Self>, OpenError> {
        #[allow(unreachable_patterns, reason = "with one engine compiled in there is no other")]
        match url {
            DatabaseUrl::Postgres(url) => Ok(super::pool::connect_postgres(url, settings).await?),
            other => Err(DatabaseUrlError::OtherEngine { wanted: Self::ENGINE, found: other.engine() }.into()),
        }
    }
}

#[cfg(feature = "mysql")]
impl sealed::Sealed for sqlx::MySql {}
#[cfg(feature = "mysql")]
impl Engine for sqlx::MySql {
    const ENGINE: EngineName = EngineName::MySql;
    // Two statements in one packet: `START TRANSACTION` takes no isolation level here.
    const BEGIN_WRITE: &'static str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";
    const WRITERS: Writers = Writers::Many;

    async fn open(url: &DatabaseUrl, settings: &PoolSettings) -> Result<sqlx::Pool<Self>, OpenError> {
        #[allow(unreachable_patterns, reason = "with one engine compiled in there is no other")]
        match url {
            DatabaseUrl::MySql(url) => Ok(super::pool::connect_mysql(url, settings).await?),
            other => Err(DatabaseUrlError::OtherEngine { wanted: Self::ENGINE, found: other.engine() }.into()),
        }
    }
}
