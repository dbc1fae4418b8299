//! A migrator's run on each engine: lock, read what was applied, apply the rest, record it.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::time::Duration;

use super::{Applied, Migrate, MigrateError, Plan, Recorded};

/// How long a migrator waits for another one. SQLite's busy timeout is the pool's.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const LOCK_WAIT: Duration = Duration::from_secs(60);

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {prefix}migrations (
    component VARCHAR(64) NOT NULL,
    version BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (component, version)
)";

/// A lock's number: the same for every migrator of the same tables.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn lock_number(plan: &Plan) -> i64 {
    super::checksum(plan.prefix.as_str())
}

/// The parts of a run that differ between the drivers in their types alone.
macro_rules! steps {
    ($list:literal, $insert:literal) => {
        async fn read<'e>(
            on: impl sqlx::Executor<'e, Database = Db>,
            plan: &Plan,
        ) -> Result<Vec<Recorded>, sqlx::Error> {
            let rows: Vec<(i64, i64)> =
                sqlx::query_as(plan.prefix.render($list).sql()).bind(plan.component).fetch_all(on).await?;
            let row = |(version, checksum)| Recorded { version: u32::try_from(version).unwrap_or(u32::MAX), checksum };
            Ok(rows.into_iter().map(row).collect())
        }

        async fn apply(on: &mut <Db as sqlx::Database>::Connection, plan: &Plan) -> Result<Vec<Applied>, MigrateError> {
            let failed = |error| plan.failed(error);
            sqlx::query(plan.prefix.render(CREATE).sql()).execute(&mut *on).await.map_err(failed)?;
            let recorded = read(&mut *on, plan).await.map_err(failed)?;
            let mut applied = Vec::new();
            for step in plan.pending(&recorded)? {
                for statement in &step.statements {
                    sqlx::query(statement.sql()).persistent(false).execute(&mut *on).await.map_err(failed)?;
                }
                sqlx::query(plan.prefix.render($insert).sql())
                    .bind(plan.component)
                    .bind(i64::from(step.version))
                    .bind(step.name)
                    .bind(step.checksum)
                    .execute(&mut *on)
                    .await
                    .map_err(failed)?;
                applied.push(Applied { component: plan.component, version: step.version, name: step.name });
            }
            Ok(applied)
        }

        /// What is recorded, where a missing table means nothing.
        async fn recorded(pool: &sqlx::Pool<Db>, plan: &Plan) -> Result<Vec<Recorded>, MigrateError> {
            match read(pool, plan).await {
                Ok(rows) => Ok(rows),
                Err(error) if crate::sql::error::classify(&error) == crate::sql::SqlErrorKind::MissingSchema => {
                    Ok(Vec::new())
                }
                Err(error) => Err(plan.failed(error)),
            }
        }
    };
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use crate::sql::engine::Engine as _;

    type Db = sqlx::Sqlite;

    steps!(
        "SELECT version, checksum FROM {prefix}migrations WHERE component = ? ORDER BY version",
        "INSERT INTO {prefix}migrations (component, version, name, checksum) VALUES (?, ?, ?, ?)"
    );

    impl Migrate for Db {
        async fn apply_pending(pool: &sqlx::Pool<Self>, plan: &Plan) -> Result<Vec<Applied>, MigrateError> {
            let mut tx = pool.begin_with(Self::BEGIN_WRITE).await.map_err(|error| plan.failed(error))?;
            let applied = apply(&mut tx, plan).await?;
            tx.commit().await.map_err(|error| plan.failed(error))?;
            Ok(applied)
        }

        async fn recorded(pool: &sqlx::Pool<Self>, plan: &Plan) -> Result<Vec<Recorded>, MigrateError> {
            recorded(pool, plan).await
        }
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::sql::engine::Engine as _;

    type Db = sqlx::Postgres;

    steps!(
        "SELECT version, checksum FROM {prefix}migrations WHERE component = $1 ORDER BY version",
        "INSERT INTO {prefix}migrations (component, version, name, checksum) VALUES ($1, $2, $3, $4)"
    );

    impl Migrate for Db {
        async fn apply_pending(pool: &sqlx::Pool<Self>, plan: &Plan) -> Result<Vec<Applied>, MigrateError> {
            let failed = |error| plan.failed(error);
            let mut tx = pool.begin_with(Self::BEGIN_WRITE).await.map_err(failed)?;
            // The pool's limits are for events; an index on a large table may take its time.
            let limits = format!("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {}", LOCK_WAIT.as_millis());
            sqlx::raw_sql(sqlx::AssertSqlSafe(limits)).execute(&mut *tx).await.map_err(failed)?;
            let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(lock_number(plan)).execute(&mut *tx).await;
            if let Err(error) = lock {
                let busy = crate::sql::error::classify(&error) == crate::sql::SqlErrorKind::LockTimeout;
                return Err(if busy { MigrateError::Busy { component: plan.component } } else { plan.failed(error) });
            }
            let applied = apply(&mut tx, plan).await?;
            tx.commit().await.map_err(failed)?;
            Ok(applied)
        }

        async fn recorded(pool: &sqlx::Pool<Self>, plan: &Plan) -> Result<Vec<Recorded>, MigrateError> {
            recorded(pool, plan).await
        }
    }
}

#[cfg(feature = "mysql")]
mod mysql {
    use super::*;
    type Db = sqlx::MySql;

    steps!(
        "SELECT version, checksum FROM {prefix}migrations WHERE component = ? ORDER BY version",
        "INSERT INTO {prefix}migrations (component, version, name, checksum) VALUES (?, ?, ?, ?)"
    );

    impl Migrate for Db {
        async fn apply_pending(pool: &sqlx::Pool<Self>, plan: &Plan) -> Result<Vec<Applied>, MigrateError> {
            let failed = |error| plan.failed(error);
            // A connection of its own that is closed afterwards: the lock ends with it, however the run ends.
            let mut connection = pool.acquire().await.map_err(failed)?.detach();
            sqlx::raw_sql("SET SESSION lock_wait_timeout = 60 /*M!100101 , max_statement_time = 0 */")
                .execute(&mut connection)
                .await
                .map_err(failed)?;
            let name = format!("perilune.migrate.{:016x}", lock_number(plan));
            let (locked,): (Option<i64>,) = sqlx::query_as("SELECT GET_LOCK(?, ?)")
                .bind(&name)
                .bind(LOCK_WAIT.as_secs())
                .fetch_one(&mut connection)
                .await
                .map_err(failed)?;
            if locked != Some(1) {
                return Err(MigrateError::Busy { component: plan.component });
            }
            let applied = apply(&mut connection, plan).await?;
            sqlx::Connection::close(connection).await.map_err(failed)?;
            Ok(applied)
        }

        async fn recorded(pool: &sqlx::Pool<Self>, plan: &Plan) -> Result<Vec<Recorded>, MigrateError> {
            recorded(pool, plan).await
        }
    }
}
