//! The inbox: consumer.md section 8, one function per guarantee.

mod cancel;
mod faults;
mod handler;
mod keep;
mod once;
mod own_servers;
mod schema;
mod twins;
mod unknown;
mod within;

use std::sync::Arc;

use perilune::inbox::{Applied, ApplyError, Inbox, OpenTransaction};
use perilune_proto::ResultEvent;

use crate::engines::{Site, TestEngine};

/// Applies an event with the business statement that counts effects under `tag`.
async fn apply<DB: TestEngine>(
    site: &Site<DB>,
    inbox: &Inbox<DB>,
    event: &ResultEvent,
    tag: &str,
) -> Result<Applied<()>, ApplyError> {
    apply_sql(inbox, event, &site.effect(tag)).await
}

/// Applies an event with any business statements.
async fn apply_sql<DB: TestEngine>(
    inbox: &Inbox<DB>,
    event: &ResultEvent,
    sql: &str,
) -> Result<Applied<()>, ApplyError> {
    let sql: Arc<str> = sql.into();
    inbox
        .apply_once(event, move |mut tx: OpenTransaction<DB>| {
            let sql = Arc::clone(&sql);
            async move { DB::run(&mut tx, &sql).await.map(drop) }
        })
        .await
}
