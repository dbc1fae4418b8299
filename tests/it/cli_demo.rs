//! `demo` and `doctor`: what a newcomer runs first.

use std::path::Path;

use super::cli_platform::Platform;
use super::cli_process::{Running, perilune, run};

/// Fails if anything is left in the folder that the demo was given for its temporary files.
#[track_caller]
fn expect_empty(folder: &Path) {
    let left = std::fs::read_dir(folder).expect("there").map(|entry| entry.expect("a file").path()).collect::<Vec<_>>();
    assert!(left.is_empty(), "{left:?}");
}

fn ledger(stdout: &str) -> serde_json::Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[test]
fn the_demo_s_ledger_balances_and_it_leaves_no_mess() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = perilune(["demo", "--events", "120", "--json"]);
    let shown = run(command.env("TMPDIR", folder.path())).expect_code(0);
    let ledger = ledger(&shown.stdout);
    for figure in ["published", "applied", "applied_once", "acknowledged"] {
        assert_eq!(ledger[figure], 120, "{ledger}");
    }
    expect_empty(folder.path());
}

#[test]
fn faults_cost_nothing_but_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = perilune(["demo", "--events", "300", "--faults", "--json"]);
    let shown = run(command.env("TMPDIR", folder.path())).expect_code(0);
    let ledger = ledger(&shown.stdout);
    assert_eq!((&ledger["applied_once"], &ledger["acknowledged"]), (&300.into(), &300.into()), "{ledger}");
    assert!(ledger["cut"].as_u64() > Some(0) && ledger["reconnects"].as_u64() > Some(0), "no fault at all: {ledger}");
    expect_empty(folder.path());
}

#[test]
fn a_signal_ends_the_demo_without_a_mess() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = perilune(["demo", "--events", "1000000"]);
    let demo = Running::start(command.env("TMPDIR", folder.path()));
    demo.wait_for("acknowledged: ");
    demo.signal("INT");
    demo.finish().expect_code(1).expect_stderr(&["interrupted"]);
    expect_empty(folder.path());
}

#[test]
fn the_demo_goes_on_serving_where_it_is_asked_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = perilune(["demo", "--events", "10", "--keep-serving"]);
    let demo = Running::start(command.env("TMPDIR", folder.path()));
    let line = demo.wait_for("export PERILUNE_URL=");
    let variables = line.split_whitespace().filter_map(|word| word.split_once('=')).collect::<Vec<_>>();
    let mut list = perilune(["subscription", "list"]);
    let listed = run(list.envs(variables)).expect_code(0);
    assert!(listed.stdout.contains("\tdemo\t"), "{listed:?}");
    demo.signal("TERM");
    demo.finish().expect_code(0);
    expect_empty(folder.path());
}

#[test]
fn the_doctor_finds_everything_well() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    let database = platform.database();
    let arguments = ["doctor", "--subscription", &subscription, "--database", &database];
    let found = run(&mut platform.command(&arguments)).expect_code(0);
    for check in ["settings", "url", "clock", "readiness", "credential", "subscription", "database", "migrations"] {
        assert!(found.stdout.contains(&format!("\n{check}\tok\t")), "no {check} in {found:?}");
    }
    let json = run(platform.command(&arguments).arg("--json")).expect_code(0).stdout;
    let findings: Vec<serde_json::Value> = serde_json::from_str(&json).expect("an array");
    assert!(findings.iter().all(|finding| finding["state"] == "ok" || finding["check"] == "tls"), "{json}");
}

#[test]
fn the_doctor_says_what_to_do() {
    let mut platform = Platform::start();
    let subscription = platform.subscribe();
    run(&mut platform.command(&["subscription", "pause", &subscription])).expect_code(0);
    let paused = run(&mut platform.command(&["doctor", "--subscription", &subscription])).expect_code(0);
    assert!(paused.stdout.contains(&format!("perilune subscription resume {subscription}")), "{paused:?}");

    let mut wrong = platform.command(&["doctor"]);
    let wrong = run(wrong.env("PERILUNE_CREDENTIAL", "prl_wrong")).expect_code(1);
    assert!(wrong.stdout.contains("credential\tfailed\t") && wrong.stdout.contains("credential create"), "{wrong:?}");

    let none = run(&mut perilune(["doctor"])).expect_code(1);
    assert!(none.stdout.contains("PERILUNE_CREDENTIAL"), "{none:?}");

    let nowhere = run(&mut platform.command(&["doctor", "--database", "sqlite:/nowhere/p.db"])).expect_code(1);
    assert!(nowhere.stdout.contains("database\tfailed\t") && nowhere.stdout.contains("/nowhere/p.db"), "{nowhere:?}");

    platform.stop("TERM").expect_code(0);
    let gone = run(&mut platform.command(&["doctor"])).expect_code(1);
    assert!(gone.stdout.contains("url\tfailed\t") && gone.stdout.contains("perilune serve"), "{gone:?}");
}
