//! `operation status` and `wait` against a real status resource.

use perilune_proto::Status;

use super::application::{Application, StatusServer, id};
use super::cli_process::{Finished, perilune, run};

const LIVES: [(u128, &[Status]); 8] = [
    (1, &[Status::Accepted]),
    (2, &[Status::Started, Status::NeedsReview]),
    (3, &[Status::RetryScheduled]),
    (4, &[Status::Succeeded]),
    (5, &[Status::Rejected]),
    (6, &[Status::Failed]),
    (7, &[Status::DeadLettered]),
    (8, &[Status::Succeeded]),
];

/// An application whose operations stand in every state, 8 being purged.
fn application() -> Application<sqlx::Sqlite> {
    let application = Application::embedded();
    for (n, life) in LIVES {
        for (version, status) in (1..).zip(life) {
            application.apply(n, version, *status);
        }
    }
    let purged = id(8);
    application.run(&format!("UPDATE {{p}}operations SET completed_at = 0 WHERE operation_id = '{purged}'"));
    let purge = ["retention", "purge", "--confirm", "--policy-ref", "p", "--actor", "ops"];
    let policy = ["--input", "9000d", "--journal", "9000d", "--outcome", "9000d", "--dead-letter", "9000d"];
    run(&mut perilune(application.named(&[&purge[..], &policy].concat()))).expect_code(0);
    application
}

fn ask(server: &StatusServer, who: &str, arguments: &[&str]) -> Finished {
    run(perilune([arguments, &["--url", &server.url]].concat()).env("PERILUNE_CREDENTIAL", who))
}

#[test]
fn a_status_is_shown_as_lines_and_as_json() {
    let application = application();
    let server = StatusServer::start(&application);
    let shown = |n: u128| ask(&server, "ann", &["operation", "status", &id(n)]).expect_code(0).stdout;
    let head = |n: u128, state: &str| format!("operation\t{}\nstate\t{state}\n", id(n));
    assert_eq!(shown(2), head(2, "running") + "attempt\t1\nreview required\ttrue\nask again in\t60s\n");
    assert_eq!(shown(4), head(4, "completed") + "outcome\t{\"pages\": 3}\n");
    assert_eq!(shown(5), head(5, "rejected") + "category\tvalidation\ncode\ttoo_large\n");
    assert_eq!(shown(6), head(6, "failed"));

    let json = |n: u128| {
        let shown = ask(&server, "ann", &["operation", "status", &id(n), "--json"]).expect_code(0);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("JSON");
        assert_eq!(shown["operation_id"], id(n));
        shown
    };
    assert_eq!(json(1)["state"], "accepted");
    assert_eq!(json(1)["retry_after_seconds"], 60);
    assert_eq!(json(3)["state"], "retry_scheduled");
    assert_eq!((&json(4)["outcome"]["pages"], &json(4)["retry_after_seconds"]), (&3.into(), &serde_json::Value::Null));
    assert_eq!(json(7)["state"], "dead_lettered");
}

#[test]
fn a_refusal_for_good_is_3_with_its_code_and_a_failure_is_1() {
    let application = application();
    let server = StatusServer::start(&application);
    for verb in ["status", "wait"] {
        let ask = |who, n| ask(&server, who, &["operation", verb, &id(n)]);
        ask("ann", 99).expect_code(3).expect_stderr(&["OPERATION_UNAVAILABLE: the operation is unavailable"]);
        ask("eve", 4).expect_code(3).expect_stderr(&["OPERATION_UNAVAILABLE"]);
        ask("mallory", 4).expect_code(3).expect_stderr(&["UNAUTHENTICATED: the credential was refused"]);
        ask("ann", 8).expect_code(3).expect_stderr(&["OPERATION_EXPIRED: the operation's outcome has expired"]);
    }
    application.run(&format!("DELETE FROM {{p}}outcomes WHERE operation_id = '{}'", id(4)));
    let failed = ask(&server, "ann", &["operation", "status", &id(4)]);
    assert!(failed.expect_code(1).expect_stderr(&["error: the application failed"]).stdout.is_empty());
    let url = server.url.clone();
    drop(server);
    let mut gone = perilune(["operation", "status", &id(4), "--url", &url]);
    run(gone.env("PERILUNE_CREDENTIAL", "ann")).expect_code(1).expect_stderr(&["the application can't be reached"]);
}

#[test]
fn a_wait_ends_with_the_operation_or_with_its_time() {
    let application = application();
    let server = StatusServer::start(&application);
    let ended = ask(&server, "ann", &["operation", "wait", &id(7)]).expect_code(0);
    assert!(ended.stdout.contains("state\tdead_lettered"), "{ended:?}");
    let late = ask(&server, "ann", &["operation", "wait", &id(1), "--max-wait", "200ms"]).expect_code(1);
    late.expect_stderr(&["the operation did not end in time"]);

    let mut waiting = perilune(["operation", "wait", &id(2), "--json", "--url", &server.url]);
    let waiting = super::cli_process::Running::start(waiting.env("PERILUNE_CREDENTIAL", "ann"));
    application.apply(2, 9, Status::Succeeded);
    let ended = waiting.finish().expect_code(0);
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&shown["state"], &shown["outcome"]["pages"]), (&"completed".into(), &3.into()));
}

#[test]
fn bad_input_is_a_usage_error_that_names_it() {
    let refused = |arguments: &[&str], parts: &[&str]| {
        run(perilune(arguments).env("PERILUNE_CREDENTIAL", "ann")).expect_code(2).expect_stderr(parts);
    };
    refused(&["operation", "status", "42"], &["<ID>", "exactly 32 of 0-9 a-f"]);
    refused(&["operation", "status"], &["<ID>"]);
    refused(&["operation", "wait", &id(1), "--max-wait", "5"], &["--max-wait", "with a unit"]);
    refused(&["operation", "status", &id(1), "--url", "ftp://a"], &["--url"]);
    run(&mut perilune(["operation", "status", &id(1)])).expect_code(2).expect_stderr(&["PERILUNE_CREDENTIAL"]);
}
