//! The explorer on servers, where each statement and commit is cut on the wire.
//!
//! They run where `PERILUNE_TEST_POSTGRES_URL` and `PERILUNE_TEST_MYSQL_URL` name a database, as those of
//! `tests/stores` do.

use std::sync::Arc;

use perilune::consumer::{EventContext, EventHandler, HandlerResult};
use perilune::inbox::Inbox;
use perilune::proto::ResultEvent;
use perilune::sql::{Engine, PoolSettings, TablePrefix};
use perilune::testkit::{CrashPoints, Harm};
use sqlx::{AssertSqlSafe, Pool};

use crate::run::in_system;

fn named(variable: &str) -> Option<String> {
    if let Ok(url) = std::env::var(variable) {
        return Some(url);
    }
    assert!(std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_none(), "{variable} is not set");
    println!("skipped: {variable} is not set; `.ci/databases cargo test --all-features --test testkit` runs it");
    None
}

macro_rules! on_server {
    ($module:ident, $Db:ty, $variable:literal, $number:literal, $begins:literal) => {
        mod $module {
            use super::*;

            /// Tables of one test.
            struct Books {
                url: String,
                prefix: TablePrefix,
                pool: Pool<$Db>,
            }

            impl Books {
                async fn open() -> Option<Self> {
                    let url = named($variable)?;
                    let prefix: TablePrefix = format!("kit{:08x}_", rand::random::<u32>()).parse().expect("a prefix");
                    let parsed = url.parse().expect("a URL");
                    let pool = <$Db>::open(&parsed, &PoolSettings::default()).await.expect("a server");
                    let books = Self { url, prefix, pool };
                    books.run("CREATE TABLE {p}invoice (task_id VARCHAR(32) NOT NULL)").await;
                    Some(books)
                }

                async fn run(&self, sql: &str) {
                    let sql = AssertSqlSafe(sql.replace("{p}", self.prefix.as_str()));
                    sqlx::query(sql).execute(&self.pool).await.expect("a statement");
                }

                fn points(&self) -> CrashPoints {
                    CrashPoints::of(&self.url, "billing").table_prefix(self.prefix.clone())
                }

                fn insert(&self) -> impl Fn(&ResultEvent) -> AssertSqlSafe<String> + Clone + Send + Sync + use<> {
                    let table = format!("{}invoice", self.prefix);
                    move |event| AssertSqlSafe(format!("INSERT INTO {table} VALUES ('{}')", event.task_id()))
                }

                fn effects(&self) -> impl AsyncFn(Pool<$Db>, Arc<ResultEvent>) -> Result<i64, sqlx::Error> + use<> {
                    let table = format!("{}invoice", self.prefix);
                    async move |pool, event| {
                        let task = event.task_id();
                        let count =
                            format!("SELECT CAST(COUNT(*) AS {}) FROM {table} WHERE task_id = '{task}'", $number);
                        sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&pool).await
                    }
                }

                async fn close(self) {
                    for table in ["invoice", "inbox", "inbox_pruner", "migrations"] {
                        self.run(&format!("DROP TABLE IF EXISTS {{p}}{table}")).await;
                    }
                    self.pool.close().await;
                }
            }

            #[test]
            fn a_right_handler_has_one_effect_whatever_happens_and_wherever() {
                in_system(|| async {
                    let Some(books) = Books::open().await else { return };
                    let insert = books.insert();
                    let process = |inbox: Inbox<$Db>| {
                        let insert = insert.clone();
                        inbox.handler(move |event, mut tx| {
                            let insert = insert(&event);
                            async move { sqlx::query(insert).execute(&mut **tx).await.map(drop) }
                        })
                    };
                    let report = books.points().explore(process, books.effects()).await.expect("explored");
                    report.one_effect().expect("exactly once");
                    for harm in [Harm::Crash, Harm::Cut] {
                        let points = report.points().iter().filter(|point| point.harm == harm);
                        let places: Vec<_> = points.map(|point| point.place.as_str()).collect();
                        for what in [$begins, "_inbox (", "_invoice VALUES", "COMMIT"] {
                            for when in ["before `", "after `"] {
                                let there = places.iter().any(|it| it.starts_with(when) && it.contains(what));
                                assert!(there, "{when}…{what} is missing in {places:#?}");
                            }
                        }
                    }
                    books.close().await;
                });
            }

            /// Commits its effect before its inbox row.
            struct WritesOutside<F> {
                inbox: Inbox<$Db>,
                insert: F,
            }

            impl<F: Fn(&ResultEvent) -> AssertSqlSafe<String> + 'static> EventHandler for WritesOutside<F> {
                async fn handle(&self, event: Arc<ResultEvent>, _context: EventContext) -> HandlerResult {
                    sqlx::query((self.insert)(&event)).execute(self.inbox.pool()).await?;
                    self.inbox.apply_once(&event, async |_| Ok::<_, sqlx::Error>(())).await?;
                    Ok(())
                }
            }

            #[test]
            fn a_handler_that_writes_outside_the_transaction_is_found() {
                in_system(|| async {
                    let Some(books) = Books::open().await else { return };
                    let insert = books.insert();
                    let process = |inbox| WritesOutside { inbox, insert: insert.clone() };
                    let report = books.points().explore(process, books.effects()).await.expect("explored");
                    let failed = report.one_effect().expect_err("two effects somewhere");
                    let mut twice = failed.points().iter().filter(|point| point.effects == 2);
                    let begins = |place: &str| place.starts_with("before `") && place.contains($begins);
                    let crashed = twice.clone().any(|point| point.harm == Harm::Crash && begins(&point.place));
                    assert!(crashed, "{failed}");
                    // A lost BEGIN is begun again; a lost inbox row is not.
                    assert!(twice.any(|point| point.harm == Harm::Cut && point.place.contains("_inbox (")), "{failed}");
                    books.close().await;
                });
            }
        }
    };
}

on_server!(postgres, sqlx::Postgres, "PERILUNE_TEST_POSTGRES_URL", "BIGINT", "BEGIN");
on_server!(mysql, sqlx::MySql, "PERILUNE_TEST_MYSQL_URL", "SIGNED", "START TRANSACTION");
