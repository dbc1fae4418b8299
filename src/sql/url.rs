//! Which engine and database a URL names.

use std::fmt;
use std::str::FromStr;

/// The engines that Perilune knows, compiled in or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineName {
    /// SQLite, embedded.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::MySql => "MySQL",
        })
    }
}

/// A database URL, parsed and bound to its engine. It may hold a password, so it never prints.
#[derive(Clone)]
#[non_exhaustive]
pub enum DatabaseUrl {
    /// `sqlite:path`, `sqlite:///absolute/path` or `sqlite::memory:`.
    #[cfg(feature = "sqlite")]
    Sqlite(Box<SqliteUrl>),
    /// `postgres://user:password@host:port/database`.
    #[cfg(feature = "postgres")]
    Postgres(Box<sqlx::postgres::PgConnectOptions>),
    /// `mysql://user:password@host:port/database`.
    #[cfg(feature = "mysql")]
    MySql(Box<sqlx::mysql::MySqlConnectOptions>),
}

/// A SQLite database: its options and what the URL says about access.
#[cfg(feature = "sqlite")]
#[derive(Clone)]
pub struct SqliteUrl {
    /// The driver's options, the file's name among them.
    pub options: sqlx::sqlite::SqliteConnectOptions,
    /// Whether it may be written and made.
    pub access: SqliteAccess,
    /// Where it lives.
    pub place: SqlitePlace,
}

/// Whether a SQLite database may be written and made.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteAccess {
    /// Written, and made where there is none: the default, and `mode=rwc`.
    Create,
    /// Written, and an error where there is none: `mode=rw`.
    Existing,
    /// Only read: `mode=ro` or `immutable=true`.
    ReadOnly,
}

/// Where a SQLite database lives.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlitePlace {
    /// In a file.
    File,
    /// In memory; it ends with its last connection.
    Memory,
}

/// A text is not a database URL that this build can use. No variant holds the text: it may have a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseUrlError {
    /// The scheme is none of ours, or there is none.
    #[error("a database URL must begin with sqlite:, postgres:// or mysql://")]
    UnknownScheme,
    /// The scheme is right and what follows is not.
    #[error("the rest of the {0} URL is malformed; expected {expected}", expected = expected(*.0))]
    Malformed(EngineName),
    /// A server URL that names no database.
    #[error("the {0} URL names no database; expected {expected}", expected = expected(*.0))]
    NoDatabase(EngineName),
    /// The engine exists and this build was made without it.
    #[error("this build has no {0} in it; build it with the feature `{feature}`", feature = feature(*.0))]
    NotCompiledIn(EngineName),
    /// The caller needs another engine than the URL names.
    #[error("the database is {found}, and {wanted} is needed here")]
    OtherEngine {
        /// What is needed.
        wanted: EngineName,
        /// What the URL names.
        found: EngineName,
    },
}

const fn expected(engine: EngineName) -> &'static str {
    match engine {
        EngineName::Sqlite => "sqlite:FILE or sqlite::memory:",
        EngineName::Postgres => "postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        EngineName::MySql => "mysql://USER:PASSWORD@HOST:PORT/DATABASE",
    }
}

const fn feature(engine: EngineName) -> &'static str {
    match engine {
        EngineName::Sqlite => "sqlite",
        EngineName::Postgres => "postgres",
        EngineName::MySql => "mysql",
    }
}

impl DatabaseUrl {
    /// The engine that the URL names.
    #[must_use]
    pub const fn engine(&self) -> EngineName {
        match *self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => EngineName::Sqlite,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => EngineName::Postgres,
            #[cfg(feature = "mysql")]
            Self::MySql(_) => EngineName::MySql,
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({} [redacted])", self.engine())
    }
}

