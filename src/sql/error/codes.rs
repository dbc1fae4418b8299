//! The engines' own codes and what they mean.

use std::borrow::Cow;

use sqlx::error::DatabaseError;

use super::{EngineName, SqlErrorKind};

type Classified = (SqlErrorKind, Option<Box<str>>);

pub(super) fn origin(driver: &sqlx::Error) -> Option<EngineName> {
    let error: &dyn DatabaseError = driver.as_database_error()?;
    #[cfg(feature = "sqlite")]
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        return Some(EngineName::Sqlite);
    }
    #[cfg(feature = "postgres")]
    if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
        return Some(EngineName::Postgres);
    }
    #[cfg(feature = "mysql")]
    if error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().is_some() {
        return Some(EngineName::MySql);
    }
    let _ = error;
    None
}

/// The engine's code: a SQLSTATE on PostgreSQL, an error number on MySQL, an extended result code on SQLite.
pub(super) fn code(driver: &sqlx::Error) -> Option<Cow<'_, str>> {
    let error = driver.as_database_error()?;
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return Some(error.number().to_string().into());
    }
    error.code()
}

pub(super) fn classify(driver: &sqlx::Error) -> Classified {
    use sqlx::Error as E;
    match driver {
        E::Database(error) => {
            let code = code(driver).unwrap_or_default();
            match origin(driver) {
                Some(EngineName::Sqlite) => sqlite(&code, error.message()),
                Some(EngineName::Postgres) => postgres(&code, error.constraint()),
                Some(EngineName::MySql) => mysql(&code, error.message()),
                None => (SqlErrorKind::Other, None),
            }
        }
        // `Protocol` is what the drivers say when the peer vanished in the middle of a packet; `BeginFailed` and the
        // like never reach a commit.
        E::Io(_) | E::Tls(_) | E::Protocol(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed => {
            (SqlErrorKind::Unavailable, None)
        }
        E::Configuration(_) => (SqlErrorKind::Access, None),
        _ => (SqlErrorKind::Other, None),
    }
}

/// Codes that an engine reports at a commit without saying whether it took place.
pub(super) fn is_ambiguous_at_commit(driver: &sqlx::Error) -> bool {
    let Some(code) = code(driver) else { return false };
    match origin(driver) {
        // SQLITE_IOERR: the log may or may not have reached the disk.
        Some(EngineName::Sqlite) => code.parse::<i32>().is_ok_and(|code| code & 0xff == 10),
        // ER_ERROR_DURING_COMMIT, ER_QUERY_INTERRUPTED.
        Some(EngineName::MySql) => matches!(&*code, "1180" | "1317"),
        // transaction_resolution_unknown, statement_completion_unknown; a cancelled wait for a synchronous replica.
        Some(EngineName::Postgres) => matches!(&*code, "08007" | "40003" | "57014"),
        None => false,
    }
}

/// Codes that say at a commit that there is no transaction any more.
pub(super) fn is_gone_at_commit(driver: &sqlx::Error) -> bool {
    let Some(code) = code(driver) else { return false };
    match origin(driver) {
        // "cannot commit - no transaction is active" has no code of its own.
        Some(EngineName::Sqlite) => code == "1",
        // Our savepoint does not exist.
        Some(EngineName::MySql) => code == "1305",
        // Aborted, or ended.
        Some(EngineName::Postgres) => matches!(&*code, "25P02" | "25P01"),
        None => false,
    }
}

fn sqlite(code: &str, message: &str) -> Classified {
    let Ok(code) = code.parse::<i32>() else { return (SqlErrorKind::Other, None) };
    let kind = match (code, code & 0xff) {
        // SQLITE_CONSTRAINT_PRIMARYKEY, _UNIQUE, _ROWID.
        (1555 | 2067 | 2579, _) => {
            // SQLite has one language. The list of columns is all it has for a key's name.
            let key = message.split_once("failed: ").map(|(_, columns)| columns.into());
            return (SqlErrorKind::UniqueViolation, key);
        }
        (_, 19) => SqlErrorKind::ConstraintViolation,
        // SQLITE_BUSY and SQLITE_LOCKED, with their extended codes.
        (_, 5 | 6) => SqlErrorKind::LockTimeout,
        (_, 8) => SqlErrorKind::ReadOnly,
        (_, 13) => SqlErrorKind::DiskFull,
        (_, 9) => SqlErrorKind::StatementTimeout,
        // SQLITE_CANTOPEN, SQLITE_IOERR.
        (_, 10 | 14) => SqlErrorKind::Unavailable,
        (_, 11 | 26) => SqlErrorKind::Corrupt,
        (_, 3 | 23) => SqlErrorKind::Access,
        // SQLITE_ERROR is one code for everything that is wrong with a statement, a missing table too.
        (1, _) if message.starts_with("no such table") || message.starts_with("no such column") => {
            SqlErrorKind::MissingSchema
        }
        _ => SqlErrorKind::Other,
    };
    (kind, None)
}

fn postgres(code: &str, constraint: Option<&str>) -> Classified {
    let kind = match code {
        "23505" => return (SqlErrorKind::UniqueViolation, constraint.map(Into::into)),
        "40P01" => SqlErrorKind::Deadlock,
        "55P03" => SqlErrorKind::LockTimeout,
        "40001" => SqlErrorKind::Serialization,
        "57014" | "25P04" => SqlErrorKind::StatementTimeout,
        "25P02" => SqlErrorKind::TransactionAborted,
        "25P03" => SqlErrorKind::IdleTimeout,
        "25006" => SqlErrorKind::ReadOnly,
        "53100" => SqlErrorKind::DiskFull,
        "42P01" | "42703" | "3F000" => SqlErrorKind::MissingSchema,
        "3D000" | "42501" => SqlErrorKind::Access,
        "53300" | "53400" | "57P01" | "57P02" | "57P03" | "57P05" => SqlErrorKind::Unavailable,
        "XX001" | "XX002" => SqlErrorKind::Corrupt,
        _ if code.starts_with("23") => SqlErrorKind::ConstraintViolation,
        _ if code.starts_with("08") => SqlErrorKind::Unavailable,
        _ if code.starts_with("28") => SqlErrorKind::Access,
        _ => SqlErrorKind::Other,
    };
    (kind, None)
}

fn mysql(code: &str, message: &str) -> Classified {
    let Ok(number) = code.parse::<u16>() else { return (SqlErrorKind::Other, None) };
    let kind = match number {
        1022 | 1062 | 1169 | 1586 => {
            // The key stands in the last quotes in nearly every language; it is for the caller's information only.
            let key = message.rsplit('\'').nth(1).map(Into::into);
            return (SqlErrorKind::UniqueViolation, key);
        }
        1048 | 1216 | 1217 | 1364 | 1451 | 1452 | 3819 | 4025 => SqlErrorKind::ConstraintViolation,
        1213 | 1614 => SqlErrorKind::Deadlock,
        1205 | 3572 => SqlErrorKind::LockTimeout,
        // ER_CHECKREAD: MariaDB's snapshot isolation refuses a row that changed since it was read.
        1020 => SqlErrorKind::Serialization,
        1317 | 1969 | 3024 => SqlErrorKind::StatementTimeout,
        1290 | 1792 | 1836 => SqlErrorKind::ReadOnly,
        // EE_WRITE, ER_DISK_FULL, ER_ERROR_ON_WRITE, ER_RECORD_FILE_FULL.
        3 | 1021 | 1026 | 1114 => SqlErrorKind::DiskFull,
        1054 | 1146 => SqlErrorKind::MissingSchema,
        1044 | 1045 | 1049 | 1142 | 1227 | 1698 => SqlErrorKind::Access,
        1040 | 1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1203 | 1226 | 1927 | 4031 => SqlErrorKind::Unavailable,
        _ => SqlErrorKind::Other,
    };
    (kind, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_the_engines_have_their_classes() {
        use SqlErrorKind::*;
        for (code, kind) in [
            ("2067", UniqueViolation),
            ("1555", UniqueViolation),
            ("787", ConstraintViolation),
            ("5", LockTimeout),
            ("517", LockTimeout),
            ("13", DiskFull),
            ("1032", ReadOnly),
            ("26", Corrupt),
        ] {
            assert_eq!(sqlite(code, "").0, kind, "SQLite {code}");
        }
        for (code, kind) in [
            ("23505", UniqueViolation),
            ("23503", ConstraintViolation),
            ("40P01", Deadlock),
            ("55P03", LockTimeout),
            ("40001", Serialization),
            ("57014", StatementTimeout),
            ("25006", ReadOnly),
            ("53100", DiskFull),
            ("08006", Unavailable),
            ("57P01", Unavailable),
            ("42P01", MissingSchema),
        ] {
            assert_eq!(postgres(code, None).0, kind, "PostgreSQL {code}");
        }
        for (code, kind) in [
            ("1062", UniqueViolation),
            ("1452", ConstraintViolation),
            ("1213", Deadlock),
            ("1205", LockTimeout),
            ("1969", StatementTimeout),
            ("1792", ReadOnly),
            ("1021", DiskFull),
            ("1053", Unavailable),
            ("1146", MissingSchema),
        ] {
            assert_eq!(mysql(code, "").0, kind, "MySQL {code}");
        }
    }

    #[test]
    fn the_violated_key_is_named_in_any_language() {
        let named = |(_, key): Classified| key.expect("a key");
        assert_eq!(&*named(sqlite("2067", "UNIQUE constraint failed: shop.sku, shop.day")), "shop.sku, shop.day");
        assert_eq!(&*named(postgres("23505", Some("shop_sku_key"))), "shop_sku_key");
        assert_eq!(&*named(mysql("1062", "Duplicate entry 'a' for key 'sku'")), "sku");
        assert_eq!(&*named(mysql("1062", "Doppelter Eintrag 'a' für Schlüssel 'shop.sku'")), "shop.sku");
    }

    #[test]
    fn a_lost_connection_is_unknown_only_at_the_commit() {
        let lost = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(super::super::SqlError::from(lost()).kind(), SqlErrorKind::Unavailable);
        assert_eq!(super::super::SqlError::at_commit(lost()).kind(), SqlErrorKind::UnknownCommit);
    }
}
