//! `publish`, `subscription` and `delivery` against the real server.

use super::cli_platform::{Platform, field};
use super::cli_process::{Running, run, run_with_input};

const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn one_result_is_published_byte_for_byte_from_a_file_or_stdin() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    let file = platform.path("result.json");
    std::fs::write(&file, " {\"n\":9007199254740993,\n \"big\": 1e400}\n").expect("written");
    let arguments = ["publish", "--queue", "reports", "--operation", "Op", "--status", "succeeded", "--json"];
    let mut command = platform.command(&arguments);
    let published = run_with_input(command.args(["--result", &file, "--payload", "-"]), b"[1, 2]").expect_code(0);
    assert_eq!(field(&published.stdout, "task_version"), "1");
    let mut consume = platform.command(&["consume", "--subscription", &subscription, "--print", "--max-events", "1"]);
    let printed = run(&mut consume).expect_code(0).stdout;
    assert!(printed.contains("\"result\":{\"n\":9007199254740993,  \"big\": 1e400}"), "{printed}");
    assert!(printed.contains("\"payload\":[1, 2],"), "{printed}");
    assert_eq!(field(&printed, "task_id"), field(&published.stdout, "task_id"));
}

#[test]
fn a_file_that_holds_no_json_value_is_refused_before_anything_is_sent() {
    let platform = Platform::start();
    for bad in ["", "{", "1 2", "1,\"status\":\"failed\"", "{\"a\":1,\"a\":2}", "nul"] {
        let arguments =
            ["publish", "--queue", "reports", "--operation", "Op", "--status", "succeeded", "--result", "-"];
        run_with_input(&mut platform.command(&arguments), bad.as_bytes())
            .expect_code(2)
            .expect_stderr(&["--result -", "must hold one JSON value"]);
    }
    let mut command =
        platform.command(&["publish", "--queue", "reports", "--operation", "Op", "--status", "succeeded"]);
    run(command.args(["--result", "/nowhere.json"])).expect_code(1).expect_stderr(&["/nowhere.json"]);
}

#[test]
fn what_the_platform_refuses_for_good_is_told_with_its_code() {
    let platform = Platform::start();
    let publish = |task: &str, queue: &str, status: &str| {
        let arguments = ["publish", "--queue", queue, "--operation", "Op", "--status", status, "--task", task];
        run(&mut platform.command(&arguments))
    };
    publish(UNKNOWN, "reports", "succeeded").expect_code(0);
    publish(UNKNOWN, "reports", "started").expect_code(3).expect_stderr(&["error: TASK_"]);
    publish(UNKNOWN, "elsewhere", "started").expect_code(3).expect_stderr(&["error: "]);
    let show = ["subscription", "show", UNKNOWN];
    run(&mut platform.command(&show)).expect_code(3).expect_stderr(&["NOT_FOUND"]);
    let mut wrong = platform.command(&show);
    run(wrong.env("PERILUNE_CREDENTIAL", "prl_wrong")).expect_code(3).expect_stderr(&["UNAUTHENTICATED"]);
    let reporter = platform.create_credential("reporter", "report");
    let mut unscoped = platform.command(&show);
    run(unscoped.env("PERILUNE_CREDENTIAL", reporter)).expect_code(3).expect_stderr(&["PERMISSION_DENIED"]);
}

#[test]
fn a_bad_line_is_named_by_its_number_and_spoils_no_other() {
    let platform = Platform::start();
    let lines = "{\"payload\":1}\n\nnonsense\n{\"queue\":\"a b\"}\n{\"queue\":\"elsewhere\"}\n{\"payload\":2}";
    let published = platform.publish(lines).expect_code(1);
    assert_eq!(published.stdout, "published 2, already there 0, refused 3\n");
    published.expect_stderr(&["line 3: not one JSON object", "line 4: ", "/queue", "line 5: ", "3 lines were refused"]);
}

#[test]
fn the_same_lines_again_report_nothing_twice_and_others_do() {
    let platform = Platform::start();
    let lines = (0..2_500).map(|n| format!("{{\"payload\":{}}}\n", n % 7)).collect::<String>();
    assert_eq!(platform.publish(&lines).expect_code(0).stdout, "published 2500, already there 0, refused 0\n");
    let more = format!("{lines}{{}}\n");
    assert_eq!(platform.publish(&more).expect_code(0).stdout, "published 1, already there 2500, refused 0\n");
    let keyed = "{\"task_id\":\"0123456789abcdef0123456789abcdef\",\"idempotency_key\":\"mine\"}\n";
    assert_eq!(platform.publish(keyed).expect_code(0).stdout, "published 1, already there 0, refused 0\n");
    assert_eq!(
        platform.publish(&format!("\n{keyed}")).expect_code(0).stdout,
        "published 0, already there 1, refused 0\n"
    );
}

