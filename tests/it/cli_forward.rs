//! `consume --forward-to` against a receiver that checks every header.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::cli_platform::{Platform, field};
use super::cli_process::{PATIENCE, Running, run};

const KEY: &[u8] = b"a key of twenty-four by.";

/// A request as it came.
#[derive(Debug)]
struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let headers = lines[1..].iter().map(|line| line.split_once(": ").expect("a header"));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let mut request = Self { line: lines[0].clone(), headers, body: Vec::new() };
        request.body = vec![0; request.header("content-length").parse().expect("a length")];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    #[track_caller]
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers)).1
    }
}

/// Answers the nth request with the nth answer, the last one for good, and passes each request on.
fn receiver(answers: &'static [&'static str]) -> (String, mpsc::Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook?from=test", listener.local_addr().expect("bound"));
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut answers = answers.iter();
        let mut answer = "200 OK";
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let Some(request) = Request::read(&stream) else { continue };
            answer = answers.next().unwrap_or(&answer);
            let head = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

#[test]
fn an_event_is_posted_as_it_is_with_a_signature_that_holds() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{\"result\":{\"n\": 9007199254740993,\t\"big\":1e400}}\n").expect_code(0);
    let (url, requests) = receiver(&["204 No Content"]);
    let arguments = ["consume", "--subscription", &subscription, "--forward-to", &url, "--max-events", "1"];
    let mut command = platform.command(&arguments);
    run(command.env("PERILUNE_WEBHOOK_SECRET", format!("whsec_{}", STANDARD.encode(KEY)))).expect_code(0);

    let request = requests.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(request.line, "POST /hook?from=test HTTP/1.1");
    assert_eq!(request.header("content-type"), "application/json");
    let body = std::str::from_utf8(&request.body).expect("UTF-8");
    assert!(body.contains("{\"n\": 9007199254740993,\t\"big\":1e400}"), "{body}");
    let (id, timestamp) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    assert_eq!(id, field(body, "event_id"));
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY).expect("any length");
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(request.header("webhook-signature"), expected);
    let age = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
        - timestamp.parse::<u64>().expect("seconds");
    assert!(age < 300, "{age}");
    assert!(request.headers.iter().all(|(name, _)| name != "authorization"), "the credential is not the receiver's");
    assert_eq!(platform.figure(&subscription, "acknowledged"), 1);
}

#[test]
fn anything_but_2xx_is_a_failure_and_no_redirect_is_followed() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let (url, requests) = receiver(&["302 Found\r\nlocation: /elsewhere", "500 Oh", "200 OK"]);
    let arguments = ["consume", "--subscription", &subscription, "--forward-to", &url, "--max-events", "1"];
    run(&mut platform.command(&arguments)).expect_code(0).expect_stderr(&["answered 302", "answered 500"]);
    let lines = requests.try_iter().map(|request| request.line).collect::<Vec<_>>();
    assert_eq!(lines, ["POST /hook?from=test HTTP/1.1"; 3], "the same event three times");
}

#[test]
fn without_a_secret_there_is_no_signature_and_a_silent_receiver_has_the_lease() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("bound"));
    let consumer =
        Running::start(&mut platform.command(&["consume", "--subscription", &subscription, "--forward-to", &url]));
    let (stream, _) = silent.accept().expect("a request");
    let request = Request::read(&stream).expect("whole");
    assert!(request.headers.iter().all(|(name, _)| name != "webhook-signature"), "{:?}", request.headers);
    // The lease of this platform is a second.
    consumer.wait_for("the lease ran out");
    consumer.signal("INT");
    consumer.finish().expect_code(0);
}
