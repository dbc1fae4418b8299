//! Wrong calls end with 2 and a sentence that names what is wrong, before anything is done.

use super::cli_process::{perilune, run};

const SUBSCRIPTION: &str = "0123456789abcdef0123456789abcdef";

#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    run(perilune(arguments).env("PERILUNE_CREDENTIAL", "secret")).expect_code(2).expect_stderr(parts);
}

#[test]
fn no_command_shows_the_help_and_is_a_usage_error() {
    run(&mut perilune::<_, &str>([])).expect_code(2).expect_stderr(&["Usage: perilune"]);
    refused(&["dance"], &["dance"]);
}

#[test]
fn help_and_version_go_to_stdout() {
    let help = run(&mut perilune(["--help"])).expect_code(0);
    assert!(help.stdout.contains("perilune demo") && help.stderr.is_empty(), "{help:?}");
    let version = run(&mut perilune(["--version"])).expect_code(0);
    assert_eq!(version.stdout.trim(), concat!("perilune ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_are_written_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&mut perilune(["completions", shell])).expect_code(0);
        assert!(script.stdout.contains("subscription"), "{shell}");
    }
}

#[test]
fn ids_names_and_ranges_are_checked_before_anything_is_sent() {
    refused(&["subscription", "show", "42"], &["exactly 32 of 0-9 a-f"]);
    refused(&["subscription", "create", "--name", "", "--queues", "a"], &["must be 1 to 128 characters"]);
    refused(&["subscription", "create", "--name", "n", "--queues", "a b"], &["1 to 128 of A-Z a-z 0-9 . _ -"]);
    refused(&["subscription", "create", "--name", "n", "--queues", "a", "--window", "5000"], &["--window", "4096"]);
    refused(&["subscription", "seek", SUBSCRIPTION, "--to", "yesterday"], &["latest, earliest"]);
    refused(&["delivery", "add-budget", "--subscription", SUBSCRIPTION, "--all", "--add", "0"], &["1..=1000"]);
    refused(&["delivery", "add-budget", "--subscription", SUBSCRIPTION, "--add", "1"], &["--delivery", "--all"]);
    refused(&["delivery", "list", "--subscription", SUBSCRIPTION, "--state", "lost"], &["ready, leased, expired"]);
    refused(&["publish", "--queue", "q", "--operation", "o", "--status", "done"], &["succeeded"]);
    refused(&["publish", "--queue", "q"], &["--operation", "--status"]);
    refused(&["publish", "--ndjson", "-", "--task", SUBSCRIPTION], &["--task", "--ndjson"]);
}

#[test]
fn a_duration_needs_a_unit_and_more_than_zero() {
    for bad in ["30", "0s", "1.5s", "-1s", "5 m", "1y"] {
        let argument = format!("--retry-for={bad}");
        refused(&["publish", "--ndjson", "-", &argument], &["--retry-for", "with a unit", "`30s`"]);
    }
}

#[test]
fn only_http_and_websocket_urls_without_secrets_are_taken() {
    for bad in ["ftp://127.0.0.1", "127.0.0.1:7878", "http://user:pass@127.0.0.1", "http://127.0.0.1/?a=b", ""] {
        refused(&["subscription", "list", "--url", bad], &["--url"]);
    }
}

#[test]
fn plaintext_beyond_this_machine_has_to_be_allowed() {
    for url in ["http://192.0.2.1", "ws://events.example"] {
        refused(&["subscription", "list", "--url", url], &["--allow-plaintext"]);
    }
}

#[test]
fn a_certificate_and_its_key_come_together() {
    refused(&["subscription", "list", "--cert", "c.pem"], &["--key"]);
    refused(&["subscription", "list", "--key", "k.pem"], &["--cert"]);
}

#[test]
fn a_credential_comes_from_the_variable_or_a_file_and_never_shows() {
    run(&mut perilune(["subscription", "list"]))
        .expect_code(2)
        .expect_stderr(&["PERILUNE_CREDENTIAL", "--credential-file"]);
    refused(&["subscription", "list", "--credential-file", "/nowhere/at/all"], &["/nowhere/at/all", "can't be read"]);
    let broken = run(perilune(["subscription", "list"]).env("PERILUNE_CREDENTIAL", "two\nlines")).expect_code(2);
    assert!(!broken.stderr.contains("two"), "{broken:?}");
    refused(&["subscription", "list", "--credential", "secret"], &["--credential"]);
}

#[test]
fn a_log_filter_that_can_t_be_read_is_refused() {
    refused(&["--log", "a=b=c", "subscription", "list"], &["--log", "warn"]);
}

#[test]
fn a_platform_that_is_not_there_is_a_failure_and_no_usage_error() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let url = format!("http://{gone}");
    run(perilune(["subscription", "list", "--url", &url]).env("PERILUNE_CREDENTIAL", "secret"))
        .expect_code(1)
        .expect_stderr(&[&url, "refused"]);
}

