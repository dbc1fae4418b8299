//! A stderr that nobody reads: it costs log lines, never the work and never the stop.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::cli_platform::Platform;
use super::cli_process::{PATIENCE, perilune};

/// A stream that has no room for another byte, and its other end, which nobody reads.
fn full() -> (Stdio, UnixStream) {
    let (writer, reader) = UnixStream::pair().expect("a pair");
    writer.set_nonblocking(true).expect("set");
    // Ever smaller, until not even one byte has a place.
    for size in [4096, 64, 1] {
        while (&writer).write(&vec![b'x'; size]).is_ok() {}
    }
    writer.set_nonblocking(false).expect("set");
    (OwnedFd::from(writer).into(), reader)
}

/// A run whose stderr is full; killed when it is dropped.
struct Deaf {
    child: Child,
    stdout: BufReader<ChildStdout>,
    _unread: UnixStream,
}

impl Deaf {
    fn start(command: &mut Command) -> Self {
        let (stderr, unread) = full();
        let mut child = command.stderr(stderr).spawn().expect("the binary runs");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdout, _unread: unread }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }

    #[track_caller]
    fn expect_end(&mut self, signal: &str, code: i32) {
        let sent = Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return assert_eq!(status.code(), Some(code));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("it did not end on SIG{signal}");
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_consumer_handles_events_and_stops_while_nobody_reads_its_notices_or_logs() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    let chatters = [&["--notices"][..], &["--log", "debug"], &["--notices", "--log", "trace", "--log-format", "json"]];
    for (round, chatter) in chatters.into_iter().enumerate() {
        let arguments = ["consume", "--subscription", &subscription, "--print"];
        let mut consumer = Deaf::start(platform.command(&arguments).args(chatter));
        // Twice the capacity: those behind the first four come only when those are acknowledged.
        platform.publish(&format!("{{\"payload\":{round}}}\n").repeat(8)).expect_code(0);
        for _ in 0..8 {
            assert!(consumer.line().starts_with("{\"event_id\""), "{chatter:?}");
        }
        consumer.expect_end("TERM", 0);
    }
    assert_eq!(platform.figure(&subscription, "acknowledged"), 24);
}

#[test]
fn a_server_answers_and_stops_while_nobody_reads_its_logs() {
    let platform = Platform::start();
    let database = format!("sqlite:{}", platform.path("deaf.db"));
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--log", "trace", "--database", &database];
    let mut server = Deaf::start(&mut perilune(arguments));
    let line = server.line();
    let address = line.trim_end().rsplit_once("//").expect("a URL").1.to_owned();
    for _ in 0..3 {
        let mut connection = std::net::TcpStream::connect(&address).expect("it listens");
        write!(connection, "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    }
    server.expect_end("TERM", 0);
}

#[test]
fn an_unread_error_changes_no_exit_code_and_a_second_interrupt_still_ends_at_once() {
    let platform = Platform::start();
    let unknown = "0".repeat(32);
    let (stderr, _unread) = full();
    let mut command = platform.command(&["consume", "--subscription", &unknown, "--print", "--notices"]);
    assert_eq!(command.stderr(stderr).status().expect("the binary runs").code(), Some(3));

    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let begun = platform.path("begun");
    // A shell tells of a child that a signal ended, and would wait for its reader itself.
    let script =
        format!("exec 2>/dev/null; trap 'touch {begun}.told' TERM; touch {begun}; while :; do sleep 0.05; done");
    let arguments = ["consume", "--subscription", &subscription, "--exec", &script, "--log", "trace"];
    let mut consumer = Deaf::start(&mut platform.command(&arguments));
    let appears = |path: &str| {
        while !std::path::Path::new(path).exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    appears(&begun);
    let first = Command::new("kill").args(["-INT".to_owned(), consumer.child.id().to_string()]).status();
    assert!(first.expect("kill runs").success());
    appears(&format!("{begun}.told"));
    consumer.expect_end("INT", 130);
}

#[test]
fn what_a_command_said_before_its_end_is_there_complete_and_in_order() {
    let platform = Platform::start();
    let lines = "no json\n".repeat(3_000);
    let done = platform.publish(&lines).expect_code(1);
    let told = done.stderr.lines().filter_map(|line| line.strip_prefix("line ")?.split_once(':')?.0.parse().ok());
    assert_eq!(told.collect::<Vec<u32>>(), (1..=3_000).collect::<Vec<_>>());
    assert!(done.stderr.ends_with("error: 3000 lines were refused\n"), "{}", done.stderr);
}
