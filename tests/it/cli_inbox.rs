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

/// An inbox in a file, and a platform that it is compared with.
struct Scene {
    platform: Platform,
    url: String,
}

impl Scene {
    fn start() -> Self {
        let platform = Platform::start();
        let url = format!("sqlite:{}", platform.path("inbox.db"));
        Self { platform, url }
    }

    fn inbox(&self) -> [&str; 4] {
        ["--inbox", &self.url, "--consumer", "test"]
    }

    fn consume(&self, subscription: &str, events: &str) {
        let arguments = ["consume", "--subscription", subscription, "--exec", "true", "--max-events", events];
        run(self.platform.command(&arguments).args(self.inbox())).expect_code(0);
    }

    /// Findings as pairs of their name and their event.
    fn reconcile(&self, subscription: &str, more: &[&str]) -> Vec<(String, String)> {
        let mut command = self.platform.command(&["inbox", "reconcile", "--subscription", subscription, "--json"]);
        let found = json(&run(command.args(self.inbox()).args(more)).expect_code(0));
        let text = |finding: &serde_json::Value, name: &str| finding[name].as_str().expect("a text").to_owned();
        let found = found.as_array().expect("an array").iter();
        let mut found: Vec<_> = found.map(|finding| (text(finding, "finding"), text(finding, "event_id"))).collect();
        found.sort_unstable();
        found
    }

    fn deliveries(&self, subscription: &str, state: &str) -> Vec<serde_json::Value> {
        let list = ["delivery", "list", "--subscription", subscription, "--state", state, "--json"];
        json(&run(&mut self.platform.command(&list)).expect_code(0)).as_array().expect("an array").clone()
    }

    /// Edits the inbox behind everybody's back.
    fn edit(&self, sql: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let pool = sqlx::SqlitePool::connect(&self.url).await.expect("opened");
            sqlx::query(sqlx::AssertSqlSafe(sql.to_owned())).execute(&pool).await.expect(sql);
            pool.close().await;
        });
    }
}

fn finding(name: &str, event: &serde_json::Value) -> (String, String) {
    (name.to_owned(), event["event_id"].as_str().expect("an id").to_owned())
}

#[test]
fn reconciling_names_what_is_absent_different_unsettled_and_unacknowledged() {
    let scene = Scene::start();
    let subscription = scene.platform.subscribe();
    scene.platform.publish("{}\n{}\n{}\n").expect_code(0);
    scene.consume(&subscription, "3");
    scene.reconcile(&subscription, &["--mend"]);
    assert_eq!(scene.reconcile(&subscription, &[]), []);
    // One more event, whose handler fails: its delivery stays open.
    scene.platform.publish("{\"task_id\":\"0000000000000000000000000000abcd\"}\n").expect_code(0);
    let failing = ["consume", "--subscription", &subscription, "--exec", "false", "--notices"];
    let consumer = super::cli_process::Running::start(&mut scene.platform.command(&failing));
    consumer.wait_for("handler_failed");
    drop(consumer);

    let known = scene.deliveries(&subscription, "acknowledged");
    let open = scene.deliveries(&subscription, "ready,leased");
    assert_eq!((known.len(), open.len()), (3, 1), "{known:?} {open:?}");
    assert_eq!(open[0]["task_id"], "0000000000000000000000000000abcd");
    let id = |event: &serde_json::Value| event["event_id"].as_str().expect("an id").to_owned();
    scene.edit(&format!("DELETE FROM perilune_inbox WHERE event_id = '{}'", id(&known[0])));
    scene.edit(&format!("UPDATE perilune_inbox SET task_version = 9 WHERE event_id = '{}'", id(&known[1])));
    scene.edit(&format!("UPDATE perilune_inbox SET settled_at = NULL WHERE event_id = '{}'", id(&known[2])));
    // As a consumer leaves it that dies between its commit and its ack.
    scene.edit(&format!(
        "INSERT INTO perilune_inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
         VALUES ('test', '{}', 'task.succeeded', '0000000000000000000000000000abcd', 1, 0)",
        id(&open[0])
    ));
    let mut expected = vec![
        finding("absent", &known[0]),
        finding("different", &known[1]),
        finding("unsettled", &known[2]),
        finding("unacknowledged", &open[0]),
    ];
    expected.sort_unstable();
    assert_eq!(scene.reconcile(&subscription, &[]), expected);
    assert_eq!(scene.reconcile(&subscription, &["--mend"]), expected);
    expected.retain(|(name, _)| name != "unsettled");
    assert_eq!(scene.reconcile(&subscription, &[]), expected, "what was mended is no finding any more");
}

/// The platform forgets an acknowledgement after a day. Whether such an event may still come, its place in the log tells.
#[test]
fn a_row_that_the_platform_does_not_know_is_mended_once_nothing_is_yet_to_come() {
    let scene = Scene::start();
    let create = ["subscription", "create", "--name", "one", "--queues", "reports", "--start", "earliest"];
    let created = run(scene.platform.command(&create).args(["--window", "1", "--json"])).expect_code(0);
    let subscription = super::cli_platform::field(&created.stdout, "subscription_id");
    scene.platform.publish("{}\n{}\n{}\n").expect_code(0);
    scene.consume(&subscription, "1");
    scene.reconcile(&subscription, &["--mend"]);
    let old = "f".repeat(32);
    scene.edit(&format!(
        "INSERT INTO perilune_inbox (consumer_name, event_id, event_type, task_id, task_version, received_at)
         VALUES ('test', '{old}', 'task.succeeded', '{old}', 1, 0)"
    ));
    let named = |name: &str| vec![(name.to_owned(), old.clone())];
    assert!(scene.platform.figure(&subscription, "lag") > 0);
    assert_eq!(scene.reconcile(&subscription, &["--mend"]), named("unknown"));
    assert_eq!(scene.reconcile(&subscription, &[]), named("unknown"), "not mended");
    scene.consume(&subscription, "2");
    // The receipts of the stop may have been lost: they are mended with it.
    assert!(scene.reconcile(&subscription, &["--mend"]).contains(&("unsettled".to_owned(), old.clone())));
    assert_eq!(scene.reconcile(&subscription, &[]), []);
}