#[test]
fn a_bad_value_is_blamed_on_the_variable_that_it_came_from() {
    let refused = |arguments: &[&str], variable: &str, value: &str| {
        let mut command = perilune(arguments);
        let done = run(command.env("PERILUNE_CREDENTIAL", "secret").env(variable, value)).expect_code(2);
        let first = done.stderr.lines().next().unwrap_or_default().to_owned();
        assert!(first.contains(variable) && !first.contains("--"), "{variable}: {first}");
        assert!(!done.stderr.contains("password"), "{variable}: {}", done.stderr);
    };
    let consume = ["consume", "--subscription", SUBSCRIPTION, "--print"];
    refused(&consume, "PERILUNE_CAPACITY", "33");
    refused(&consume, "PERILUNE_SHUTDOWN_TIMEOUT", "6m");
    refused(&consume, "PERILUNE_NOTICES", "perhaps");
    refused(&consume, "PERILUNE_CAPACITY", "");
    refused(&["consume", "--print"], "PERILUNE_SUBSCRIPTION", "42");
    refused(&["subscription", "list"], "PERILUNE_JSON", "perhaps");
    refused(&["subscription", "list"], "PERILUNE_LOG", "a=b=c");
    refused(&["subscription", "list"], "PERILUNE_LOG_FORMAT", "xml");
    refused(&["subscription", "list"], "PERILUNE_CA_FILE", "/nowhere/at/all");
    refused(&["serve"], "PERILUNE_LEASE_MS", "1");
    // These may hold a password, which the error must not repeat.
    refused(&["subscription", "list"], "PERILUNE_URL", "ftp://user:password@host");
    refused(&["serve"], "PERILUNE_DATABASE", "oracle://user:password@host/db");
    let list = ["hold", "list", "--operation", &"0".repeat(32)];
    refused(&list, "PERILUNE_APPLICATION_DATABASE", "oracle://user:password@host/db");
    // The flag, where it was given: it goes before the variable.
    for flag in [&["--capacity", "33"][..], &["--capacity=33"]] {
        let mut command = perilune(consume.iter().chain(flag));
        run(command.env("PERILUNE_CAPACITY", "2")).expect_code(2).expect_stderr(&["'--capacity <N>'"]);
    }
}

#[test]
fn the_first_wait_of_a_subscription_is_at_most_the_longest() {
    let create = ["subscription", "create", "--name", "n", "--queues", "a", "--backoff-min", "5s", "--backoff-max"];
    refused(&[&create[..], &["1s"]].concat(), &["--backoff-min is 5s", "at most --backoff-max, which is 1s"]);
}

#[test]
fn a_command_that_looks_for_a_credential_makes_no_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("typo.db");
    let database = format!("sqlite:{}", file.display());
    for action in [&["list"][..], &["rotate", "--name", "n"], &["revoke", "--name", "n"]] {
        let arguments = [&["credential"][..], action, &["--database", &database]].concat();
        run(&mut perilune(arguments)).expect_code(1).expect_stderr(&["there is no database", "typo.db"]);
    }
    assert!(!file.exists());
}
