//! The little that the outcome store asks of a database, so that everything above it is written once.
//!
//! `sqlx::Any` can't serve: it translates no placeholder and knows few types. The statements here use
//! text, 64-bit integers and bytes alone, which all three engines keep exactly.

use std::future::Future;

use crate::sql::SqlError;
use crate::sql::migrate::Migrate;

use super::dialect::Prepared;

/// A value bound to a placeholder.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Text(&'a str),
    MaybeText(Option<&'a str>),
    Integer(i64),
    MaybeInteger(Option<i64>),
    Bytes(&'a [u8]),
}

/// A database that outcomes are kept in: `sqlx::Sqlite`, `sqlx::Postgres` or `sqlx::MySql`.
///
/// Sealed by [`crate::sql::Engine`]. Its methods are not for users: raw readers would go around the query's
/// authoriser.
pub trait OutcomeEngine: Migrate {
    /// Behind a SELECT whose rows will be changed.
    #[doc(hidden)]
    const LOCK_ROWS: &'static str;
    /// Before and behind the body of an INSERT that leaves an existing row as it is.
    #[doc(hidden)]
    const INSERT_UNLESS_PRESENT: [&'static str; 2];

    /// Runs a statement; the number of rows that it changed.
    #[doc(hidden)]
    fn execute(
        on: &mut Self::Connection,
        statement: &Prepared,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, SqlError>> + Send;

    /// Runs a query; its rows.
    #[doc(hidden)]
    fn rows(
        on: &mut Self::Connection,
        statement: &Prepared,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, SqlError>> + Send;

    /// A column of text.
    #[doc(hidden)]
    fn text(row: &Self::Row, at: usize) -> Result<Option<String>, SqlError>;
    /// A column of 64-bit integers.
    #[doc(hidden)]
    fn integer(row: &Self::Row, at: usize) -> Result<Option<i64>, SqlError>;
    /// A column of bytes.
    #[doc(hidden)]
    fn bytes(row: &Self::Row, at: usize) -> Result<Option<Vec<u8>>, SqlError>;
}

macro_rules! engine {
    ($database:ty, $text:ty, $lock_rows:literal, $insert:expr) => {
        impl OutcomeEngine for $database {
            const LOCK_ROWS: &'static str = $lock_rows;
            const INSERT_UNLESS_PRESENT: [&'static str; 2] = $insert;

            async fn execute(
                on: &mut Self::Connection,
                statement: &Prepared,
                values: &[Value<'_>],
            ) -> Result<u64, SqlError> {
                let mut query = sqlx::query::<Self>(statement.sql());
                for value in values {
                    query = match *value {
                        Value::Text(text) => query.bind(text),
                        Value::MaybeText(text) => query.bind(text),
                        Value::Integer(integer) => query.bind(integer),
                        Value::MaybeInteger(integer) => query.bind(integer),
                        Value::Bytes(bytes) => query.bind(bytes),
                    };
                }
                Ok(query.persistent(statement.is_kept()).execute(on).await?.rows_affected())
            }

            async fn rows(
                on: &mut Self::Connection,
                statement: &Prepared,
                values: &[Value<'_>],
            ) -> Result<Vec<Self::Row>, SqlError> {
                let mut query = sqlx::query::<Self>(statement.sql());
                for value in values {
                    query = match *value {
                        Value::Text(text) => query.bind(text),
                        Value::MaybeText(text) => query.bind(text),
                        Value::Integer(integer) => query.bind(integer),
                        Value::MaybeInteger(integer) => query.bind(integer),
                        Value::Bytes(bytes) => query.bind(bytes),
                    };
                }
                Ok(query.persistent(statement.is_kept()).fetch_all(on).await?)
            }

            fn text(row: &Self::Row, at: usize) -> Result<Option<String>, SqlError> {
                let text: Option<$text> = sqlx::Row::try_get(row, at)?;
                text.map(|text| String::from_utf8(text.into()))
                    .transpose()
                    .map_err(|error| SqlError::from(sqlx::Error::Decode(error.into())))
            }

            fn integer(row: &Self::Row, at: usize) -> Result<Option<i64>, SqlError> {
                Ok(sqlx::Row::try_get(row, at)?)
            }

            fn bytes(row: &Self::Row, at: usize) -> Result<Option<Vec<u8>>, SqlError> {
                Ok(sqlx::Row::try_get(row, at)?)
            }
        }
    };
}

// SQLite's write transactions have the whole database, so no row needs a lock of its own.
#[cfg(feature = "sqlite")]
engine!(sqlx::Sqlite, String, "", ["INSERT INTO", "ON CONFLICT DO NOTHING"]);
#[cfg(feature = "postgres")]
engine!(sqlx::Postgres, String, "FOR UPDATE", ["INSERT INTO", "ON CONFLICT DO NOTHING"]);
// Text is VARBINARY there, since it must compare byte for byte on MySQL and MariaDB alike, and no collation of both
// does. IGNORE would swallow truncation too, so every text is checked against its column before it is bound.
#[cfg(feature = "mysql")]
engine!(sqlx::MySql, Vec<u8>, "FOR UPDATE", ["INSERT IGNORE INTO", ""]);
