//! An application's own database, for the commands that look after its operations.

use crate::outcome::Operations;
use crate::outcome::protect::{Key, KeyId, KeyProvider, ProtectError};
use crate::sql::{DatabaseUrl, PoolSettings, TablePrefix, pool};

use super::discreet::Discreet;
use super::exit::{Failure, Outcome};

/// Which database, and what its tables' names begin with.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ApplicationDatabaseArgs {
    /// The application's database: sqlite:FILE, postgres://… or mysql://…
    #[arg(
        long,
        value_name = "DATABASE_URL",
        env = "PERILUNE_APPLICATION_DATABASE",
        hide_env_values = true,
        value_parser = Discreet::<DatabaseUrl>::new()
    )]
    database: DatabaseUrl,
    /// What the names of Perilune's tables begin with there
    #[arg(long, value_name = "PREFIX", env = "PERILUNE_TABLE_PREFIX", default_value = "perilune_")]
    table_prefix: TablePrefix,
}

/// No command of these opens a blob, so there is no key to be had.
struct NoKeys;

impl KeyProvider for NoKeys {
    fn active_key(&self) -> Result<Key, ProtectError> {
        Err(ProtectError::KeyProvider)
    }

    fn key(&self, _id: KeyId) -> Result<Option<Key>, ProtectError> {
        Err(ProtectError::KeyProvider)
    }
}

/// The operations of an application, on whichever engine they are.
pub(crate) enum ApplicationOperations {
    #[cfg(feature = "sqlite")]
    Sqlite(Operations<sqlx::Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(Operations<sqlx::Postgres>),
    #[cfg(feature = "mysql")]
    MySql(Operations<sqlx::MySql>),
}

/// Runs an expression on the operations, whichever engine they are on.
macro_rules! on_any_engine {
    ($operations:expr, $name:ident => $body:expr) => {
        match &$operations {
            #[cfg(feature = "sqlite")]
            $crate::cli::application_database::ApplicationOperations::Sqlite($name) => $body,
            #[cfg(feature = "postgres")]
            $crate::cli::application_database::ApplicationOperations::Postgres($name) => $body,
            #[cfg(feature = "mysql")]
            $crate::cli::application_database::ApplicationOperations::MySql($name) => $body,
        }
    };
}
pub(crate) use on_any_engine;

impl ApplicationDatabaseArgs {
    /// Opens the database and checks that its tables are those of this program. Makes and migrates nothing.
    ///
    /// # Errors
    /// One sentence: the database can't be opened, or its tables are not there or of another version.
    pub(crate) async fn open(&self) -> Outcome<ApplicationOperations> {
        let settings = PoolSettings { max_connections: 2, ..PoolSettings::default() };
        let failed = |error| Failure::Failed(anyhow::Error::new(error).context("--database"));
        let operations = match &self.database {
            #[cfg(feature = "sqlite")]
            DatabaseUrl::Sqlite(url) => {
                let mut url = url.clone();
                if url.access == crate::sql::url::SqliteAccess::Create {
                    // A mistyped name must not leave an empty database behind.
                    url.access = crate::sql::url::SqliteAccess::Existing;
                }
                let pools = pool::open_sqlite(&url, &settings).await.map_err(failed)?;
                let builder = Operations::builder(pools.writer, NoKeys).readers(pools.readers);
                ApplicationOperations::Sqlite(builder.table_prefix(self.table_prefix.clone()).build())
            }
            #[cfg(feature = "postgres")]
            DatabaseUrl::Postgres(options) => {
                let pool = pool::connect_postgres(options, &settings).await.map_err(failed)?;
                let builder = Operations::builder(pool, NoKeys).table_prefix(self.table_prefix.clone());
                ApplicationOperations::Postgres(builder.build())
            }
            #[cfg(feature = "mysql")]
            DatabaseUrl::MySql(options) => {
                let pool = pool::connect_mysql(options, &settings).await.map_err(failed)?;
                let builder = Operations::builder(pool, NoKeys).table_prefix(self.table_prefix.clone());
                ApplicationOperations::MySql(builder.build())
            }
        };
        let validated = on_any_engine!(operations, operations => operations.validate().await);
        validated.map_err(|error| Failure::Failed(anyhow::Error::new(error).context("--database")))?;
        Ok(operations)
    }
}
