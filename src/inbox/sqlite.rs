//! The inbox on SQLite.
//!
//! The write lock is taken at BEGIN, so a twin waits there and never at the insert.

use sqlx::{Sqlite, Transaction};

use super::fingerprint::{Key, Stored};
use super::store::{Inserted, Statements, Store, StoredRow, Text, shared_statements};
use crate::sql::Engine;

/// The empty transaction behind the commit is for sqlx, which counts one as open.
const FINISH: &str = "COMMIT; BEGIN";

const TEXT: Text = Text {
    insert: "INSERT INTO {prefix}inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
        VALUES (?, ?, ?, ?, ?, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
        ON CONFLICT (consumer_name, event_id) DO NOTHING",
    find: "SELECT event_type, task_id, task_version FROM {prefix}inbox WHERE consumer_name = ? AND event_id = ?",
    settle: "UPDATE {prefix}inbox SET settled_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER)
        WHERE consumer_name = ? AND event_id IN ({ids}) AND settled_at IS NULL",
    prune: "DELETE FROM {prefix}inbox WHERE (consumer_name, event_id) IN (
            SELECT consumer_name, event_id FROM {prefix}inbox
            WHERE consumer_name = ? AND settled_at IS NOT NULL
                AND settled_at < CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ?
            ORDER BY settled_at LIMIT ?)",
    make_turn: "INSERT INTO {prefix}inbox_pruner (consumer_name, holder, held_until) VALUES (?, '', 0)
        ON CONFLICT (consumer_name) DO NOTHING",
    take_turn: "UPDATE {prefix}inbox_pruner
        SET holder = ?, held_until = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?
        WHERE consumer_name = ?
            AND (holder = ? OR held_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER))",
    end_turn: "UPDATE {prefix}inbox_pruner SET held_until = 0 WHERE consumer_name = ? AND holder = ?",
    page: "SELECT event_id, event_type, task_id, task_version, received_at, settled_at FROM {prefix}inbox
        WHERE consumer_name = ? AND event_id > ? ORDER BY event_id LIMIT ?",
    rows: "SELECT event_id, event_type, task_id, task_version, received_at, settled_at FROM {prefix}inbox
        WHERE consumer_name = ? AND event_id IN ({ids})",
    count: "SELECT COUNT(*), COUNT(settled_at),
            COUNT(CASE WHEN settled_at < CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ? THEN 1 END)
        FROM {prefix}inbox WHERE consumer_name = ?",
    placeholder: |_| "?".to_owned(),
};

impl Store for Sqlite {
    const BEGIN: &'static str = <Self as Engine>::BEGIN_WRITE;
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
            .await?;
        Ok(if result.rows_affected() == 1 { Inserted::Fresh } else { Inserted::Present })
    }

    async fn finish(mut tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        let committed = sqlx::raw_sql(FINISH).execute(&mut *tx).await.map(drop);
        let rolled_back = Self::roll_back(tx).await;
        if rolled_back.is_err() {
            tracing::debug!("a finished transaction's connection could not be reset");
        }
        committed
    }

    async fn roll_back(mut tx: Transaction<'static, Self>) -> Result<(), sqlx::Error> {
        // SQLite ends a transaction by itself after a full disk or an I/O error. sqlx goes on counting it as open, its
        // rollback fails, and the connection would refuse every later one. Where there is no transaction this begins
        // one; where there is, it fails and changes nothing.
        let _only_where_there_was_none = sqlx::raw_sql("BEGIN").execute(&mut *tx).await;
        tx.rollback().await
    }

    shared_statements!();
}
