//! The outbox: effects outside the database, written in the same transaction and sent later.
//!
//! A handler that posts to a webhook inside its transaction may post and then roll back, or commit and never post.
//! Instead it *writes* the message into the outbox, in the transaction of its business statements and its inbox row:
//! all or none. A [`Relay`] actor sends what was committed, *at least once*, each message under its own idempotency key,
//! in order per key.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # async fn apply(event: &perilune::proto::ResultEvent) -> Result<(), Box<dyn std::error::Error>> {
//! use perilune::inbox::Inbox;
//! use perilune::outbox::{Message, Outbox};
//!
//! let inbox = Inbox::<sqlx::Sqlite>::connect("sqlite:shop.db", "billing").await?;
//! let outbox = Outbox::<sqlx::Sqlite>::new();
//! outbox.migrate(inbox.pool()).await?;
//!
//! let (outbox, task) = (outbox.clone(), event.task_id().to_string());
//! inbox
//!     .apply_once(event, move |mut tx| {
//!         let (outbox, task) = (outbox.clone(), task.clone());
//!         async move {
//!             let message = Message::new("report.ready", format!("{{\"task\":\"{task}\"}}"))?.in_order_of(&task)?;
//!             outbox.write(&mut tx, &message).await?;
//!             Ok::<_, perilune::inbox::BoxError>(())
//!         }
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! **Order.** Messages of one order key are sent one after the other, in the order in which their transactions
//! committed. Writing one takes a lock on its key until the commit, so that order is the order of writing as well. A
//! message that waits for its next attempt holds back the later ones of its key, and nothing else. One that is given up
//! becomes a *dead letter* and lets the next go. Messages without a key have no order.
//!
//! **Several relays**, in one process or many, share the work: a claim takes rows that nobody else has, and lapses when
//! its relay dies. Only then is a message sent a second time.
//!
//! Source: consumer.md section 8.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(unused, reason = "without an engine there is nothing to adapt")
)]

use std::marker::PhantomData;

use perilune_proto::scalar::MessageId;
use sqlx::{Database, Pool};

use crate::sql::migrate::{migrate, validate};
use crate::sql::writer::NoRuntime;
use crate::sql::{Component, MigrateError, Migration, SqlError, TablePrefix};

mod dead;
mod http;
mod message;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod relay;
mod sender;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

pub use dead::{DeadLetter, PAGE_MAX};
#[cfg(feature = "outcome")]
pub(crate) use http::judge_answer;
pub use http::{HttpSender, HttpSenderError};
pub use message::{BODY_BYTES_MAX, Message, MessageError, OrderKey, Outgoing};
pub use relay::{Relay, RelayConfigError, RelayHandle, RelayOptions};
pub use sender::{Remedy, SendFailure, Sender};
pub use store::OutboxStore;

use store::{Lane, NewRow, Statements};

/// The outbox's tables.
pub const COMPONENT: Component = Component {
    name: "outbox",
    migrations: &[Migration {
        version: 1,
        name: "the outbox",
        sqlite: include_str!("migrations/sqlite/0001_outbox.sql"),
        postgres: include_str!("migrations/postgres/0001_outbox.sql"),
        mysql: include_str!("migrations/mysql/0001_outbox.sql"),
    }],
};

/// The outbox of one database. Cloning shares it.
///
/// It holds no connection: writing happens in transactions of the caller's, sending in a [`Relay`].
#[derive(Debug)]
pub struct Outbox<DB: OutboxStore> {
    prefix: TablePrefix,
    sql: Statements,
    engine: PhantomData<fn() -> DB>,
}

impl<DB: OutboxStore> Clone for Outbox<DB> {
    fn clone(&self) -> Self {
        Self { prefix: self.prefix.clone(), sql: self.sql.clone(), engine: PhantomData }
    }
}

impl<DB: OutboxStore> Default for Outbox<DB> {
    fn default() -> Self {
        Self::new()
    }
}

/// The outbox could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The database refused or was unavailable.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// There is no tokio runtime on this thread to run transactions on.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
}

impl<DB: OutboxStore> Outbox<DB> {
    /// The outbox with tables named `perilune_…`.
    #[must_use]
    pub fn new() -> Self {
        Self::with_prefix(&TablePrefix::default())
    }

    /// The outbox with another prefix of its tables' names.
    #[must_use]
    pub fn with_prefix(prefix: &TablePrefix) -> Self {
        Self { prefix: prefix.clone(), sql: Statements::new::<DB>(prefix), engine: PhantomData }
    }

    /// Brings the outbox's tables to this program's version. Safe at every start and from several programs at once.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn migrate(&self, pool: &Pool<DB>) -> Result<(), MigrateError> {
        migrate(pool, &self.prefix, &COMPONENT).await.map(drop)
    }

    /// Checks that the outbox's tables are at this program's version.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn validate(&self, pool: &Pool<DB>) -> Result<(), MigrateError> {
        validate(pool, &self.prefix, &COMPONENT).await
    }

    /// Writes a message into the caller's open transaction; it is sent after that commits, and never if it does not.
    ///
    /// With an order key it waits for other open transactions that have written under that key. A transaction that
    /// writes under several keys should do so in one order everywhere; otherwise the engine ends a deadlock with an
    /// error ([`Inbox::apply_once`](crate::inbox::Inbox::apply_once) then runs the transaction again). Keyed messages
    /// need READ COMMITTED, which the inbox sets; above it, one may be held back for up to a minute.
    ///
    /// # Errors
    /// The driver's, as any other statement in a transaction: a unique violation for an id that was written before.
    pub async fn write(
        &self,
        tx: &mut <DB as Database>::Connection,
        message: &Message,
    ) -> Result<MessageId, sqlx::Error> {
        let key = message.order_key.as_ref().map(OrderKey::as_str);
        if let Some(key) = key {
            DB::lock_lane(tx, &self.sql, Lane::of(&self.prefix, key)).await?;
        }
        let row = NewRow {
            message_id: &message.id.to_string(),
            topic: message.topic.as_str(),
            order_key: key,
            content_type: &message.content_type,
            body: &message.body,
        };
        DB::insert(tx, &self.sql, row).await?;
        Ok(message.id)
    }

    /// Makes the next message of a key ready, where none is. Holds the key's lane.
    async fn promote_head(&self, on: &mut <DB as Database>::Connection, key: &str) -> Result<(), sqlx::Error> {
        DB::promote(on, &self.sql, key).await
    }
}
