//! Accepted operations on their way to the platform.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use perilune::outbox::{Outbox, OutboxStore, Relay};
use perilune::outcome::protect::KeyRing;
use perilune::outcome::{DispatchError, NoOtherTopics, OperationId, Operations, Origin, OutcomeEngine, PlatformSender};
use perilune_actors::client::{Client, Credential};
use perilune_proto::Status;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::retention::{later, policy, purge_all};
use super::{GenerateReport, apply, event, key, operations, operations_with};
use crate::engines::{Site, TestEngine, on_every_engine};
use crate::outbox::{quick, until_rows};

on_every_engine! {
    a_dispatched_operation_reaches_the_platform_with_its_input,
    an_operation_that_events_have_told_of_is_not_sent_again,
    an_operation_accepted_long_ago_is_sent_only_where_the_platform_does_not_have_it,
    an_outage_never_makes_an_accepted_operation_a_dead_letter,
    what_the_platform_says_of_an_operation_counts,
    an_undispatched_operation_is_never_due,
    an_operation_that_ended_before_its_dispatch_was_sent_needs_no_input,
    an_input_that_can_not_be_opened_is_a_dead_letter,
    an_input_that_the_platform_would_not_take_is_refused,
}

/// Instead of a status: the connection is closed, or left open without an answer.
const CLOSED: &str = "closed";
const SILENT: &str = "silent";

/// A platform that notes requests and answers them by the statuses it is given, then by 201.
#[derive(Clone, Default)]
struct Platform {
    seen: Rc<RefCell<Vec<String>>>,
    answers: Rc<RefCell<VecDeque<&'static str>>>,
    silent: Rc<RefCell<Vec<TcpStream>>>,
}

impl Platform {
    /// Starts it and makes a client of it.
    async fn start(answers: &[&'static str]) -> (Self, Client) {
        let platform = Self { answers: Rc::new(RefCell::new(answers.iter().copied().collect())), ..Self::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let this = platform.clone();
        actix_rt::spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                this.answer(peer).await;
            }
        });
        let credential = Credential::new("s3cret").expect("a credential");
        (platform, Client::builder(url).credential(credential).build().expect("a client"))
    }

    async fn answer(&self, mut peer: TcpStream) {
        let mut request = Vec::new();
        let whole = |request: &[u8]| {
            let text = String::from_utf8_lossy(request);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            body.len() >= length.unwrap_or(0)
        };
        while !whole(&request) {
            if peer.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return;
            }
        }
        self.seen.borrow_mut().push(String::from_utf8(request).expect("text"));
        let status = self.answers.borrow_mut().pop_front().unwrap_or("201 Created");
        match status {
            CLOSED => return,
            SILENT => return self.silent.borrow_mut().push(peer),
            _ => {}
        }
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _gone = peer.write_all(text.as_bytes()).await;
    }

    /// The first lines of the requests.
    fn asked(&self) -> Vec<String> {
        let line = |request: &String| request.lines().next().unwrap_or_default().replace(" HTTP/1.1", "");
        self.seen.borrow().iter().map(line).collect()
    }
}

fn outbox<DB: TestEngine>(site: &Site<DB>) -> Outbox<DB> {
    site.outbox()
}

/// Accepts an operation with an outbox row.
pub(super) async fn dispatch<DB>(site: &Site<DB>, operations: &Operations<DB>, input: &str) -> OperationId
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let queue = "reports".parse().expect("a name");
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let accepted = operations
        .accept_and_dispatch::<GenerateReport>(
            &mut transaction,
            &outbox(site),
            &queue,
            &input.to_owned(),
            Origin { tenant: Some("acme".to_owned()), actor: None },
        )
        .await
        .expect("accepted");
    transaction.commit().await.expect("committed");
    accepted.operation_id
}

/// Runs a relay until the outbox has that many rows left.
async fn relay<DB>(site: &Site<DB>, operations: &Operations<DB>, client: Client, rows: i64)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let sender = PlatformSender::new(client, operations, NoOtherTopics);
    let relay = Relay::start(&outbox(site), site.pool.clone(), sender, quick()).expect("started");
    until_rows(site, rows).await;
    relay.drain().await;
}

