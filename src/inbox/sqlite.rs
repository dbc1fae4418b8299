//! The inbox on SQLite.
//!
//! The write lock is taken at BEGIN, so a twin waits there and never at the insert. Where SQLite gave
//! the transaction up (disk full, I/O error), COMMIT fails by itself.

use sqlx::Sqlite;

use super::fingerprint::{Key, Stored};
use super::store::{Inserted, Statements, Store, StoredRow, Text, prune_from_the_start, shared_statements};
use crate::sql::Engine;

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

    shared_statements!();
    prune_from_the_start!();
}
