//! Wrong calls of `consume`, refused before anything is dialled.

use super::cli_process::{perilune, run};

#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let mut command = perilune(["consume", "--subscription", "0123456789abcdef0123456789abcdef"]);
    command.args(arguments).env("PERILUNE_CREDENTIAL", "secret");
    run(&mut command).expect_code(2).expect_stderr(parts);
}

#[test]
fn a_blank_command_would_acknowledge_everything_and_is_refused() {
    for blank in ["", "   ", "\t\n"] {
        let arguments = ["consume", "--subscription", "0123456789abcdef0123456789abcdef", "--exec", blank];
        run(perilune(arguments).env("PERILUNE_CREDENTIAL", "secret"))
            .expect_code(2)
            .expect_stderr(&["--exec", "must be a command, not blank"]);
    }
}

#[test]
fn exactly_one_sink_is_named() {
    refused(&[], &["--print", "--exec", "--forward-to"]);
    refused(&["--print", "--exec", "true"], &["--print", "--exec"]);
    refused(&["--print", "--forward-to", "http://127.0.0.1:1"], &["--print", "--forward-to"]);
}

#[test]
fn every_option_keeps_its_range() {
    for (argument, parts) in [
        ("--capacity=0", ["--capacity", "1..=32"]),
        ("--capacity=33", ["--capacity", "1..=32"]),
        ("--max-events=0", ["--max-events", ""]),
        ("--shutdown-timeout=0s", ["--shutdown-timeout", "with a unit"]),
        ("--shutdown-timeout=301s", ["--shutdown-timeout", "from 1ms to 5m"]),
        ("--reconnect-min-delay=9ms", ["--reconnect-min-delay", "from 10ms to 30s"]),
        ("--reconnect-max-delay=31s", ["--reconnect-max-delay", "from 10ms to 30s"]),
        ("--reconnect-max-delay=100ms", ["reconnect-max-delay", "200"]),
    ] {
        refused(&["--print", argument], &parts);
    }
}

#[test]
fn an_inbox_and_a_consumer_s_name_come_together() {
    refused(&["--print", "--inbox", "sqlite::memory:"], &["--inbox", "--consumer"]);
    refused(&["--print", "--consumer", "test"], &["--consumer", "--inbox"]);
    refused(&["--print", "--inbox", "oracle:x", "--consumer", "test"], &["sqlite:, postgres:// or mysql://"]);
    refused(&["--print", "--inbox", "sqlite::memory:", "--consumer", "a b"], &["1 to 128"]);
}

#[test]
fn a_receiver_is_an_http_url_on_this_machine_or_encrypted() {
    refused(&["--forward-to", "ftp://127.0.0.1"], &["http:// or https://"]);
    refused(&["--forward-to", "http://receiver.example/hook"], &["--forward-to", "--allow-plaintext"]);
}

#[test]
fn a_webhook_secret_is_whsec_and_base64_and_never_shows() {
    let mut command = perilune(["consume", "--subscription", "0123456789abcdef0123456789abcdef"]);
    command.args(["--forward-to", "http://127.0.0.1:1"]).env("PERILUNE_CREDENTIAL", "secret");
    let refused = run(command.env("PERILUNE_WEBHOOK_SECRET", "hush")).expect_code(2);
    let refused = refused.expect_stderr(&["PERILUNE_WEBHOOK_SECRET", "whsec_", "base64"]);
    assert!(!refused.stderr.contains("hush"), "{refused:?}");
}
