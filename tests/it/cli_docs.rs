//! The session in docs/cli.md, run as it stands there.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use super::cli_process::Finished;

/// The document's shell blocks, one script.
fn session() -> String {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md")).expect("there");
    let mut script = String::new();
    let mut inside = false;
    for line in document.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => script.extend([line, "\n"]),
            _ => {}
        }
    }
    assert!(script.contains("perilune serve"), "the blocks were found");
    script
}

#[test]
fn the_session_in_the_document_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = Path::new(env!("CARGO_BIN_EXE_perilune"));
    let beside = binary.parent().expect("a folder").display();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let path = format!("{beside}:{}", std::env::var("PATH").expect("a path"));
    let finished: Finished = Command::new("bash")
        .args(["-euo", "pipefail", "-m", "-c", &session()])
        .current_dir(folder.path())
        .env("PATH", path)
        // The document has the defaults; a test must not meet another server there.
        .env("PERILUNE_LISTEN", format!("127.0.0.1:{port}"))
        .env("PERILUNE_URL", format!("http://127.0.0.1:{port}"))
        // A consumer that ends may have been handed one event more; its lease need not be waited for.
        .env("PERILUNE_LEASE_MS", "1000")
        .stdin(Stdio::null())
        .output()
        .expect("bash runs")
        .into();
    let finished = finished.expect_code(0);
    assert!(finished.stdout.contains("\"result\":{\"pages\": 9007199254740993}"), "{finished:?}");
    let events = std::fs::read_to_string(folder.path().join("events.ndjson")).expect("the command ran");
    assert!(events.contains("\"code\":\"NO_DATA\""), "{events}");
}

#[test]
fn every_command_is_in_the_document() {
    let document = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md")).expect("there");
    let help = super::cli_process::run(&mut super::cli_process::perilune(["--help"])).expect_code(0).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        assert!(document.contains(&format!("| `{command}")), "{command} is not in docs/cli.md");
    }
}
