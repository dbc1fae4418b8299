//! Settings: flags first, then variables, then the file.

use std::path::PathBuf;

use super::cli_process::{Finished, perilune, run};

const FILE_URL: &str = "http://127.0.0.1:1";
const VARIABLE_URL: &str = "http://127.0.0.1:2";
const FLAG_URL: &str = "http://127.0.0.1:3";

/// Gone with the test.
struct Folder(#[expect(dead_code, reason = "held for its drop")] tempfile::TempDir);

impl Folder {
    fn with(text: &str) -> (Self, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("perilune.toml");
        std::fs::write(&path, text).expect("written");
        (Self(folder), path)
    }
}

/// Lists subscriptions of a platform that is not there: the error tells which URL was called.
fn list(configuration: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Finished {
    let (_folder, path) = Folder::with(configuration);
    let mut command = perilune(["--config"]);
    command.arg(&path).args(["subscription", "list"]).args(arguments);
    run(command.env("PERILUNE_CREDENTIAL", "secret").envs(variables.iter().copied()))
}

#[test]
fn a_flag_goes_before_a_variable_before_the_file() {
    let file = format!("url = \"{FILE_URL}\"");
    list(&file, &[], &[]).expect_code(1).expect_stderr(&[FILE_URL]);
    list(&file, &[], &[("PERILUNE_URL", VARIABLE_URL)]).expect_code(1).expect_stderr(&[VARIABLE_URL]);
    list(&file, &["--url", FLAG_URL], &[("PERILUNE_URL", VARIABLE_URL)]).expect_code(1).expect_stderr(&[FLAG_URL]);
}

#[test]
fn a_command_s_own_table_goes_before_the_top_and_a_sibling_s_is_not_read() {
    let file =
        format!("url = \"{FLAG_URL}\"\n[delivery]\nurl = \"{VARIABLE_URL}\"\n[subscription]\nurl = \"{FILE_URL}\"");
    list(&file, &[], &[]).expect_code(1).expect_stderr(&[FILE_URL]);
    let nested = format!("url = \"{FLAG_URL}\"\n[subscription.list]\nurl = \"{FILE_URL}\"");
    list(&nested, &[], &[]).expect_code(1).expect_stderr(&[FILE_URL]);
}

#[test]
fn the_file_may_be_named_by_a_variable() {
    let (_folder, path) = Folder::with(&format!("url = \"{FILE_URL}\""));
    let mut command = perilune(["subscription", "list"]);
    run(command.env("PERILUNE_CREDENTIAL", "secret").env("PERILUNE_CONFIG", path))
        .expect_code(1)
        .expect_stderr(&[FILE_URL]);
}

#[test]
fn an_unknown_key_is_refused_with_the_ones_that_are_allowed() {
    let refused = list("urll = \"x\"", &[], &[]).expect_code(2);
    // Some commands have a setting named as a command is, which at the top is that command's table.
    assert!(!refused.stderr.contains(" subscription,"), "{refused:#?}");
    refused.expect_stderr(&["`urll`", "allowed are", "url", "[publish]", "[subscription]"]);
    list("[publish]\nlistne = 1", &[], &[]).expect_code(2).expect_stderr(&["`publish.listne`", "retry_for"]);
    list("[publisj]\nurl = \"x\"", &[], &[]).expect_code(2).expect_stderr(&["`publisj`"]);
    // A credential never stands in a file of settings.
    list("credential = \"secret\"", &[], &[]).expect_code(2).expect_stderr(&["`credential`", "must be a table"]);
    list("[subscription]\ncredential = \"secret\"", &[], &[])
        .expect_code(2)
        .expect_stderr(&["`subscription.credential`", "credential_file"]);
}

#[test]
fn a_bad_value_is_refused_with_its_key_and_what_is_allowed() {
    for (file, parts) in [
        ("[publish]\nretry_for = \"30\"", ["`publish.retry_for`", "with a unit"]),
        ("url = \"ftp://x\"", ["`url`", "http, https, ws, wss"]),
        ("log_format = \"xml\"", ["`log_format`", "text, json"]),
        ("allow_plaintext = \"maybe\"", ["`allow_plaintext`", ""]),
        ("url = [1]", ["`url`", "must be a string"]),
        ("publish = 1", ["`publish`", "must be a table"]),
    ] {
        list(file, &[], &[]).expect_code(2).expect_stderr(&parts).expect_stderr(&["perilune.toml"]);
    }
}

#[test]
fn a_file_that_is_no_toml_or_not_there_is_refused() {
    list("url =", &[], &[]).expect_code(2).expect_stderr(&["perilune.toml", "is not TOML"]);
    run(&mut perilune(["--config", "/nowhere.toml", "subscription", "list"]))
        .expect_code(2)
        .expect_stderr(&["/nowhere.toml", "can't be read"]);
}

#[test]
fn the_file_s_switches_work_and_the_credential_variable_goes_before_the_file_s_credential_file() {
    let file = "allow_plaintext = true\nurl = \"http://127.0.0.1:1\"\ncredential_file = \"/nowhere\"";
    list(file, &[], &[]).expect_code(1).expect_stderr(&[FILE_URL]);
    list(file, &["--credential-file", "/elsewhere"], &[]).expect_code(2).expect_stderr(&["/elsewhere"]);
}
