//! A full disk: SQLite ends the transaction by itself, and the one writer goes on all the same.

use perilune::outcome::protect::{Key, KeyId, KeyRing};
use perilune::outcome::retention::{RetentionError, TenantScope};
use perilune::outcome::{Operations, OutcomeStoreError};
use perilune::sql::{Engine as _, SqlErrorKind};
use perilune_proto::Status;
use sqlx::Sqlite;

use super::retention::{hold, later, order, policy};
use super::{apply, event, key, operations, operations_with};
use crate::engines::{Site, TestEngine as _, exercise};

/// More than is left on a full disk.
const FILL: &str = "INSERT INTO {p}effect (tag) VALUES (hex(zeroblob(400000)))";

/// A site where an event's operation has ended, and a statement that fills the disk runs with each of ours.
async fn filled_by(site: &Site<Sqlite>, what: &str) -> Operations<Sqlite> {
    let operations = operations(site).await;
    apply(site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    site.run(&format!("CREATE TRIGGER {{p}}fill AFTER {what} BEGIN {FILL}; END")).await;
    operations
}

async fn full(site: &Site<Sqlite>) {
    let pages = site.number("SELECT page_count FROM pragma_page_count").await;
    site.run(&format!("PRAGMA max_page_count = {pages}")).await;
}

async fn freed(site: &Site<Sqlite>) {
    site.run("PRAGMA max_page_count = 4294967294").await;
}

fn is_full(error: &RetentionError) -> bool {
    matches!(error, RetentionError::Storage(error) if error.kind() == SqlErrorKind::DiskFull)
}

#[test]
fn a_full_disk_fails_a_rotation_and_nothing_after_it_on_sqlite() {
    exercise::<Sqlite, _>(|site| async move {
        filled_by(&site, "UPDATE ON {p}outcomes").await;
        let keys = KeyRing::new(Key::new(KeyId(2), [2; 32])).with_retired(key(1));
        let operations = operations_with(&site, keys).await;
        full(&site).await;
        let error = operations.rotate_keys(10).await.expect_err("full");
        assert!(matches!(&error, OutcomeStoreError::Storage(error) if error.kind() == SqlErrorKind::DiskFull));
        freed(&site).await;
        assert_eq!(operations.rotate_keys(10).await.expect("rotated").rewritten, 1);
    });
}

#[test]
fn a_full_disk_fails_a_purge_and_nothing_after_it_on_sqlite() {
    exercise::<Sqlite, _>(|site| async move {
        let operations = filled_by(&site, "INSERT ON {p}retention_audit").await;
        full(&site).await;
        assert!(is_full(&operations.purge(&policy(), &order()).await.expect_err("full")));
        assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 1, "nothing was purged without its audit");
        freed(&site).await;
        assert_eq!(operations.purge(&policy(), &order()).await.expect("purged").outcomes_deleted, 1);
    });
}

#[test]
fn a_full_disk_fails_a_hold_and_its_release_and_nothing_after_them_on_sqlite() {
    exercise::<Sqlite, _>(|site| async move {
        let operations = filled_by(&site, "INSERT ON {p}operation_holds").await;
        full(&site).await;
        assert!(is_full(&operations.place_hold(&TenantScope::Every, &hold(1)).await.expect_err("full")));
        freed(&site).await;
        let held = operations.place_hold(&TenantScope::Every, &hold(1)).await.expect("placed");
        site.run(&format!("CREATE TRIGGER {{p}}more AFTER UPDATE ON {{p}}operation_holds BEGIN {FILL}; END")).await;
        full(&site).await;
        let release = || operations.release_hold(&TenantScope::Every, held, "counsel", later());
        assert!(is_full(&release().await.expect_err("full")));
        freed(&site).await;
        release().await.expect("released");
    });
}

/// As an application's own that accepts an operation.
#[test]
fn a_full_disk_fails_a_user_s_transaction_and_nothing_after_it_on_sqlite() {
    exercise::<Sqlite, _>(|site| async move {
        for commits in [true, false] {
            full(&site).await;
            let mut transaction = site.pool.begin_with(Sqlite::BEGIN_WRITE).await.expect("begun");
            Sqlite::run(&mut transaction, &site.sql(FILL)).await.expect_err("full");
            if commits {
                transaction.commit().await.expect_err("there is nothing to commit");
            } else {
                drop(transaction);
            }
            freed(&site).await;
            let transaction = site.pool.begin_with(Sqlite::BEGIN_WRITE).await.expect("the writer goes on");
            transaction.rollback().await.expect("rolled back");
        }
    });
}
