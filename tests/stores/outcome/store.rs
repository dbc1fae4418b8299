//! What is kept, under which key, and every error of reading it back.

use perilune::outcome::protect::{Key, KeyId, KeyProvider, KeyRing, ProtectError};
use perilune::outcome::{
    Decision, EmptyOutcome, EphemeralOutcome, FindOutcome, KeyRotation, Operations, Origin, Outcome, OutcomeEngine,
    OutcomeQuery, OutcomeRecord, OutcomeStoreError, QueryError,
};
use perilune_proto::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CloseAccount, Counting, GenerateReport, ReportGenerated, apply, caller, event, key, operation_id, operations,
    operations_with,
};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    an_outcome_comes_back_as_its_type,
    each_wrong_type_has_an_error_of_its_own,
    the_first_outcome_wins,
    only_a_completed_operation_takes_an_outcome_and_only_one_of_its_type,
    keys_that_fail_write_nothing,
    keys_rotate_while_outcomes_are_read,
}

async fn found<DB: TestEngine + OutcomeEngine>(query: &OutcomeQuery<DB>, n: u128) -> Result<OutcomeRecord, QueryError> {
    match query.find(operation_id(n), &caller(None)).await? {
        FindOutcome::Found(record) => Ok(record),
        FindOutcome::Unavailable => panic!("operation {n} is unavailable"),
    }
}

fn allowing<DB: OutcomeEngine>(operations: &Operations<DB>) -> OutcomeQuery<DB> {
    OutcomeQuery::new(operations).with_authoriser(Counting::new(Some(Decision::Allow)))
}

async fn an_outcome_comes_back_as_its_type<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let record = found(&allowing(&operations), 1).await.expect("found");
    assert_eq!(record.outcome::<ReportGenerated>().expect("typed"), ReportGenerated { pages: 3 });
    assert_eq!((record.operation_type(), record.outcome_type()), ("GenerateReport", "ReportGenerated"));
    assert!(!format!("{record:?}").contains("pages"), "payload shows");
    site.close().await;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Older {}

impl Outcome for Older {
    const TYPE: &'static str = "ReportGenerated";
    const SCHEMA_VERSION: u32 = 1;
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Other {
    sheets: u32,
}

impl Outcome for Other {
    const TYPE: &'static str = "ReportGenerated";
    const SCHEMA_VERSION: u32 = 2;
}

async fn each_wrong_type_has_an_error_of_its_own<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let record = found(&allowing(&operations), 1).await.expect("found");
    let mismatch = record.outcome::<EmptyOutcome>().expect_err("another type");
    assert!(matches!(mismatch, OutcomeStoreError::TypeMismatch { .. }));
    let newer = record.outcome::<Older>().expect_err("a newer schema");
    assert!(matches!(newer, OutcomeStoreError::UnsupportedSchemaVersion { found: 2, known: 1 }));
    let corrupted = record.outcome::<Other>().expect_err("other fields");
    assert!(matches!(corrupted, OutcomeStoreError::CorruptedPayload));
    site.close().await;
}