#[test]
fn publishing_goes_on_where_the_platform_was_away() {
    let mut platform = Platform::start();
    platform.publish("{}\n").expect_code(0);
    let address = platform.url.trim_start_matches("http://").to_owned();
    platform.stop("TERM").expect_code(0);
    let arguments = ["publish", "--ndjson", "-", "--queue", "reports", "--operation", "Op", "--status", "succeeded"];
    run_with_input(platform.command(&arguments).args(["--retry-for", "300ms"]), b"{}\n")
        .expect_code(1)
        .expect_stderr(&[&address])
        .stdout
        .contains("published 0")
        .then_some(())
        .expect("a summary");
    let file = platform.path("lines");
    std::fs::write(&file, "{}\n{}\n").expect("written");
    let mut command = platform.command(&["publish", "--ndjson", &file, "--queue", "reports"]);
    let publisher = Running::start(command.args(["--operation", "Op", "--status", "succeeded", "--log", "debug"]));
    platform.serve_at(&address);
    let published = publisher.finish().expect_code(0);
    // The first line is the one that was there before.
    assert_eq!(published.stdout, "published 1, already there 1, refused 0\n");
}

#[test]
fn a_subscription_is_made_shown_paused_resumed_sought_and_deleted() {
    let platform = Platform::start();
    let create = [
        "subscription",
        "create",
        "--name",
        "é 1",
        "--queues",
        "reports",
        "--statuses",
        "succeeded,failed",
        "--operations",
        "Op",
        "--window",
        "5",
        "--budget",
        "3",
        "--backoff-min",
        "1s",
        "--backoff-max",
        "1m",
        "--json",
    ];
    let created = run(&mut platform.command(&create)).expect_code(0).stdout;
    let id = field(&created, "subscription_id");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let mut command = platform.command(&["subscription"]);
        serde_json::from_str(&run(command.args(arguments).arg("--json")).expect_code(0).stdout).expect("JSON")
    };
    let shown = json(&["show", &id]);
    assert_eq!((&shown["name"], &shown["window"], &shown["budget"]), (&"é 1".into(), &5.into(), &3.into()));
    assert_eq!(shown["backoff"], serde_json::json!({"min_ms": 1_000, "max_ms": 60_000}));
    assert_eq!(json(&["pause", &id])["enabled"], false);
    assert_eq!(json(&["resume", &id])["enabled"], true);
    platform.publish("{}\n").expect_code(0);
    assert_eq!(json(&["seek", &id, "--to", "earliest"])["subscription_id"], id.as_str());
    assert_eq!(json(&["list"]).as_array().map(Vec::len), Some(1));
    let lines = run(&mut platform.command(&["subscription", "list"])).expect_code(0).stdout;
    assert!(lines.starts_with("subscription_id\tname\tstate\t") && lines.contains("\té 1\tenabled\t"), "{lines}");
    run(&mut platform.command(&["subscription", "delete", &id])).expect_code(0);
    run(&mut platform.command(&["subscription", "show", &id])).expect_code(3).expect_stderr(&["NOT_FOUND"]);
}

#[test]
fn an_expired_delivery_is_listed_and_gets_another_chance() {
    let platform = Platform::start();
    let create = [
        "subscription",
        "create",
        "--name",
        "a",
        "--queues",
        "reports",
        "--start",
        "earliest",
        "--budget",
        "1",
        "--json",
    ];
    let id = field(&run(&mut platform.command(&create)).expect_code(0).stdout, "subscription_id");
    platform.publish("{}\n").expect_code(0);
    let consumer = Running::start(&mut platform.command(&["consume", "--subscription", &id, "--exec", "false"]));
    let expired = || {
        let list = ["delivery", "list", "--subscription", &id, "--state", "expired", "--json"];
        let listed = run(&mut platform.command(&list)).expect_code(0).stdout;
        serde_json::from_str::<Vec<serde_json::Value>>(&listed).expect("an array")
    };
    let delivery = loop {
        if let Some(delivery) = expired().first() {
            break delivery["delivery_id"].as_str().expect("an id").to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    drop(consumer);
    let add = ["delivery", "add-budget", "--subscription", &id, "--delivery", &delivery, "--add", "2", "--json"];
    let added = run(&mut platform.command(&add)).expect_code(0).stdout;
    assert_eq!(field(&added, "state"), "ready");
    run(&mut platform.command(&add)).expect_code(3).expect_stderr(&["error: "]);
    let all = ["delivery", "add-budget", "--subscription", &id, "--all", "--add", "2", "--json"];
    assert_eq!(field(&run(&mut platform.command(&all)).expect_code(0).stdout, "subscription_id"), id);
    let mut consume = platform.command(&["consume", "--subscription", &id, "--print", "--max-events", "1"]);
    run(&mut consume).expect_code(0);
}
