//! `inbox`: what an operator sees of one.

use super::cli_platform::Platform;
use super::cli_process::{Finished, perilune, run};

fn json(finished: &Finished) -> serde_json::Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

#[test]
fn an_inbox_is_counted_listed_reconciled_and_pruned() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n{}\n{}\n").expect_code(0);
    let url = format!("sqlite:{}", platform.path("inbox.db"));
    let inbox = ["--inbox", &url, "--consumer", "test"];
    let arguments = ["consume", "--subscription", &subscription, "--exec", "true", "--max-events", "2"];
    run(platform.command(&arguments).args(inbox)).expect_code(0);

    let show = |more: &[&str]| run(perilune(["inbox", "show", "--json"]).args(inbox).args(more)).expect_code(0);
    let counted = json(&show(&[]));
    assert_eq!((&counted["rows"], &counted["prunable"]), (&2.into(), &0.into()), "{counted}");
    let rows = json(&show(&["--rows", "1"]));
    let first = rows[0]["event_id"].as_str().expect("an id").to_owned();
    let rest = json(&show(&["--rows", "10", "--after", &first]));
    assert_eq!(rest.as_array().map(Vec::len), Some(1), "{rest}");

    let reconcile = |more: &[&str]| {
        let mut command = platform.command(&["inbox", "reconcile", "--subscription", &subscription, "--json"]);
        json(&run(command.args(inbox).args(more)).expect_code(0))
    };
    // Whatever receipts were lost at the stop is mended; after that nothing differs.
    reconcile(&["--mend"]);
    assert_eq!(reconcile(&[]), serde_json::json!([]));
    assert_eq!(json(&show(&[]))["settled"], 2);

    // Everything is delivered once more: what is in the inbox is not acknowledged any more.
    run(&mut platform.command(&["subscription", "seek", &subscription, "--to", "earliest"])).expect_code(0);
    let failing = ["consume", "--subscription", &subscription, "--exec", "sleep 9", "--shutdown-timeout", "1ms"];
    let consumer = super::cli_process::Running::start(platform.command(&failing).arg("--notices"));
    consumer.wait_for("connected");
    let open = || {
        let list = ["delivery", "list", "--subscription", &subscription, "--json"];
        json(&run(&mut platform.command(&list)).expect_code(0)).as_array().map(Vec::len)
    };
    while open() != Some(3) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let found = reconcile(&[]);
    let kinds = found.as_array().expect("an array").iter().map(|finding| &finding["finding"]).collect::<Vec<_>>();
    assert_eq!(kinds, ["unacknowledged"; 2], "{found}");

    let prune = run(perilune(["inbox", "prune"]).args(inbox)).expect_code(0);
    assert_eq!(prune.stdout, "pruned 0 rows\n");
}

#[test]
fn a_wrong_inbox_or_policy_is_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("typo.db").display());
    run(perilune(["inbox", "show", "--consumer", "test"]).args(["--inbox", &url]))
        .expect_code(1)
        .expect_stderr(&["there is no database", "typo.db"]);
    assert!(std::fs::read_dir(folder.path()).expect("there").next().is_none());
    for (arguments, part) in [
        (["--retention", "1h", "--horizon", "24h"], "retention"),
        (["--retention", "2d", "--horizon", "1h"], "horizon"),
    ] {
        run(perilune(["inbox", "prune", "--consumer", "test", "--inbox", &url]).args(arguments))
            .expect_code(2)
            .expect_stderr(&[part]);
    }
    run(perilune(["inbox", "prune", "--inbox", &url]).args(["--consumer", "a b"])).expect_code(2);
}
