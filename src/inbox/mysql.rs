//! The inbox on MySQL and MariaDB.
//!
//! A twin waits at the insert. `INSERT IGNORE` would swallow truncation too, and `ON DUPLICATE KEY UPDATE` can't
//! be told from a new row, so it is a plain insert whose 1062 sends us to look at the row. When a holder rolls
//! back, all but one of its waiters end in a deadlock (1213): the caller runs the transaction again.

use std::time::Duration;

use sqlx::{ConnectOptions as _, MySql, Pool, Transaction};

use super::fingerprint::{Key, Stored};
use super::store::{Inserted, Statements, Store, StoredRow, Text, prune_from_the_start, shared_statements};
use crate::sql::SqlErrorKind;
use crate::sql::error::classify;

/// Fails where the savepoint of [`Store::BEGIN`] is gone: the engine ended the transaction (a deadlock that the caller
/// swallowed, a statement that commits implicitly) and each statement since has committed by itself.
const FINISH: &str = "RELEASE SAVEPOINT perilune_inbox; COMMIT";

/// How long to wait before another try at the connection that [`discard`] needs.
const DISCARD_RETRY: Duration = Duration::from_secs(1);

const TEXT: Text = Text {
    insert: "INSERT INTO {prefix}inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
        VALUES (?, ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))",
    find: "SELECT event_type, task_id, task_version FROM {prefix}inbox WHERE consumer_name = ? AND event_id = ?
        LOCK IN SHARE MODE",
    settle: "UPDATE {prefix}inbox SET settled_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
        WHERE consumer_name = ? AND event_id IN ({ids}) AND settled_at IS NULL",
    prune: "DELETE FROM {prefix}inbox
        WHERE consumer_name = ? AND settled_at IS NOT NULL
            AND settled_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - ?
        ORDER BY settled_at LIMIT ?",
    make_turn: "INSERT INTO {prefix}inbox_pruner (consumer_name, holder, held_until) VALUES (?, '', 0)
        ON DUPLICATE KEY UPDATE holder = holder",
    take_turn: "UPDATE {prefix}inbox_pruner
        SET holder = ?, held_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ?
        WHERE consumer_name = ?
            AND (holder = ? OR held_until < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))",
    end_turn: "UPDATE {prefix}inbox_pruner SET held_until = 0 WHERE consumer_name = ? AND holder = ?",
    page: "SELECT event_id, event_type, task_id, task_version, received_at, settled_at FROM {prefix}inbox
        WHERE consumer_name = ? AND event_id > ? ORDER BY event_id LIMIT ?",
    rows: "SELECT event_id, event_type, task_id, task_version, received_at, settled_at FROM {prefix}inbox
        WHERE consumer_name = ? AND event_id IN ({ids})",
    count: "SELECT COUNT(*), COUNT(settled_at),
            COUNT(CASE WHEN settled_at < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - ? THEN 1 END)
        FROM {prefix}inbox WHERE consumer_name = ?",
    placeholder: |_| "?".to_owned(),
};

/// Makes the pool throw the transaction's connection away.
///
/// sqlx-mysql loses its place in the stream when a statement is dropped while it is prepared or while half a packet is
/// read: the next caller of that connection would read the rest as its own answer. There is no way to the pool's slot
/// through a transaction but to its connection, so another one takes its place there and is then killed. The pool
/// finds it dead and opens a new one when it needs it. Closing the old one rolls back.
async fn discard(pool: Pool<MySql>, mut tx: Transaction<'static, MySql>) {
    while !pool.is_closed() {
        if let Ok(stand_in) = pool.connect_options().connect().await {
            drop(std::mem::replace(&mut *tx, stand_in));
            // Its answer is that it was killed.
            let _killed = sqlx::raw_sql("KILL CONNECTION_ID()").execute(&mut *tx).await;
            return;
        }
        // Never given back as it is. A closed pool gives nothing out any more.
        tokio::time::sleep(DISCARD_RETRY).await;
    }
}

impl Store for MySql {
    const BEGIN: &'static str =
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; SAVEPOINT perilune_inbox";
    const TEXT: Text = TEXT;

    async fn insert(
        on: &mut Self::Connection,
        sql: &Statements,
        consumer: &str,
        key: &Key,
    ) -> Result<Inserted, sqlx::Error> {
        let result = sqlx::query(sql.insert.sql())
            .bind(consumer)
            .bind(&key.event_id)
            .bind(&key.print.event_type)
            .bind(&key.print.task_id)
            .bind(key.print.task_version)
            .execute(on)
            .await;
        match result {
            Ok(_) => Ok(Inserted::Fresh),
            Err(error) if classify(&error) == SqlErrorKind::UniqueViolation => Ok(Inserted::Refused(error)),
            Err(error) => Err(error),
        }
    }

    async fn finish(mut tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(FINISH).execute(&mut *tx).await?;
        // sqlx still counts the transaction as open. Dropping it queues a ROLLBACK of nothing, which goes out with the
        // pool's own check of the connection, not on the caller's time.
        drop(tx);
        Ok(())
    }

    async fn roll_back_interrupted(pool: &Pool<Self>, tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        tokio::spawn(discard(pool.clone(), tx));
        Ok(())
    }

    shared_statements!();
    prune_from_the_start!();
}
