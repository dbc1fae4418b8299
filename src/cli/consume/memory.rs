//! `--inbox`: which events were handled before, in a database of the user's.
//!
//! Looked up before the sink, recorded after it. The sink's own effects are outside that database, so a crash
//! between the two hands the event to the sink again.

use perilune_actors::{EventContext, Receipt};
use perilune_proto::ResultEvent;
use perilune_proto::scalar::Name;

use super::sink::SinkError;
use crate::cli::exit::{Failure, Outcome};
use crate::inbox::{Applied, ApplyError, ApplyErrorKind, Inbox, InboxOptions, Scope, Store};
use crate::sql::DatabaseUrl;

/// The events of one consumer that were handled. Cloning shares it.
#[derive(Debug, Clone)]
pub(crate) enum Memory {
    #[cfg(feature = "sqlite")]
    Sqlite(Inbox<sqlx::Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(Inbox<sqlx::Postgres>),
    #[cfg(feature = "mysql")]
    MySql(Inbox<sqlx::MySql>),
}

/// Runs an expression on the inbox, whatever its engine.
macro_rules! on_inbox {
    ($memory:expr, $inbox:ident => $run:expr) => {
        match $memory {
            #[cfg(feature = "sqlite")]
            Memory::Sqlite($inbox) => $run,
            #[cfg(feature = "postgres")]
            Memory::Postgres($inbox) => $run,
            #[cfg(feature = "mysql")]
            Memory::MySql($inbox) => $run,
        }
    };
}

/// Undoes a look: nothing was handled yet.
#[derive(Debug, thiserror::Error)]
#[error("only a look")]
struct OnlyALook;

impl Memory {
    /// Opens the database and brings the inbox's tables to this version.
    ///
    /// # Errors
    /// Where the database can't be used.
    pub(crate) async fn open(database: &DatabaseUrl, consumer: &Name) -> Outcome<Self> {
        let opened = match database {
            #[cfg(feature = "sqlite")]
            DatabaseUrl::Sqlite(_) => open(database, consumer).await.map(Self::Sqlite),
            #[cfg(feature = "postgres")]
            DatabaseUrl::Postgres(_) => open(database, consumer).await.map(Self::Postgres),
            #[cfg(feature = "mysql")]
            DatabaseUrl::MySql(_) => open(database, consumer).await.map(Self::MySql),
        };
        opened.map_err(|error| Failure::Failed(error.context("--inbox can't be used")))
    }

    /// Whether the event was handled before.
    ///
    /// # Errors
    /// Where the inbox can't be asked, or has another event under this id.
    pub(crate) async fn knows(&self, event: &ResultEvent, context: &EventContext) -> Result<bool, SinkError> {
        let scope = Scope::lease(context.lease_left());
        let looked = on_inbox!(self, inbox => look(inbox, scope, event).await);
        match looked {
            Ok(Applied::Duplicate) => Ok(true),
            Ok(Applied::Fresh(())) => Ok(false),
            Err(error) if error.kind() == ApplyErrorKind::Handler => Ok(false),
            Err(error) => Err(SinkError::Memory(error.to_string())),
        }
    }

    /// Notes that events were acknowledged, so that their rows may be pruned one day.
    pub(crate) async fn settle(self, receipts: Vec<Receipt>) {
        on_inbox!(&self, inbox => inbox.on_settled()(receipts).await);
    }

    /// Records that the event was handled.
    ///
    /// # Errors
    /// Where that is not on disk. The event then comes again, to the sink too.
    pub(crate) async fn remember(&self, event: &ResultEvent, context: &EventContext) -> Result<(), SinkError> {
        let scope = Scope::lease(context.lease_left());
        let recorded = on_inbox!(self, inbox => record(inbox, scope, event).await);
        recorded.map(drop).map_err(|error| SinkError::Memory(error.to_string()))
    }
}

async fn open<DB: Store>(database: &DatabaseUrl, consumer: &Name) -> anyhow::Result<Inbox<DB>> {
    Ok(InboxOptions::new(consumer.as_str()).open(database).await?)
}

async fn look<DB: Store>(inbox: &Inbox<DB>, scope: Scope, event: &ResultEvent) -> Result<Applied<()>, ApplyError> {
    inbox.apply_once_within(scope, event, |_| async { Err(OnlyALook) }).await
}

async fn record<DB: Store>(inbox: &Inbox<DB>, scope: Scope, event: &ResultEvent) -> Result<Applied<()>, ApplyError> {
    inbox.apply_once_within(scope, event, |_| async { Ok::<_, OnlyALook>(()) }).await
}
