//! `serve` and `credential`: how they begin, how they end, and what they refuse.

use std::net::TcpListener;

use super::cli_platform::{Platform, field};
use super::cli_process::{Running, perilune, run};

fn serve(arguments: &[&str]) -> std::process::Command {
    let mut command = perilune(["serve", "--listen", "127.0.0.1:0"]);
    command.args(arguments);
    command
}

#[test]
fn it_says_where_it_listens_and_ends_in_order_on_either_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("p.db").display());
    for signal in ["TERM", "INT"] {
        let server = Running::start(&mut serve(&["--database", &database, "--metrics-listen", "127.0.0.1:0"]));
        let line = server.line();
        assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
        assert!(line.contains(", metrics on http://127.0.0.1:") && line.ends_with("/metrics"), "{line}");
        server.signal(signal);
        let ended = server.finish().expect_code(0);
        assert!(ended.stdout.is_empty(), "{ended:?}");
    }
}

#[test]
fn sessions_are_told_of_a_stop_and_the_consumer_comes_back() {
    let mut platform = Platform::start();
    let subscription = platform.subscribe();
    let consumer =
        Running::start(&mut platform.command(&["consume", "--subscription", &subscription, "--print", "--notices"]));
    consumer.wait_for("\"kind\":\"connected\"");
    platform.stop("TERM").expect_code(0);
    let told = consumer.wait_for("\"kind\":\"disconnected\"");
    assert!(told.contains("UNAVAILABLE") || told.contains("CLOSE_1012"), "{told}");
    consumer.signal("TERM");
    consumer.finish().expect_code(0);
}

#[test]
fn an_address_in_use_is_one_sentence_and_leaves_the_database_usable() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("p.db").display());
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    run(&mut perilune(["serve", "--listen", &address, "--database", &database]))
        .expect_code(1)
        .expect_stderr(&[&address, "in use"]);
    let server = Running::start(&mut serve(&["--database", &database]));
    server.line();
}

#[test]
fn a_hangup_ends_no_server_without_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("p.db").display());
    let server = Running::start(&mut serve(&["--log", "info", "--database", &database]));
    server.line();
    for _ in 0..2 {
        server.signal("HUP");
        server.wait_for("SIGHUP was ignored");
    }
    server.signal("TERM");
    server.finish().expect_code(0);
}

#[test]
fn one_file_serves_one_server() {
    let platform = Platform::start();
    run(&mut serve(&["--database", &platform.database()])).expect_code(1).expect_stderr(&["in use by another server"]);
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "no database at all, and long enough to look at").expect("written");
    let url = format!("sqlite:{}", text.display());
    run(&mut serve(&["--database", &url])).expect_code(1).expect_stderr(&["notes.txt", "not an SQLite database"]);
    let after = std::fs::read_to_string(&text).expect("there");
    assert_eq!(after, "no database at all, and long enough to look at");

    // An SQLite file of somebody else's: made by the inbox, which has tables of its own.
    let foreign = folder.path().join("foreign.db");
    let url = format!("sqlite:{}", foreign.display());
    let mut inbox = perilune(["consume", "--subscription", &"0".repeat(32), "--print", "--url", "http://127.0.0.1:9"]);
    inbox.args(["--inbox", &url, "--consumer", "test"]).env("PERILUNE_CREDENTIAL", "secret");
    let consumer = Running::start(&mut inbox);
    while !foreign.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    consumer.wait_for("dials failed");
    drop(consumer);
    let before = std::fs::metadata(&foreign).expect("there").len();
    run(&mut serve(&["--database", &url])).expect_code(1).expect_stderr(&["foreign.db", "another program"]);
    run(&mut perilune(["credential", "list", "--database", &url])).expect_code(1).expect_stderr(&["another program"]);
    assert_eq!(std::fs::metadata(&foreign).expect("there").len(), before);
}

