//! Blobs that are not where, or not what, they were: each an error of its own, no plaintext, still purgeable.

use perilune::outcome::protect::{KeyId, KeyRing, ProtectError};
use perilune::outcome::{Decision, KeyRotation, OutcomeEngine, OutcomeQuery, OutcomeStoreError, QueryError};
use perilune_proto::Status;

use super::status::{ask, resource};
use super::{Counting, apply, caller, event, event_of, key, operation_id, operations_with, with_error};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! { a_blob_that_is_not_in_its_place_or_not_whole_has_its_own_error_and_is_purged }

/// A statement that damages the outcome of operation 1, and what a read says then.
struct Damage {
    name: &'static str,
    statement: String,
    says: ProtectError,
}

/// Puts a blob of another place into the outcome of operation 1.
fn moved(name: &'static str, column: &str, table: &str, from: u128) -> Damage {
    let statement = format!(
        "UPDATE {{p}}outcomes SET payload = (SELECT x.b FROM (SELECT {column} AS b FROM {{p}}{table} WHERE operation_id = '{}') x) \
         WHERE operation_id = '{}'",
        operation_id(from),
        operation_id(1)
    );
    Damage { name, statement, says: ProtectError::NotAuthentic }
}

fn altered(name: &'static str, set: &str, says: ProtectError) -> Damage {
    let statement = format!("UPDATE {{p}}outcomes SET {set} WHERE operation_id = '{}'", operation_id(1));
    Damage { name, statement, says }
}

fn damages<DB: TestEngine>() -> Vec<Damage> {
    // A byte in front of the rest, as each engine writes it.
    let version = |byte: &str| match DB::VARIABLE {
        None => format!("payload = CAST(X'{byte}' || SUBSTR(payload, 2) AS BLOB)"),
        Some("PERILUNE_TEST_POSTGRES_URL") => format!("payload = '\\x{byte}'::bytea || SUBSTR(payload, 2)"),
        Some(_) => format!("payload = CONCAT(X'{byte}', SUBSTR(payload, 2))"),
    };
    vec![
        moved("of another operation", "payload", "outcomes", 2),
        moved("of another tenant", "payload", "outcomes", 3),
        moved("of another purpose", "payload", "dead_letters", 4),
        altered("of another schema", "schema_version = 1", ProtectError::NotAuthentic),
        altered("of another key that is known", "payload = payload", ProtectError::UnknownKey(KeyId(1))),
        altered("cut in its tag", "payload = SUBSTR(payload, 1, LENGTH(payload) - 1)", ProtectError::NotAuthentic),
        altered("cut in its nonce", "payload = SUBSTR(payload, 1, 12)", ProtectError::Truncated),
        altered("cut to nothing", "payload = SUBSTR(payload, 1, 0)", ProtectError::Truncated),
        altered("of a future version", &version("02"), ProtectError::UnsupportedVersion(2)),
    ]
}

async fn a_blob_that_is_not_in_its_place_or_not_whole_has_its_own_error_and_is_purged<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine,
{
    let whole = operations_with(&site, KeyRing::new(key(1))).await;
    let without_its_key = operations_with(&site, KeyRing::new(key(2))).await;
    for damage in damages::<DB>() {
        let name = damage.name;
        for table in ["operations", "operation_journal", "outcomes", "dead_letters"] {
            site.run(&format!("DELETE FROM {{p}}{table}")).await;
        }
        for n in 1..=2 {
            apply(&site, &whole, &event(n, 1, Status::Succeeded)).await.expect("applied");
        }
        apply(&site, &whole, &event_of("acme", 3, 1, Status::Succeeded)).await.expect("applied");
        apply(&site, &whole, &with_error(event(4, 1, Status::DeadLettered), "x")).await.expect("applied");
        site.run(&damage.statement).await;

        let lost = damage.says == ProtectError::UnknownKey(KeyId(1));
        let operations = if lost { &without_its_key } else { &whole };
        let allow = Counting::new(Some(Decision::Allow));
        let query = OutcomeQuery::new(operations).with_authoriser(allow.clone());
        let error = query.find(operation_id(1), &caller(None)).await.expect_err(name);
        assert!(!format!("{error} {error:?}").contains("pages"), "{name}: payload shows");
        match error {
            QueryError::Store(OutcomeStoreError::Protection(says)) => assert_eq!(says, damage.says, "{name}"),
            other => panic!("{name}: another error: {other:?}"),
        }
        let answer = ask(&resource(operations, &allow), &operation_id(1).to_string(), &[]).await;
        assert_eq!((answer.status, &*answer.body), (500, r#"{"status":"error","code":"internal_error"}"#), "{name}");

        // Rotation goes past it and leaves it as it is.
        let next = KeyRing::new(key(3)).with_retired(if lost { key(2) } else { key(1) });
        let rotated = operations_with(&site, next).await.rotate_keys(10).await.expect("rotated");
        let unreadable = if lost { 4 } else { 1 };
        assert_eq!(rotated, KeyRotation { rewritten: 4 - unreadable, unreadable }, "{name}");

        let purged = super::retention::purge_all(operations).await;
        assert_eq!((purged.outcomes_deleted, purged.dead_letters_deleted), (3, 1), "{name}");
    }
    site.close().await;
}
