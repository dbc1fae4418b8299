//! `hold` and `retention` on an application's own database, on every engine that is at hand.

use perilune_proto::Status;

use super::application::{Application, Engine, id};
use super::cli_platform::field;
use super::cli_process::{Finished, perilune, run};

const POLICY: [&str; 8] = ["--input", "30d", "--journal", "365d", "--outcome", "90d", "--dead-letter", "90d"];
const CONFIRMED: [&str; 5] = ["--confirm", "--policy-ref", "privacy-2026", "--actor", "ops"];

fn call<DB: Engine>(application: &Application<DB>, arguments: &[&str]) -> Finished {
    run(&mut perilune(application.named(arguments)))
}

fn retention<DB: Engine>(application: &Application<DB>, verb: &str, more: &[&str]) -> Finished {
    call(application, &[&["retention", verb], &POLICY[..], more].concat())
}

/// Three operations that ended long ago: two completed, one dead-lettered; and one that runs.
fn ended<DB: Engine>(application: &Application<DB>) {
    for (n, status) in [(1, Status::Succeeded), (2, Status::Succeeded), (3, Status::DeadLettered), (4, Status::Started)]
    {
        application.apply(n, 1, status);
    }
    application.run("UPDATE {p}operations SET completed_at = 0 WHERE completed_at IS NOT NULL");
}

/// From a plan over a hold to a purge and the proof of its audit.
fn a_hold_a_plan_a_purge_and_its_proof<DB: Engine>(application: &Application<DB>) {
    ended(application);
    let place =
        ["hold", "place", "--operation", &id(2), "--category", "legal", "--reason", "case\t7", "--actor", "counsel"];
    let placed = call(application, &[&place[..], &["--json"]].concat()).expect_code(0);
    let hold = field(&placed.stdout, "hold_id");
    assert_eq!(
        (field(&placed.stdout, "category"), field(&placed.stdout, "reason")),
        ("legal".into(), "case\t7".into())
    );
    let second = call(application, &place).expect_code(0);
    assert!(
        second.stdout.starts_with("hold\t") && second.stdout.contains(&format!("\noperation\t{}\n", id(2))),
        "{second:?}"
    );

    // The plan, and a purge without --confirm, say the same and change nothing.
    let planned = retention(application, "plan", &[]).expect_code(0);
    let lines: Vec<_> = planned.stdout.lines().map(|line| line.split('\t').collect::<Vec<_>>()).collect();
    assert_eq!(lines[0], ["target", "due", "held", "ended before", "oldest"]);
    let counts: Vec<_> = lines[1..5].iter().map(|line| (line[0], line[1], line[2])).collect();
    assert_eq!(counts, [("input", "0", "0"), ("journal", "2", "1"), ("outcome", "1", "1"), ("dead_letter", "1", "0")]);
    assert_eq!(lines[3][4], "1970-01-01T00:00:00.000000Z");
    assert_eq!(lines[6], ["target", "operation", "type", "tenant", "reason"]);
    let removals: Vec<_> = lines[7..].iter().map(|line| (line[0], line[1].to_owned())).collect();
    assert_eq!(
        removals,
        [("journal", id(1)), ("journal", id(3)), ("outcome", id(1)), ("dead_letter", id(3))],
        "{planned:?}"
    );
    assert!(lines[9][4].contains("outcome is kept for 7776000 s (90 days)"), "{planned:?}");
    let dry = retention(application, "purge", &[]).expect_code(0).expect_stderr(&["nothing was purged", "--confirm"]);
    assert_eq!(dry.stdout.lines().count(), lines.len());
    let json = retention(application, "plan", &["--json"]).expect_code(0);
    let plan: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    let removal = &plan["targets"][2]["removals"][0];
    assert_eq!((&removal["operation_id"], &removal["tenant"]), (&id(1).into(), &serde_json::Value::Null));
    assert!(
        removal["reason"].as_str().is_some_and(|reason| reason.contains("outcome is kept for 7776000 s (90 days)")),
        "{removal}"
    );

    let purged = retention(application, "purge", &[&CONFIRMED[..], &["--json"]].concat()).expect_code(0);
    let purged: serde_json::Value = serde_json::from_str(&purged.stdout).expect("JSON");
    let expected = serde_json::json!({
        "inputs_deleted": 0, "journal_records_deleted": 2, "outcomes_deleted": 1, "dead_letters_deleted": 1, "audit_records": 4
    });
    assert_eq!(purged, expected);

    // Every hold must go before the rest does.
    let release = |hold: &str| call(application, &["hold", "release", "--hold", hold, "--actor", "judge"]);
    release(&hold).expect_code(0);
    release(&hold).expect_code(1).expect_stderr(&["error: the hold was released already"]);
    let again = retention(application, "purge", &CONFIRMED).expect_code(0);
    assert!(again.stdout.contains("outcomes deleted\t0\n"), "{again:?}");
    let listed = call(application, &["hold", "list", "--operation", &id(2)]).expect_code(0);
    let rows: Vec<_> = listed.stdout.lines().map(|line| line.split('\t').collect::<Vec<_>>()).collect();
    assert_eq!(rows[0], ["hold", "category", "reason", "placed by", "placed at", "released by", "released at"]);
    assert_eq!((rows.len(), rows[1][2], rows[1][5], rows[2][5]), (3, "case 7", "judge", ""));
    release(rows[2][0]).expect_code(0);
    let last = retention(application, "purge", &CONFIRMED).expect_code(0);
    assert!(last.stdout.contains("outcomes deleted\t1\n") && last.stdout.contains("audit records\t2\n"), "{last:?}");

    let verified = call(application, &["retention", "verify"]).expect_code(0);
    assert_eq!(verified.stdout, "intact\tyes\nrecords\t6\n");
    application.run("UPDATE {p}retention_audit SET actor = 'nobody' WHERE sequence = 5");
    let broken = call(application, &["retention", "verify"]).expect_code(1);
    broken.expect_stderr(&["error: audit record 5 is missing or was changed"]);
    let broken = call(application, &["retention", "verify", "--json"]).expect_code(1);
    let shown: serde_json::Value = serde_json::from_str(&broken.stdout).expect("JSON");
    assert_eq!(shown, serde_json::json!({ "intact": false, "broken_at": 5 }));
}

