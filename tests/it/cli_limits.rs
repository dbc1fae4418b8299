//! Time limits that a user sets are kept from both sides: not given up before, not outlasted.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

use super::cli_process::{Finished, perilune, run};

const OPERATION: &str = "0123456789abcdef0123456789abcdef";
/// More than a busy machine adds to a limit, and less than any timeout that is not the user's.
const LATE: Duration = Duration::from_secs(8);

/// Runs a command against `address`, and says how long it took.
fn timed(address: SocketAddr, arguments: &[&str]) -> (Finished, Duration) {
    let mut command: Command = perilune(arguments);
    command.env("PERILUNE_CREDENTIAL", "secret").env("PERILUNE_URL", format!("http://{address}"));
    let begun = Instant::now();
    let done = run(&mut command);
    (done, begun.elapsed())
}

#[track_caller]
fn kept(took: Duration, limit: Duration) {
    assert!(took >= limit && took < limit + LATE, "{took:?} of {limit:?}");
}

/// Takes connections and never says a word.
fn silent() -> (TcpListener, SocketAddr) {
    // The system completes the handshake; nobody accepts.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// Answers each request with this body, and counts.
fn answering(body: &'static str, headers: &'static str) -> (SocketAddr, std::sync::mpsc::Receiver<Instant>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (asked, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut request = [0; 4096];
            if connection.read(&mut request).is_err() || asked.send(Instant::now()).is_err() {
                continue;
            }
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    (address, requests)
}

#[test]
fn waiting_for_an_operation_ends_with_the_limit_and_asks_once_more_before_it() {
    const RUNNING: &str = r#"{"schemaVersion":1,"operationId":"0123456789abcdef0123456789abcdef","operationType":"T","state":"running","attempt":1,"reviewRequired":false}"#;
    // To be asked again after a minute: the last request is made nevertheless.
    let (address, requests) = answering(RUNNING, "retry-after: 60\r\n");
    let (done, took) = timed(address, &["operation", "wait", OPERATION, "--max-wait", "2s"]);
    done.expect_code(1).expect_stderr(&["did not end in time"]);
    kept(took, Duration::from_secs(2));
    assert_eq!(requests.try_iter().count(), 2);
}

#[test]
fn waiting_for_an_operation_of_a_silent_application_ends_with_the_limit() {
    let (_listener, address) = silent();
    let (done, took) = timed(address, &["operation", "wait", OPERATION, "--max-wait", "1s"]);
    done.expect_code(1).expect_stderr(&["did not end in time"]);
    kept(took, Duration::from_secs(1));
}

#[test]
fn publishing_is_tried_until_the_limit_and_not_beyond() {
    let publish = ["publish", "--queue", "q", "--operation", "o", "--status", "succeeded", "--retry-for", "1500ms"];
    // Nobody listens: each attempt fails at once.
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let (done, took) = timed(gone, &publish);
    done.expect_code(1).expect_stderr(&["refused"]);
    kept(took, Duration::from_millis(1500));
    // Nobody answers: the attempt is cut off.
    let (_listener, address) = silent();
    let (done, took) = timed(address, &publish);
    done.expect_code(1).expect_stderr(&["no answer"]);
    kept(took, Duration::from_millis(1500));
}