/// What a task of an operation says.
fn told(id: OperationId, version: u64, status: Status) -> perilune_proto::ResultEvent {
    let mut event = event(1, version, status);
    event.snapshot.task_id = id.task_id();
    event
}

async fn a_dispatched_operation_reaches_the_platform_with_its_input<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    let id = dispatch(&site, &operations, "the \"quarter\"").await;
    let (platform, client) = Platform::start(&["503 Busy"]).await;
    relay(&site, &operations, client, 0).await;
    let path = format!("POST /v1/queues/reports/tasks/{id}/events");
    assert_eq!(platform.asked(), [path.clone(), path], "once more after a 503");
    for request in platform.seen.borrow().iter() {
        let (head, body) = request.split_once("\r\n\r\n").expect("a body");
        assert_eq!(body, r#"{"operation":"GenerateReport","status":"accepted","payload":"the \"quarter\""}"#);
        let head = head.to_ascii_lowercase();
        assert!(head.contains(&format!("idempotency-key: {id}")), "{head}");
        assert!(head.contains("authorization: bearer s3cret"), "{head}");
    }
    site.close().await;
}

async fn an_operation_that_events_have_told_of_is_not_sent_again<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    let id = dispatch(&site, &operations, "q").await;
    // The platform has it: a relay sent it and died before it noted so.
    apply(&site, &operations, &told(id, 2, Status::Started)).await.expect("applied");
    let (platform, client) = Platform::start(&[]).await;
    relay(&site, &operations, client, 0).await;
    assert!(platform.asked().is_empty(), "another `accepted` would step it back: {:?}", platform.asked());
    assert_eq!(site.number("SELECT COUNT(*) FROM {p}operations WHERE state = 'running'").await, 1);
    site.close().await;
}

async fn an_operation_accepted_long_ago_is_sent_only_where_the_platform_does_not_have_it<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    for (answers, posts) in [(&["200 OK"][..], 0), (&["503 Busy", "404 Not Found"][..], 1)] {
        let id = dispatch(&site, &operations, "q").await;
        site.run("UPDATE {p}operations SET accepted_at = accepted_at - 86400000000").await;
        let (platform, client) = Platform::start(answers).await;
        relay(&site, &operations, client, 0).await;
        let mut expected = vec![format!("GET /v1/tasks/{id}"); answers.len()];
        expected.extend((0..posts).map(|_| format!("POST /v1/queues/reports/tasks/{id}/events")));
        assert_eq!(platform.asked(), expected);
    }
    site.close().await;
}

async fn an_outage_never_makes_an_accepted_operation_a_dead_letter<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    dispatch(&site, &operations, "q").await;
    let outage = [CLOSED, "503 Busy", "401 Unauthorized", SILENT, "429 Slow", "502 Bad Gateway", CLOSED, "500 Broken"];
    let (platform, client) = Platform::start(&outage).await;
    let options = quick().attempts_max(1).and_then(|options| options.send_timeout(Duration::from_secs(1)));
    let sender = PlatformSender::new(client, &operations, NoOtherTopics);
    let relay =
        Relay::start(&outbox(&site), site.pool.clone(), sender, options.expect("within the ranges")).expect("started");
    until_rows(&site, 0).await;
    relay.drain().await;
    assert!(platform.asked().len() > outage.len(), "{:?}", platform.asked());
    site.close().await;
}

async fn what_the_platform_says_of_an_operation_counts<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    for (answers, asked) in [(&["403 Forbidden", "503 Busy", "403 Forbidden"][..], 3), (&["422 Bad Value"], 1)] {
        dispatch(&site, &operations, "q").await;
        let (platform, client) = Platform::start(answers).await;
        let options = quick().attempts_max(2).expect("within the range");
        let sender = PlatformSender::new(client, &operations, NoOtherTopics);
        let relay = Relay::start(&outbox(&site), site.pool.clone(), sender, options).expect("started");
        let dead = until_dead(&site, 1).await;
        relay.drain().await;
        assert_eq!(platform.asked().len(), asked);
        assert!(outbox(&site).discard(&site.pool, dead[0].row).await.expect("gone"));
    }
    site.close().await;
}

