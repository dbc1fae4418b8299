//! The outbox: written in the transaction, sent at least once, in order per key.

mod dead;
mod http;
mod metrics;
mod order;
mod sending;
mod sharing;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use perilune::outbox::{Message, Outgoing, RelayOptions, SendFailure, Sender};
use tokio::sync::Notify;

use crate::engines::{Site, TestEngine};

/// A receiver that notes what it gets and answers as it is told.
#[derive(Clone, Default)]
struct Receiver(Rc<Inner>);

#[derive(Default)]
struct Inner {
    got: RefCell<Vec<Got>>,
    /// How many further attempts of a body fail, and how.
    failing: RefCell<Vec<(String, u32, SendFailure)>>,
    changed: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Got {
    id: String,
    body: String,
    attempt: u32,
    taken: bool,
}

impl Sender for Receiver {
    async fn send(&self, message: &Outgoing) -> Result<(), SendFailure> {
        let body = String::from_utf8(message.body.clone()).expect("text");
        let answer = self.answer(&body);
        let got = Got { id: message.id.to_string(), body, attempt: message.attempt, taken: answer.is_ok() };
        self.0.got.borrow_mut().push(got);
        self.0.changed.notify_waiters();
        answer
    }
}

impl Receiver {
    /// Refuses a body some times before it takes it.
    fn fails(self, body: &str, times: u32, how: SendFailure) -> Self {
        self.0.failing.borrow_mut().push((body.to_owned(), times, how));
        self
    }

    fn answer(&self, body: &str) -> Result<(), SendFailure> {
        let mut failing = self.0.failing.borrow_mut();
        match failing.iter_mut().find(|(failing, times, _)| failing == body && *times > 0) {
            None => Ok(()),
            Some((_, times, how)) => {
                *times -= 1;
                Err(how.clone())
            }
        }
    }

    /// The bodies that it took, in order.
    fn taken(&self) -> Vec<String> {
        self.0.got.borrow().iter().filter(|got| got.taken).map(|got| got.body.clone()).collect()
    }

    fn attempts(&self) -> usize {
        self.0.got.borrow().len()
    }

    /// Waits until it holds.
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let changed = self.0.changed.notified();
                if holds(self) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(120), waiting).await;
        assert!(waited.is_ok(), "still {:?}", self.0.got.borrow());
    }
}

/// A relay that loses no time.
pub(crate) fn quick() -> RelayOptions {
    let ms = Duration::from_millis;
    RelayOptions::default()
        .poll_every(ms(10))
        .and_then(|options| options.backoff(ms(10), ms(20)))
        .and_then(|options| options.send_timeout(ms(30_000)))
        .expect("within the ranges")
}

/// A message whose body is its name.
fn message(body: &str) -> Message {
    Message::new("topic", body).expect("a message")
}

fn keyed(key: &str, body: &str) -> Message {
    message(body).in_order_of(key).expect("a key")
}

/// Writes messages, each in a transaction of its own.
async fn write<DB: TestEngine>(site: &Site<DB>, messages: impl IntoIterator<Item = Message>) {
    for message in messages {
        let mut tx = site.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        site.outbox().write(&mut tx, &message).await.expect("written");
        tx.commit().await.expect("committed");
    }
}

/// Waits until the outbox holds that many rows.
pub(crate) async fn until_rows<DB: TestEngine>(site: &Site<DB>, rows: i64) {
    until(site, "SELECT COUNT(*) FROM {p}outbox", rows).await;
}

/// Waits until a query gives that number.
async fn until<DB: TestEngine>(site: &Site<DB>, sql: &str, wanted: i64) {
    let until = std::time::Instant::now() + Duration::from_secs(120);
    while site.number(sql).await != wanted {
        assert!(std::time::Instant::now() < until, "never {wanted}: {sql}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
