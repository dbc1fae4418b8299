//! The server's database, for the commands that open it themselves.

use std::sync::Arc;

use super::blame::setting;
use super::discreet::Discreet;
use super::exit::{Failure, Outcome};
use crate::server::store::{self, OpenError, Role, Store};
use crate::sql::DatabaseUrl;
#[cfg(feature = "sqlite")]
use crate::sql::url::SqlitePlace;

/// Which database.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DatabaseArgs {
    /// The server's database: sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(
        long,
        value_name = "DATABASE_URL",
        env = "PERILUNE_DATABASE",
        hide_env_values = true,
        default_value = "sqlite:perilune.db",
        value_parser = Discreet::<DatabaseUrl>::new()
    )]
    pub(crate) database: DatabaseUrl,
}

/// Opens a database for a server, or beside one, and brings its schema up to date.
///
/// # Errors
/// One sentence that names the database's trouble.
pub(crate) async fn open(url: &DatabaseUrl, role: Role) -> Outcome<Arc<dyn Store>> {
    store::open(url, role).await.map_err(|error| {
        let text = format!("{}: {}", setting("--database"), sentence(&error));
        match error {
            OpenError::UnknownEngine | OpenError::InMemory => Failure::Usage(text),
            _ => Failure::failed(text),
        }
    })
}

/// Refuses an SQLite file that is not there: a command that only looks must not make one by a slip of the pen.
///
/// # Errors
/// One sentence that names the file.
pub(crate) fn refuse_missing_file(url: &DatabaseUrl) -> Outcome {
    match url {
        #[cfg(feature = "sqlite")]
        DatabaseUrl::Sqlite(url) if url.place == SqlitePlace::File && !url.options.get_filename().exists() => {
            Err(Failure::failed(format!("there is no database {}", url.options.get_filename().display())))
        }
        _ => Ok(()),
    }
}

/// What is wrong with a database, and why.
pub(crate) fn sentence(error: &OpenError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// An operator's access beside a running server.
pub(crate) struct Operator(Arc<dyn Store>);

impl Operator {
    /// Opens the database.
    ///
    /// # Errors
    /// As [`open`].
    pub(crate) async fn open(args: &DatabaseArgs) -> Outcome<Self> {
        open(&args.database, Role::Operator).await.map(Self)
    }

    /// Opens a database that is there: what is looked for can't be in a new one.
    ///
    /// # Errors
    /// As [`open`], and where an SQLite file is not there.
    pub(crate) async fn open_existing(args: &DatabaseArgs) -> Outcome<Self> {
        refuse_missing_file(&args.database)?;
        Self::open(args).await
    }
}

impl std::ops::Deref for Operator {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
