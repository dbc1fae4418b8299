//! The chain of audit records: whatever is missing, changed or put in is found.

use perilune::outcome::retention::{AuditVerification, TenantScope};
use perilune::outcome::{Operations, OutcomeEngine};
use perilune_proto::Status;

use super::retention::purge_all;
use super::{apply, event, event_of, operation_id, operations};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    every_change_of_the_audit_is_found,
    the_audit_is_read_page_by_page,
}

async fn verified<DB: OutcomeEngine>(operations: &Operations<DB>) -> AuditVerification {
    operations.verify_audit().await.expect("verified")
}

/// Statements that change the chain of eight records, and the first record that is wrong then.
const CHANGES: [(&str, u64); 15] = [
    ("UPDATE {p}retention_audit SET actor = 'somebody' WHERE sequence = 5", 5),
    ("UPDATE {p}retention_audit SET policy_ref = 'policy-2' WHERE sequence = 1", 1),
    ("UPDATE {p}retention_audit SET target = 'nothing' WHERE sequence = 2", 2),
    ("UPDATE {p}retention_audit SET operation_id = 'x' WHERE sequence = 4", 4),
    ("UPDATE {p}retention_audit SET operation_type = 'Other' WHERE sequence = 8", 8),
    ("UPDATE {p}retention_audit SET tenant = '' WHERE sequence = 3", 3),
    ("UPDATE {p}retention_audit SET rows_deleted = 2 WHERE sequence = 6", 6),
    ("UPDATE {p}retention_audit SET purged_at = purged_at + 1 WHERE sequence = 7", 7),
    ("UPDATE {p}retention_audit SET hash = 'f' WHERE sequence = 3", 3),
    ("UPDATE {p}retention_audit SET sequence = 9 WHERE sequence = 8", 8),
    ("DELETE FROM {p}retention_audit WHERE sequence = 3", 3),
    ("DELETE FROM {p}retention_audit WHERE sequence >= 7", 7),
    ("DELETE FROM {p}retention_audit", 1),
    ("UPDATE {p}retention_head SET hash = 'f'", 8),
    ("DELETE FROM {p}retention_head", 9),
];

async fn every_change_of_the_audit_is_found<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    assert_eq!(verified(&operations).await, AuditVerification::Intact { records: 0 });
    for n in 1..=4 {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    purge_all(&operations).await;
    assert_eq!(verified(&operations).await, AuditVerification::Intact { records: 8 });
    site.run("CREATE TABLE {p}effect_audit AS SELECT * FROM {p}retention_audit").await;
    site.run("CREATE TABLE {p}effect_head AS SELECT * FROM {p}retention_head").await;
    let put_in = "INSERT INTO {p}retention_audit SELECT 9, operation_id, operation_type, tenant, target, rows_deleted, policy_ref, \
         actor, purged_at, hash FROM {p}effect_audit WHERE sequence = 8";
    let before_the_first = put_in.replace("SELECT 9,", "SELECT -1,");
    let more = [(put_in, 9), (&*before_the_first, 9)];
    for (change, sequence) in CHANGES.into_iter().chain(more) {
        site.run(change).await;
        assert_eq!(verified(&operations).await, AuditVerification::Broken { sequence }, "{change}");
        for table in ["audit", "head"] {
            site.run(&format!("DELETE FROM {{p}}retention_{table}")).await;
            site.run(&format!("INSERT INTO {{p}}retention_{table} SELECT * FROM {{p}}effect_{table}")).await;
        }
        assert_eq!(verified(&operations).await, AuditVerification::Intact { records: 8 });
    }
    for table in ["audit", "head"] {
        site.run(&format!("DROP TABLE {{p}}effect_{table}")).await;
    }
    site.close().await;
}

async fn the_audit_is_read_page_by_page<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    for n in 1..=1_010 {
        let event = if n == 505 { event_of("acme", n, 1, Status::Failed) } else { event(n, 1, Status::Failed) };
        operations.apply(&mut transaction, &event).await.expect("applied");
    }
    transaction.commit().await.expect("committed");
    purge_all(&operations).await;
    let every = TenantScope::Every;
    let first = operations.audit_records(&every, 0).await.expect("read");
    assert_eq!((first.records.len(), first.next), (1_000, Some(1_000)));
    let last = operations.audit_records(&every, 1_000).await.expect("read");
    assert_eq!((last.records.len(), last.next), (10, None));
    let own = operations.audit_records(&TenantScope::Only(Some("acme".to_owned())), 0).await.expect("read");
    assert_eq!(own.next, Some(1_000), "pages are the same for every tenant");
    let [record] = &own.records[..] else { panic!("one record: {:?}", own.records) };
    assert_eq!((record.operation_id, record.sequence, record.rows_deleted), (operation_id(505), 505, 1));
    assert_eq!((&*record.policy_ref, &*record.actor, record.tenant.as_deref()), ("policy-1", "ops", Some("acme")));
    site.close().await;
}
