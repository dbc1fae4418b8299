//! Messages as HTTP requests: the idempotency key, later and never.

use std::cell::RefCell;
use std::rc::Rc;

use perilune::outbox::{HttpSender, Message, Relay};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{quick, until, until_rows, write};
use crate::engines::{Site, TestEngine, exercise};

/// An HTTP server that answers each request with the next of its answers, and keeps the requests.
async fn serve(answers: &'static [&'static str]) -> (u16, Rc<RefCell<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let requests = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&requests);
    actix_rt::spawn(async move {
        for answer in answers {
            let (mut peer, _) = listener.accept().await.expect("a client");
            let mut request = Vec::new();
            while !request.ends_with(b"!") {
                assert!(peer.read_buf(&mut request).await.expect("readable") > 0, "cut short");
            }
            kept.borrow_mut().push(String::from_utf8(request).expect("text"));
            let text = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            peer.write_all(text.as_bytes()).await.expect("written");
        }
    });
    (port, requests)
}

fn to(port: u16) -> HttpSender {
    HttpSender::new(move |topic| (topic == "report.ready").then(|| format!("http://127.0.0.1:{port}/hook")))
        .expect("a sender")
        .header("x-from", "perilune")
        .expect("a header")
}

async fn a_request_carries_the_id_and_is_repeated<DB: TestEngine>(site: Site<DB>) {
    let (port, requests) = serve(&["503 Busy\r\nRetry-After: 0", "429 Slow", "204 Fine"]).await;
    let message = Message::new("report.ready", "{\"n\":9007199254740993}!").expect("a message");
    let id = message.id().to_string();
    write(&site, [message]).await;
    let relay = Relay::start(&site.outbox(), site.pool.clone(), to(port), quick()).expect("started");
    until_rows(&site, 0).await;
    let requests = requests.borrow().clone();
    assert_eq!(requests.len(), 3);
    for request in requests.iter() {
        let lower = request.to_lowercase();
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        assert!(lower.contains(&format!("idempotency-key: {id}\r\n")), "{request}");
        assert!(lower.contains("content-type: application/json\r\n") && lower.contains("x-from: perilune\r\n"));
        assert!(request.ends_with("{\"n\":9007199254740993}!"), "{request}");
    }
    relay.drain().await;
    site.close().await;
}

async fn a_redirect_a_refusal_and_a_missing_route_are_dead<DB: TestEngine>(site: Site<DB>) {
    let (port, requests) = serve(&["302 Elsewhere\r\nLocation: http://127.0.0.1:1/", "404 Gone"]).await;
    let message = |topic| Message::new(topic, "x!").expect("a message");
    write(&site, [message("report.ready"), message("report.ready"), message("elsewhere")]).await;
    let relay = Relay::start(&site.outbox(), site.pool.clone(), to(port), quick()).expect("started");
    until(&site, "SELECT COUNT(*) FROM {p}outbox WHERE state = 2", 3).await;
    let dead = site.outbox().dead_letters(&site.pool, 0, 10).await.expect("read");
    let mut codes: Vec<_> = dead.iter().filter_map(|letter| letter.failure.clone()).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["HTTP_302", "HTTP_404", "NO_ROUTE"]);
    assert_eq!(requests.borrow().len(), 2);
    relay.drain().await;
    site.close().await;
}

#[test]
fn a_request_carries_the_id_and_is_repeated_until_it_is_taken() {
    exercise::<sqlx::Sqlite, _>(a_request_carries_the_id_and_is_repeated);
}

#[test]
fn a_redirect_a_refusal_and_a_missing_route_are_dead_at_once() {
    exercise::<sqlx::Sqlite, _>(a_redirect_a_refusal_and_a_missing_route_are_dead);
}
