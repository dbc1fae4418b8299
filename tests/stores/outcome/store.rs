//! What is kept, under which key, and every error of reading it back.

use perilune::outcome::protect::{KeyRing, ProtectError};
use perilune::outcome::{
    Decision, FindOutcome, KeyRotation, OutcomeEngine, OutcomeQuery, OutcomeRecord, OutcomeStoreError, QueryError,
};
use perilune::outcome::{EmptyOutcome, Outcome};
use perilune_proto::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Counting, ReportGenerated, apply, caller, event, event_of, key, operation_id, operations, operations_with,
};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    an_outcome_comes_back_as_its_type,
    each_wrong_type_has_an_error_of_its_own,
    a_blob_in_another_row_or_altered_does_not_open,
    a_lost_key_is_an_error_and_the_blob_can_still_be_purged,
    keys_rotate_while_outcomes_are_read,
    nothing_on_disk_shows_the_payload,
}

async fn found<DB: TestEngine + OutcomeEngine>(query: &OutcomeQuery<DB>, n: u128) -> Result<OutcomeRecord, QueryError> {
    match query.find(operation_id(n), &caller(None)).await? {
        FindOutcome::Found(record) => Ok(record),
        FindOutcome::Unavailable => panic!("operation {n} is unavailable"),
    }
}

fn allowing<DB: OutcomeEngine>(operations: &perilune::outcome::Operations<DB>) -> OutcomeQuery<DB> {
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

fn protection(error: &QueryError) -> &ProtectError {
    match error {
        QueryError::Store(OutcomeStoreError::Protection(error)) => error,
        other => panic!("another error: {other}"),
    }
}

async fn a_blob_in_another_row_or_altered_does_not_open<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    for n in 1..=4 {
        apply(&site, &operations, &event(n, 1, Status::Succeeded)).await.expect("applied");
    }
    let other_tenant = event_of("acme", 5, 1, Status::Succeeded);
    apply(&site, &operations, &other_tenant).await.expect("applied");
    let id = operation_id;
    let moved = |from, to| {
        format!(
            "UPDATE {{p}}outcomes SET payload = (SELECT x.payload FROM (SELECT payload FROM {{p}}outcomes WHERE operation_id = '{from}') x) WHERE operation_id = '{to}'"
        )
    };
    site.run(&moved(id(1), id(2))).await;
    site.run(&moved(id(5), id(3))).await;
    site.run(&format!("UPDATE {{p}}outcomes SET schema_version = 1 WHERE operation_id = '{}'", id(4))).await;
    let query = allowing(&operations);
    for n in [2, 3, 4] {
        let error = found(&query, n).await.expect_err("moved");
        assert_eq!(*protection(&error), ProtectError::NotAuthentic, "{n}");
    }
    found(&query, 1).await.expect("the original opens");
    site.run(&format!("UPDATE {{p}}operations SET tenant = 'acme' WHERE operation_id = '{}'", id(1))).await;
    let error = query.find(id(1), &caller(Some("acme"))).await.expect_err("another tenant's blob");
    assert_eq!(*protection(&error), ProtectError::NotAuthentic);
    site.close().await;
}

async fn a_lost_key_is_an_error_and_the_blob_can_still_be_purged<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let first = operations(&site).await;
    apply(&site, &first, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let rotated = operations_with(&site, KeyRing::new(key(2))).await;
    let error = found(&allowing(&rotated), 1).await.expect_err("the key is lost");
    assert!(matches!(protection(&error), ProtectError::UnknownKey(_)));
    let purged = super::retention::purge_all(&rotated).await;
    assert_eq!(purged.outcomes_deleted, 1);
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

async fn nothing_on_disk_shows_the_payload<DB: TestEngine + OutcomeEngine>(site: Site<DB>) {
    let operations = operations(&site).await;
    apply(&site, &operations, &event(1, 1, Status::Succeeded)).await.expect("applied");
    let mut on = site.pool.acquire().await.expect("a connection");
    let length = DB::number(&mut on, &site.sql("SELECT LENGTH(payload) FROM {p}outcomes")).await.expect("read");
    // Header, nonce, the 12 bytes of `{"pages": 3}`, tag.
    assert_eq!(length, 5 + 24 + 12 + 16);
    drop(on);
    site.close().await;
}