fn scheme(text: &str) -> Option<EngineName> {
    match text.split_once(':')?.0 {
        "sqlite" => Some(EngineName::Sqlite),
        "postgres" | "postgresql" => Some(EngineName::Postgres),
        "mysql" | "mariadb" => Some(EngineName::MySql),
        _ => None,
    }
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(text: &str) -> Result<Self, DatabaseUrlError> {
        match scheme(text).ok_or(DatabaseUrlError::UnknownScheme)? {
            EngineName::Sqlite => sqlite(text),
            EngineName::Postgres => postgres(text),
            EngineName::MySql => mysql(text),
        }
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(text: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    let malformed = DatabaseUrlError::Malformed(EngineName::Sqlite);
    let rest = text.trim_start_matches("sqlite:").trim_start_matches("//");
    let (file, query) = rest.split_once('?').unwrap_or((rest, ""));
    if file.is_empty() {
        return Err(DatabaseUrlError::NoDatabase(EngineName::Sqlite));
    }
    let says = |pair| query.split('&').any(|found| found == pair);
    let access = if says("mode=ro") || says("immutable=true") || says("immutable=1") {
        SqliteAccess::ReadOnly
    } else if says("mode=rw") {
        SqliteAccess::Existing
    } else {
        SqliteAccess::Create
    };
    let place = if file == ":memory:" || says("mode=memory") { SqlitePlace::Memory } else { SqlitePlace::File };
    let options = text.parse().map_err(|_| malformed)?;
    Ok(DatabaseUrl::Sqlite(Box::new(SqliteUrl { options, access, place })))
}

#[cfg(feature = "postgres")]
fn postgres(text: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    let malformed = DatabaseUrlError::Malformed(EngineName::Postgres);
    if !text.contains("://") {
        return Err(malformed);
    }
    let options: sqlx::postgres::PgConnectOptions = text.parse().map_err(|_| malformed)?;
    if options.get_database().is_none_or(str::is_empty) {
        return Err(DatabaseUrlError::NoDatabase(EngineName::Postgres));
    }
    Ok(DatabaseUrl::Postgres(Box::new(options)))
}

#[cfg(feature = "mysql")]
fn mysql(text: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    let malformed = DatabaseUrlError::Malformed(EngineName::MySql);
    if !text.contains("://") {
        return Err(malformed);
    }
    let options: sqlx::mysql::MySqlConnectOptions = text.parse().map_err(|_| malformed)?;
    if options.get_database().is_none_or(str::is_empty) {
        return Err(DatabaseUrlError::NoDatabase(EngineName::MySql));
    }
    Ok(DatabaseUrl::MySql(Box::new(options)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    Err(DatabaseUrlError::NotCompiledIn(EngineName::Sqlite))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    Err(DatabaseUrlError::NotCompiledIn(EngineName::Postgres))
}

#[cfg(not(feature = "mysql"))]
fn mysql(_: &str) -> Result<DatabaseUrl, DatabaseUrlError> {
    Err(DatabaseUrlError::NotCompiledIn(EngineName::MySql))
}

#[cfg(all(test, feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<EngineName, DatabaseUrlError> {
        text.parse::<DatabaseUrl>().map(|url| url.engine())
    }

    #[test]
    fn the_scheme_names_the_engine() {
        for good in ["sqlite:a.db", "sqlite://a.db", "sqlite:///tmp/a.db", "sqlite::memory:", "sqlite:a.db?mode=ro"] {
            assert_eq!(parse(good), Ok(EngineName::Sqlite), "{good}");
        }
        for good in ["postgres://u@h/d", "postgresql://u:p@h:5432/d?sslmode=require"] {
            assert_eq!(parse(good), Ok(EngineName::Postgres), "{good}");
        }
        for good in ["mysql://u@h/d", "mariadb://u:p@h:3306/d"] {
            assert_eq!(parse(good), Ok(EngineName::MySql), "{good}");
        }
    }

    #[test]
    fn a_bad_url_gets_one_sentence_that_says_what_is_allowed() {
        for (bad, sentence) in [
            ("", "a database URL must begin with sqlite:, postgres:// or mysql://"),
            ("a.db", "a database URL must begin with sqlite:, postgres:// or mysql://"),
            ("oracle://h/d", "a database URL must begin with sqlite:, postgres:// or mysql://"),
            ("sqlite:", "the SQLite URL names no database; expected sqlite:FILE or sqlite::memory:"),
            (
                "postgres:d",
                "the rest of the PostgreSQL URL is malformed; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE",
            ),
            (
                "postgres://u:s3cret@h",
                "the PostgreSQL URL names no database; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE",
            ),
            (
                "mysql://u:s3cret@h:port/d",
                "the rest of the MySQL URL is malformed; expected mysql://USER:PASSWORD@HOST:PORT/DATABASE",
            ),
        ] {
            assert_eq!(parse(bad).expect_err(bad).to_string(), sentence, "{bad}");
        }
    }

    #[test]
    fn a_url_never_prints_its_password() {
        for text in ["postgres://u:s3cret@h/d", "mysql://u:s3cret@h/d"] {
            let url: DatabaseUrl = text.parse().expect("valid");
            assert!(!format!("{url:?}").contains("s3cret"), "{url:?}");
        }
    }
}