async fn an_undispatched_operation_is_never_due<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    dispatch(&site, &operations, "q").await;
    let plan = operations.plan(&policy(), later()).await.expect("planned");
    assert!(plan.targets.iter().all(|target| target.due == 0), "{plan:?}");
    assert_eq!(purge_all(&operations).await.inputs_deleted, 0);
    let (platform, client) = Platform::start(&[]).await;
    relay(&site, &operations, client, 0).await;
    assert_eq!(platform.asked().len(), 1, "its input was there to be sent");
    site.close().await;
}

async fn an_operation_that_ended_before_its_dispatch_was_sent_needs_no_input<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    let id = dispatch(&site, &operations, "q").await;
    apply(&site, &operations, &told(id, 2, Status::Succeeded)).await.expect("applied");
    assert_eq!(purge_all(&operations).await.inputs_deleted, 1);
    let (platform, client) = Platform::start(&[]).await;
    relay(&site, &operations, client, 0).await;
    assert!(platform.asked().is_empty(), "{:?}", platform.asked());
    site.close().await;
}

async fn an_input_that_can_not_be_opened_is_a_dead_letter<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let first = operations(&site).await;
    let altered = dispatch(&site, &first, "q").await;
    site.run("UPDATE {p}operations SET tenant = 'other'").await;
    let lost = operations_with(&site, KeyRing::new(key(2))).await;
    let missing = dispatch(&site, &lost, "q").await;
    site.run(&format!("DELETE FROM {{p}}operation_inputs WHERE operation_id = '{missing}'")).await;
    for (operations, expected) in [(&first, "INPUT_UNREADABLE"), (&lost, "UNKNOWN_KEY")] {
        let (platform, client) = Platform::start(&[]).await;
        let sender = PlatformSender::new(client, operations, NoOtherTopics);
        let relay = Relay::start(&outbox(&site), site.pool.clone(), sender, quick()).expect("started");
        let dead = until_dead(&site, 2).await;
        relay.drain().await;
        assert!(platform.asked().is_empty(), "nothing is sent");
        assert_eq!(dead[0].failure.as_deref(), Some(expected), "{altered}");
        assert_eq!(dead[1].failure.as_deref(), Some("INPUT_MISSING"));
        for letter in dead {
            assert!(outbox(&site).requeue(&site.pool, letter.row).await.expect("requeued"));
        }
    }
    site.close().await;
}

async fn until_dead<DB: TestEngine>(site: &Site<DB>, letters: usize) -> Vec<perilune::outbox::DeadLetter> {
    for _ in 0..3_000 {
        let dead = outbox(site).dead_letters(&site.pool, 0, 10).await.expect("read");
        if dead.len() == letters {
            return dead;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never {letters} dead letters");
}

async fn an_input_that_the_platform_would_not_take_is_refused<DB>(site: Site<DB>)
where
    DB: TestEngine + OutcomeEngine + OutboxStore,
{
    let operations = operations(&site).await;
    let queue = "reports".parse().expect("a name");
    let mut transaction = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("begun");
    let long = "x".repeat(520_000);
    let refused = operations
        .accept_and_dispatch::<GenerateReport>(&mut transaction, &outbox(&site), &queue, &long, Origin::default())
        .await;
    let error = refused.expect_err("too long");
    assert!(matches!(error, DispatchError::Input));
    assert_eq!(error.to_string(), "input must be JSON of at most 520000 bytes, nested at most 61 levels");
    transaction.commit().await.expect("committed");
    for table in ["operations", "operation_inputs", "outbox"] {
        assert_eq!(site.number(&format!("SELECT COUNT(*) FROM {{p}}{table}")).await, 0, "{table}");
    }
    site.close().await;
}