#[test]
fn a_database_that_can_t_be_is_refused() {
    run(&mut serve(&["--database", "sqlite::memory:"])).expect_code(2).expect_stderr(&["in-memory"]);
    run(&mut serve(&["--database", "sqlite:/nowhere/at/all/p.db"])).expect_code(1).expect_stderr(&["/nowhere/at/all"]);
    let refused = run(&mut serve(&["--database", "oracle://user:hush@host/x"])).expect_code(2);
    assert!(!refused.stderr.contains("hush"), "{refused:?}");
    refused.expect_stderr(&["--database", "sqlite:"]);
}

#[test]
fn every_option_keeps_its_range() {
    for (arguments, parts) in [
        (vec!["--lease-ms", "999"], ["--lease-ms", "1000..=30000"]),
        (vec!["--lease-ms", "30001"], ["--lease-ms", "1000..=30000"]),
        (vec!["--heartbeat-ms", "999"], ["--heartbeat-ms", "1000..=15000"]),
        (vec!["--heartbeat-ms", "15001"], ["--heartbeat-ms", "1000..=15000"]),
        (vec!["--retain-age", "10ms"], ["retain-age", "1000 ms"]),
        (vec!["--retain-count", "0"], ["--retain-count", "1.."]),
        (vec!["--sessions", "0"], ["sessions", "1 to 1000000"]),
        (vec!["--shutdown-timeout", "6m"], ["--shutdown-timeout", "5m"]),
        (vec!["--tls-cert", "c.pem"], ["--tls-cert", "--tls-key"]),
        (vec!["--listen", "somewhere"], ["--listen", "somewhere"]),
    ] {
        let mut command = perilune(["serve"]);
        run(command.args(&arguments)).expect_code(2).expect_stderr(&parts);
    }
}

#[test]
fn a_certificate_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("p.db").display());
    run(&mut serve(&["--database", &database, "--tls-cert", "/nowhere/c.pem", "--tls-key", "/nowhere/k.pem"]))
        .expect_code(1)
        .expect_stderr(&["/nowhere/c.pem"]);
}

#[test]
fn a_credential_is_made_listed_rotated_and_revoked_beside_a_running_server() {
    let platform = Platform::start();
    let credential = |arguments: &[&str]| {
        let mut command = perilune(["credential"]);
        run(command.args(arguments).args(["--database", &platform.database()]))
    };
    let works = |secret: &str| {
        let mut command = platform.command(&["subscription", "list"]);
        run(command.env("PERILUNE_CREDENTIAL", secret)).code == Some(0)
    };
    let create = ["create", "--name", "billing", "--queues", "reports,other", "--scopes", "manage", "--json"];
    let first = field(&credential(&create).expect_code(0).stdout, "credential");
    assert!(works(&first));
    credential(&create).expect_code(1).expect_stderr(&["a credential of that name exists"]);

    let rotate = ["rotate", "--name", "billing", "--overlap", "1h", "--json"];
    let second = field(&credential(&rotate).expect_code(0).stdout, "credential");
    assert!(first != second && works(&first) && works(&second), "both work until the overlap ends");

    let listed = credential(&["list"]).expect_code(0);
    assert!(listed.stdout.contains("billing\tother,reports\tmanage\t"), "{listed:?}");
    assert!(!listed.stdout.contains(&first) && !listed.stdout.contains(&second), "shown once");
    let json = credential(&["list", "--json"]).expect_code(0).stdout;
    let all: Vec<serde_json::Value> = serde_json::from_str(&json).expect("an array");
    assert_eq!(all.len(), 2, "{json}");

    credential(&["revoke", "--name", "billing"]).expect_code(0);
    assert!(!works(&first) && !works(&second));
    credential(&["revoke", "--name", "billing"]).expect_code(1).expect_stderr(&["no such credential"]);
    credential(&["create", "--name", "a b", "--queues", "q", "--scopes", "report"]).expect_code(2);
    credential(&["create", "--name", "a", "--queues", "q", "--scopes", "rule"])
        .expect_code(2)
        .expect_stderr(&["report, consume, manage"]);
    credential(&["create", "--name", "a", "--queues", "q", "--scopes", "report", "--expires-in", "90"]).expect_code(2);
}