async fn keys_rotate_while_outcomes_are_read<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let first = operations(&site).await;
    for n in 1..=7 {
        apply(&site, &first, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    let dead = super::with_error(event(8, 1, Status::DeadLettered), "gone");
    apply(&site, &first, &dead).await.expect("applied");
    let both = operations_with(&site, KeyRing::new(key(2)).with_retired(key(1))).await;
    let read_meanwhile = async {
        for _ in 0..20 {
            found(&allowing(&both), 1).await.expect("readable between batches");
        }
    };
    let (done, ()) = tokio::join!(both.rotate_keys(3), read_meanwhile);
    assert_eq!(done.expect("rotated"), KeyRotation { rewritten: 8, unreadable: 0 });
    assert_eq!(both.rotate_keys(3).await.expect("nothing left"), KeyRotation::default());
    site.run("UPDATE {p}outcomes SET key_id = 1, payload = SUBSTR(payload, 1, 20)").await;
    assert_eq!(both.rotate_keys(3).await.expect("gone past"), KeyRotation { rewritten: 0, unreadable: 7 });
    site.run("DELETE FROM {p}outcomes").await;
    for n in 11..=17 {
        apply(&site, &both, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    let new_alone = operations_with(&site, KeyRing::new(key(2))).await;
    for n in 11..=17 {
        found(&allowing(&new_alone), n).await.expect("the old key is no longer needed");
    }
    site.close().await;
}

/// Saves an outcome in a transaction of its own.
async fn save<DB: TestEngine + OutcomeEngine, O: Outcome>(
    site: &Site<DB>,
    operations: &Operations<DB>,
    n: u128,
    outcome: &O,
) -> Result<(), OutcomeStoreError> {
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let saved = operations.save_outcome(&mut transaction, operation_id(n), outcome).await;
    match saved {
        Ok(()) => transaction.commit().await.expect("committed"),
        Err(_) => transaction.rollback().await.expect("rolled back"),
    }
    saved
}

async fn the_first_outcome_wins<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let pages = |pages| ReportGenerated { pages };
    let second = save(&site, &operations, 1, &pages(4)).await;
    assert!(matches!(second, Err(OutcomeStoreError::Duplicate(id)) if id == operation_id(1)), "{second:?}");
    let query = allowing(&operations);
    let kept = |record: OutcomeRecord| record.outcome::<ReportGenerated>().expect("typed");
    assert_eq!(kept(found(&query, 1).await.expect("found")), pages(3));
    // Where it was lost, it can be put back, once.
    site.run("DELETE FROM {p}outcomes").await;
    save(&site, &operations, 1, &pages(5)).await.expect("saved");
    assert_eq!(kept(found(&query, 1).await.expect("found")), pages(5));
    assert!(matches!(save(&site, &operations, 1, &pages(6)).await, Err(OutcomeStoreError::Duplicate(_))));
    // Nothing that was purged comes back.
    super::retention::purge_all(&operations).await;
    assert!(matches!(save(&site, &operations, 1, &pages(7)).await, Err(OutcomeStoreError::Duplicate(_))));
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}outcomes").await, 0);
    site.close().await;
}

async fn only_a_completed_operation_takes_an_outcome_and_only_one_of_its_type<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine,
{
    let operations = operations(&site).await;
    for (n, status) in (1..).zip(Status::ALL) {
        apply(&site, &operations, &event(n, 1, status)).await.expect("applied");
        site.run("DELETE FROM {p}outcomes").await;
        let saved = save(&site, &operations, n, &ReportGenerated { pages: 1 }).await;
        let as_it_should = match status {
            Status::Succeeded => saved.is_ok(),
            Status::Rejected | Status::Failed | Status::DeadLettered => {
                matches!(saved, Err(OutcomeStoreError::NotAnOutcome(_)))
            }
            _ => matches!(saved, Err(OutcomeStoreError::NotCompleted(_))),
        };
        assert!(as_it_should, "{status}: {saved:?}");
    }
    let unknown = save(&site, &operations, 90, &EmptyOutcome {}).await;
    assert!(matches!(unknown, Err(OutcomeStoreError::NotCompleted(_))), "{unknown:?}");
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let on = &mut *transaction;
    operations.record_inline::<CloseAccount>(on, operation_id(91), Origin::default()).await.expect("recorded");
    let shown = EphemeralOutcome::new(());
    operations
        .record_ephemeral(on, operation_id(92), "CloseAccount", Origin::default(), shown)
        .await
        .expect("recorded");
    transaction.commit().await.expect("committed");
    for n in [91, 92] {
        let saved = save(&site, &operations, n, &EmptyOutcome {}).await;
        assert!(matches!(saved, Err(OutcomeStoreError::NotAnOutcome(_))), "{saved:?}");
    }
    apply(&site, &operations, &event(93, 1, Status::Succeeded)).await.expect("applied");
    let other = save(&site, &operations, 93, &EmptyOutcome {}).await;
    assert!(matches!(&other, Err(OutcomeStoreError::TypeMismatch { found, asked })
        if found == "ReportGenerated" && asked == "Empty"));
    site.run("DROP TABLE {p}outcomes").await;
    let failed = save(&site, &operations, 93, &ReportGenerated { pages: 1 }).await;
    assert!(matches!(failed, Err(OutcomeStoreError::Storage(_))), "{failed:?}");
    site.close().await;
}

/// A provider that can't be reached.
struct NoKeys;

impl KeyProvider for NoKeys {
    fn active_key(&self) -> Result<Key, ProtectError> {
        Err(ProtectError::KeyProvider)
    }

    fn key(&self, _: KeyId) -> Result<Option<Key>, ProtectError> {
        Err(ProtectError::KeyProvider)
    }
}

async fn keys_that_fail_write_nothing<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let with_keys = operations(&site).await;
    apply(&site, &with_keys, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let operations = Operations::builder(site.pool.clone(), NoKeys)
        .table_prefix(site.prefix.clone())
        .operation::<GenerateReport>()
        .build();
    let protection =
        |error: &OutcomeStoreError| matches!(error, OutcomeStoreError::Protection(ProtectError::KeyProvider));
    for status in [Status::Succeeded, Status::DeadLettered] {
        let event = super::with_error(event(2, 1, status), "x");
        assert!(protection(&apply(&site, &operations, &event).await.expect_err("no key")), "{status}");
    }
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let refused = operations.accept::<GenerateReport>(&mut transaction, &String::new(), Origin::default()).await;
    transaction.rollback().await.expect("rolled back");
    assert!(protection(&refused.expect_err("no key")));
    assert!(protection(&operations.rotate_keys(10).await.expect_err("no key")));
    let error = found(&allowing(&operations), 1).await.expect_err("no key");
    assert!(matches!(error, QueryError::Store(error) if protection(&error)));
    for (table, rows) in [("operations", 1), ("operation_journal", 1), ("operation_inputs", 0), ("outcomes", 1)] {
        assert_eq!(site.number(&format!("SELECT COUNT(*) FROM {{p}}{table}")).await, rows, "{table}");
    }
    site.close().await;
}