#[test]
fn a_hold_a_plan_a_purge_and_its_proof_on_sqlite() {
    a_hold_a_plan_a_purge_and_its_proof(&Application::embedded());
}

#[test]
fn a_hold_a_plan_a_purge_and_its_proof_on_postgres() {
    if let Some(application) = Application::<sqlx::Postgres>::on_server("PERILUNE_TEST_POSTGRES_URL") {
        a_hold_a_plan_a_purge_and_its_proof(&application);
    }
}

#[test]
fn a_hold_a_plan_a_purge_and_its_proof_on_mysql() {
    if let Some(application) = Application::<sqlx::MySql>::on_server("PERILUNE_TEST_MYSQL_URL") {
        a_hold_a_plan_a_purge_and_its_proof(&application);
    }
}

#[test]
fn a_retention_without_a_decision_is_a_usage_error() {
    let application = Application::embedded();
    let refused = |arguments: &[&str], parts: &[&str]| {
        call(&application, arguments).expect_code(2).expect_stderr(parts);
    };
    let (plan, purge) = (["retention", "plan"], ["retention", "purge"]);
    for missing in ["--input", "--journal", "--outcome", "--dead-letter"] {
        let at = POLICY.iter().position(|flag| *flag == missing).expect("a flag");
        let rest: Vec<_> = POLICY[..at].iter().chain(&POLICY[at + 2..]).copied().collect();
        refused(&[&plan[..], &rest].concat(), &[missing]);
        let mut wrong = POLICY;
        for (period, says) in
            [("40000d", "from 1 s to 36500 days"), ("500ms", "from 1 s"), ("30", "with a unit"), ("0s", "with a unit")]
        {
            wrong[at + 1] = period;
            let target = missing.trim_start_matches("--").replace('-', "_");
            let named = if says == "with a unit" { missing } else { &*target };
            refused(&[&plan[..], &wrong].concat(), &[named, says]);
        }
    }
    refused(&[&purge[..], &POLICY, &["--confirm"]].concat(), &["--policy-ref", "--actor"]);
    refused(&[&purge[..], &POLICY, &["--confirm", "--policy-ref", "p"]].concat(), &["--actor"]);
    let long = "x".repeat(256);
    for (policy_ref, actor, named) in
        [("", "ops", "--policy-ref"), ("p", "", "--actor"), (&long, "ops", "--policy-ref")]
    {
        let confirmed = ["--confirm", "--policy-ref", policy_ref, "--actor", actor];
        refused(&[&purge[..], &POLICY, &confirmed].concat(), &[named, "1 to 255 bytes"]);
    }
}

