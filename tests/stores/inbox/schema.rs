//! Migrations: embedded, versioned, under a prefix, by several programs at once.

use std::time::Duration;

use futures_util::future::join_all;
use perilune::inbox::{COMPONENT, Inbox};
use perilune::sql::migrate::{migrate, validate};
use perilune::sql::{Component, MigrateError, Migration, PoolSettings};

use super::apply;
use crate::engines::{Site, TestEngine, on_every_engine};
use crate::events::event;

on_every_engine! {
    migrating_again_changes_nothing,
    migrators_at_once_migrate_once,
    a_schema_that_is_behind_is_named,
    two_prefixes_are_two_inboxes,
    a_run_that_broke_off_is_run_again,
    a_migration_that_nobody_waits_for_leaves_clean_connections,
}

async fn migrating_again_changes_nothing<DB: TestEngine>(site: Site<DB>) {
    assert_eq!(migrate(&site.pool, &site.prefix, &COMPONENT).await.expect("migrated"), []);
    validate(&site.pool, &site.prefix, &COMPONENT).await.expect("up to date");
    site.close().await;
}

async fn migrators_at_once_migrate_once<DB: TestEngine>(site: Site<DB>) {
    for table in ["inbox", "inbox_pruner", "migrations"] {
        site.run(&format!("DROP TABLE {{p}}{table}")).await;
    }
    let pools = join_all((0..4).map(|_| site.another_pool(site.settings))).await;
    let runs = join_all(pools.iter().map(|pool| migrate(pool, &site.prefix, &COMPONENT))).await;
    let applied: usize = runs.into_iter().map(|run| run.expect("migrated").len()).sum();
    assert_eq!(applied, COMPONENT.migrations.len());
    site.close().await;
}

const TOY: [Migration; 2] = [
    Migration { version: 1, name: "one", sqlite: CREATE, postgres: CREATE, mysql: CREATE },
    Migration { version: 2, name: "two", sqlite: BOTH, postgres: BOTH, mysql: BOTH },
];
const CREATE: &str = "CREATE TABLE IF NOT EXISTS {prefix}toy (n BIGINT);\n";
const BOTH: &str = "CREATE TABLE IF NOT EXISTS {prefix}toy_two (n BIGINT);\nINSERT INTO {prefix}gone VALUES (1);\n";
const OLD: Component = Component { name: "toy", migrations: TOY.split_at(1).0 };
const NEW: Component = Component { name: "toy", migrations: &TOY };

async fn a_schema_that_is_behind_is_named<DB: TestEngine>(site: Site<DB>) {
    let behind = validate(&site.pool, &site.prefix, &OLD).await.expect_err("nothing there");
    assert!(matches!(behind, MigrateError::Pending { found: 0, needed: 1, .. }), "{behind}");
    migrate(&site.pool, &site.prefix, &OLD).await.expect("migrated");
    let behind = validate(&site.pool, &site.prefix, &NEW).await.expect_err("one behind");
    assert!(matches!(behind, MigrateError::Pending { found: 1, needed: 2, .. }), "{behind}");
    site.close().await;
}

/// The second statement fails. Where DDL is transactional nothing of the migration is left; on MySQL its table is, and
/// the next run, with the cause mended, passes over it.
async fn a_run_that_broke_off_is_run_again<DB: TestEngine>(site: Site<DB>) {
    let broken = migrate(&site.pool, &site.prefix, &NEW).await.expect_err("a table is missing");
    assert!(matches!(broken, MigrateError::Database { .. }), "{broken}");
    site.run("CREATE TABLE {p}gone (n BIGINT)").await;
    let applied = migrate(&site.pool, &site.prefix, &NEW).await.expect("migrated");
    assert_eq!(applied.last().expect("one applied").version, 2);
    validate(&site.pool, &site.prefix, &NEW).await.expect("up to date");
    site.run("DROP TABLE {p}gone").await;
    site.close().await;
}

async fn two_prefixes_are_two_inboxes<DB: TestEngine>(site: Site<DB>) {
    let other = format!("{}b_", site.prefix).parse().expect("a prefix");
    let elsewhere = Inbox::with_prefix(site.pool.clone(), "billing", &other).expect("a name");
    elsewhere.validate().await.expect_err("not migrated");
    elsewhere.migrate().await.expect("migrated");
    apply(&site, &site.inbox("billing"), &event(1), "x").await.expect("applied");
    apply(&site, &elsewhere, &event(1), "x").await.expect("applied");
    assert_eq!(site.effects("x").await, 2);
    for table in ["inbox", "inbox_pruner", "migrations"] {
        site.run(&format!("DROP TABLE {other}{table}")).await;
    }
    site.close().await;
}

/// Dropped at random moments, on a pool so small that its connections are taken up again at once.
async fn a_migration_that_nobody_waits_for_leaves_clean_connections<DB: TestEngine>(site: Site<DB>) {
    let pool = site.another_pool(PoolSettings { max_connections: 2, ..site.settings }).await;
    let small = Site::<DB>::on(pool.clone(), &site);
    for round in 0..60 {
        let limit = Duration::from_micros(rand::random_range(1..2_000));
        let _dropped = tokio::time::timeout(limit, migrate(&pool, &site.prefix, &COMPONENT)).await;
        assert!(!small.is_poisoned().await, "round {round}");
    }
    assert_eq!(migrate(&pool, &site.prefix, &COMPONENT).await.expect("migrated"), []);
    site.close().await;
}