#[test]
fn a_hold_in_the_wrong_words_is_a_usage_error_and_an_unknown_one_a_failure() {
    let application = Application::embedded();
    ended(&application);
    let place = |category: &str, reason: &str, actor: &str, n: u128| {
        let (id, actor) = (id(n), actor.to_owned());
        call(
            &application,
            &["hold", "place", "--operation", &id, "--category", category, "--reason", reason, "--actor", &actor],
        )
    };
    place("whim", "r", "a", 1).expect_code(2).expect_stderr(&["--category", "legal, security, audit, support, other"]);
    place("legal", "", "a", 1).expect_code(2).expect_stderr(&["--reason must be 1 to 4096 bytes"]);
    place("legal", &"r".repeat(4_097), "a", 1).expect_code(2).expect_stderr(&["--reason must be 1 to 4096 bytes"]);
    place("legal", "r", "", 1).expect_code(2).expect_stderr(&["--actor must be 1 to 255 bytes"]);
    place("legal", "r", "a", 99).expect_code(1).expect_stderr(&[&format!("error: there is no operation {}", id(99))]);
    for category in ["legal", "security", "audit", "support", "other"] {
        place(category, "r", "a", 1).expect_code(0);
    }
    let call = |arguments: &[&str]| call(&application, arguments);
    call(&["hold", "place", "--operation", &id(1)]).expect_code(2).expect_stderr(&[
        "--category",
        "--reason",
        "--actor",
    ]);
    call(&["hold", "list", "--operation", "x"]).expect_code(2).expect_stderr(&["--operation", "32 of 0-9 a-f"]);
    call(&["hold", "list", "--operation", &id(99)]).expect_code(1).expect_stderr(&["there is no operation"]);
    call(&["hold", "release", "--hold", "x", "--actor", "a"])
        .expect_code(2)
        .expect_stderr(&["--hold", "32 of 0-9 a-f"]);
    call(&["hold", "release", "--hold", &id(99), "--actor", "a"])
        .expect_code(1)
        .expect_stderr(&["there is no such hold"]);
    let listed = call(&["hold", "list", "--operation", &id(1), "--json"]).expect_code(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(5));
    assert_eq!(call(&["hold", "list", "--operation", &id(3), "--json"]).expect_code(0).stdout, "[]\n");
}

#[test]
fn a_database_that_is_not_the_application_s_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.db");
    let url = format!("sqlite:{}", missing.display());
    let at = |url: &str| run(&mut perilune(["retention", "verify", "--database", url]));
    at(&url).expect_code(1).expect_stderr(&["--database"]);
    assert!(!missing.exists(), "a mistyped name leaves no file behind");
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, b"").expect("written");
    at(&format!("sqlite:{}", empty.display())).expect_code(1).expect_stderr(&["--database"]);
    at("oracle:x").expect_code(2).expect_stderr(&["--database"]);
    run(&mut perilune(["retention", "verify"])).expect_code(2).expect_stderr(&["--database"]);
    let application = Application::embedded();
    let other = ["retention", "verify", "--database", &application.url, "--table-prefix", "other_"];
    run(&mut perilune(other)).expect_code(1).expect_stderr(&["--database"]);
}
