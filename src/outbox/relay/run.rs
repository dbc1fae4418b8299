//! One claim, one message, one round of upkeep: what the relay's tasks do.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use perilune_proto::rng::Rng;
use tokio::time::{Instant, timeout_at};

use super::RelayOptions;
use crate::outbox::Outbox;
use crate::outbox::message::Outgoing;
use crate::outbox::sender::{Remedy, SendFailure, Sender};
use crate::outbox::store::{ClaimedRow, End, Lane, OutboxStore};
use crate::sql::{SqlError, Writer};

/// Attempts at noting how a message ended, where the database does not take it at once.
const NOTE_ATTEMPTS: u32 = 5;
/// The first wait between them; it doubles.
const NOTE_WAIT: Duration = Duration::from_millis(50);
/// Longest wait that a receiver may ask for.
const RECEIVER_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// The failure's code of a row that is no message.
const MALFORMED: &str = "MALFORMED";
/// That of a message that nobody has judged and whose attempts are spent: each of its relays ended while it sent it.
const ATTEMPTS_SPENT: &str = "ATTEMPTS_SPENT";
/// That of a message that was not sent, since its claim might have lapsed meanwhile.
const RELAY_LATE: &str = "RELAY_LATE";

/// What the relay's tasks share.
pub(super) struct Desk<DB: OutboxStore, S: Sender> {
    outbox: Outbox<DB>,
    writer: Writer<DB>,
    sender: S,
    options: RelayOptions,
}

/// How an attempt went.
enum Went {
    Sent,
    Again {
        wait: Duration,
        code: String,
    },
    OutOfReach {
        wait: Duration,
        code: String,
    },
    /// Not sent at all.
    Late,
    Dead {
        code: String,
    },
}

impl<DB: OutboxStore, S: Sender> Desk<DB, S> {
    pub(super) const fn new(outbox: Outbox<DB>, writer: Writer<DB>, sender: S, options: RelayOptions) -> Self {
        Self { outbox, writer, sender, options }
    }

    /// Claims up to `limit` due rows.
    pub(super) async fn claim(&self, limit: u32) -> Result<Vec<Outgoing>, SqlError> {
        let claim = format!("{:032x}", rand::random::<u128>());
        let send_by = Instant::now() + self.options.claim_limit();
        let (writer, sql, token) = (self.writer.clone(), self.outbox.sql.clone(), claim.clone());
        let ttl_us = micros(self.options.claim_ttl());
        let claimed = self.writer.in_task(async move {
            writer.transaction(async |on| Ok(DB::claim(on, &sql, &token, ttl_us, limit).await?)).await
        });
        let mut rows = claimed.await?;
        rows.sort_unstable_by_key(|row| row.0);
        let mut messages = Vec::with_capacity(rows.len());
        for row in rows {
            match outgoing(row, &claim, send_by) {
                Ok(message) => messages.push(message),
                Err(slip) => {
                    tracing::error!(row = slip.row, "a row of the outbox is no message, and dead");
                    metrics::counter!("perilune_outbox_malformed_total").increment(1);
                    self.note(slip, Went::Dead { code: MALFORMED.to_owned() }).await;
                }
            }
        }
        Ok(messages)
    }

    /// Sends one message, where it may be sent still, and notes how it went.
    pub(super) async fn send(&self, message: Outgoing) {
        let topic = message.topic.to_string();
        let went = if Instant::now() > message.send_by {
            // So slow a database, or so long held up a thread, that another relay may send it by now.
            Went::Late
        } else if message.attempt > self.options.attempts_max {
            Went::Dead { code: ATTEMPTS_SPENT.to_owned() }
        } else {
            self.attempt(&message).await
        };
        let outcome = match &went {
            Went::Sent => "sent",
            Went::Again { .. } => "retried",
            Went::OutOfReach { .. } => "out_of_reach",
            Went::Late => "late",
            Went::Dead { .. } => "dead",
        };
        metrics::counter!("perilune_outbox_messages_total", "topic" => topic, "outcome" => outcome).increment(1);
        if let Went::Dead { code } = &went {
            tracing::error!(message_id = %message.id, topic = %message.topic, code, "a message is dead");
        }
        self.note(Slip::of(&message), went).await;
    }

    async fn attempt(&self, message: &Outgoing) -> Went {
        let began = Instant::now();
        // Both the call and the future are user code.
        let sending = AssertUnwindSafe(async { self.sender.send(message).await }).catch_unwind();
        let failure = match timeout_at(began + self.options.send_timeout, sending).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(failure))) => Some(failure),
            Ok(Err(_panic)) => Some(SendFailure::retry("SENDER_PANICKED")),
            Err(_elapsed) => {
                let told = std::panic::catch_unwind(AssertUnwindSafe(|| self.sender.timed_out(message)));
                Some(told.unwrap_or_else(|_panic| SendFailure::retry("SENDER_PANICKED")))
            }
        };
        metrics::histogram!("perilune_outbox_send_seconds", "topic" => message.topic.to_string())
            .record(began.elapsed());
        failure.map_or(Went::Sent, |failure| self.judge(message, &failure))
    }

    fn judge(&self, message: &Outgoing, failure: &SendFailure) -> Went {
        let code = failure.code().to_owned();
        match failure.remedy() {
            Remedy::None => Went::Dead { code },
            Remedy::Retry(_) if message.attempt >= self.options.attempts_max => Went::Dead { code },
            Remedy::Retry(asked) => Went::Again { wait: self.wait(message.attempt, asked), code },
            Remedy::OutOfReach(asked) => {
                // Attempts are not counted, so its age tells how long it has waited already.
                let age = SystemTime::now().duration_since(message.created_at).unwrap_or_default();
                let least = self.options.backoff.min().as_micros().max(1);
                let doublings = (age.as_micros() / least).checked_ilog2().unwrap_or(0);
                Went::OutOfReach { wait: self.wait(doublings + 1, asked), code }
            }
        }
    }

    fn wait(&self, attempt: u32, asked: Duration) -> Duration {
        self.options.backoff.draw(attempt, &mut Rng::new(rand::random())).max(asked.min(RECEIVER_WAIT_MAX))
    }

    /// Notes how a message went. Where that fails the claim lapses and the message goes out once more.
    async fn note(&self, slip: Slip, went: Went) {
        let (slip, went) = (Arc::new(slip), Arc::new(went));
        let mut wait = NOTE_WAIT;
        for attempt in 1..=NOTE_ATTEMPTS {
            let (writer, outbox) = (self.writer.clone(), self.outbox.clone());
            let (note, how) = (Arc::clone(&slip), Arc::clone(&went));
            let noting = async move { writer.transaction(async |on| Ok(outbox.note(on, &note, &how).await?)).await };
            match self.writer.in_task(noting).await {
                Ok(Held::Yes) => return,
                // As was feared.
                Ok(Held::No) if matches!(*went, Went::Late) => return,
                Ok(Held::No) => {
                    tracing::warn!(message_id = %slip.id, "a message's claim had lapsed; it may be sent twice");
                    return;
                }
                Err(error) if attempt < NOTE_ATTEMPTS => {
                    tracing::debug!(message_id = %slip.id, %error, "how a message went is noted again");
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
                Err(error) => {
                    metrics::counter!("perilune_outbox_note_failures_total").increment(1);
                    tracing::warn!(message_id = %slip.id, %error, "a message may be sent twice");
                }
            }
        }
    }

    /// Looks after rows that were left behind, and measures the lag.
    pub(super) async fn upkeep(&self) {
        let (writer, sql) = (self.writer.clone(), self.outbox.sql.clone());
        let done = self.writer.in_task(async move {
            writer.transaction(async |on| Ok((DB::mend(on, &sql).await?, DB::lag(on, &sql).await?))).await
        });
        match done.await {
            Ok((mended, lag)) => {
                if mended > 0 {
                    tracing::warn!(mended, "messages had been left behind by writers above READ COMMITTED");
                }
                let lag = Duration::from_micros(lag.unwrap_or(0).max(0).cast_unsigned());
                metrics::gauge!("perilune_outbox_lag_seconds").set(lag.as_secs_f64());
            }
            Err(error) => tracing::debug!(%error, "the outbox's upkeep waits for its next turn"),
        }
    }
}

/// What is needed to note how a claimed row ended.
struct Slip {
    row: i64,
    claim: String,
    /// As the columns hold them: they need not be what they should.
    id: String,
    order_key: Option<String>,
}

impl Slip {
    fn of(message: &Outgoing) -> Self {
        let order_key = message.order_key.as_ref().map(|key| key.as_str().to_owned());
        Self { row: message.row, claim: message.claim.clone(), id: message.id.to_string(), order_key }
    }
}

/// Whether a claim still held when its message's end was noted.
enum Held {
    Yes,
    No,
}

impl<DB: OutboxStore> Outbox<DB> {
    /// Notes how a message went, and makes the next of its key ready where it is out of the way.
    async fn note(&self, on: &mut DB::Connection, slip: &Slip, went: &Went) -> Result<Held, sqlx::Error> {
        let (row, claim) = (slip.row, slip.claim.as_str());
        let set = &self.sql.0;
        let key = slip.order_key.as_deref();
        let (statement, end, leaves) = match went {
            Went::Sent => (&set.sent, End::Sent { row, claim }, key),
            Went::Again { wait, code } => {
                (&set.again, End::Again { row, claim, delay_us: micros(*wait), failure: code }, None)
            }
            Went::OutOfReach { wait, code } => {
                (&set.given_back, End::Again { row, claim, delay_us: micros(*wait), failure: code }, None)
            }
            Went::Late => (&set.given_back, End::Again { row, claim, delay_us: 0, failure: RELAY_LATE }, None),
            Went::Dead { code } => (&set.dead, End::Dead { row, claim, failure: code }, key),
        };
        // Before the row, in the order of every writer.
        if let Some(key) = leaves {
            DB::lock_lane(on, &self.sql, Lane::of(&self.prefix, key)).await?;
        }
        if !DB::end(on, statement, end).await? {
            return Ok(Held::No);
        }
        if let Some(key) = leaves {
            self.promote_head(on, key).await?;
        }
        Ok(Held::Yes)
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A row from its columns, or what is needed to bury it where somebody has edited it to what is no message: it would come
/// again and again, and hold its key back.
fn outgoing(
    (row, id, topic, key, content_type, body, attempts, created): ClaimedRow,
    claim: &str,
    send_by: Instant,
) -> Result<Outgoing, Slip> {
    let order_key = key.as_deref().map(str::parse).transpose();
    let (Ok(id), Ok(topic), Ok(order_key)) = (id.parse(), topic.parse(), order_key) else {
        return Err(Slip { row, claim: claim.to_owned(), id, order_key: key });
    };
    Ok(Outgoing {
        row,
        claim: claim.to_owned(),
        send_by,
        id,
        topic,
        order_key,
        content_type,
        body,
        attempt: attempts.max(1).cast_unsigned(),
        created_at: SystemTime::UNIX_EPOCH + Duration::from_micros(created.max(0).cast_unsigned()),
    })
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use sqlx::Sqlite;

    use super::*;
    use crate::outbox::Message;
    use crate::sql::{Engine as _, PoolSettings};

    /// Counts what it is given.
    struct Counting(Rc<Cell<u32>>);

    impl Sender for Counting {
        async fn send(&self, _: &Outgoing) -> Result<(), SendFailure> {
            self.0.set(self.0.get() + 1);
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_message_whose_claim_may_have_lapsed_is_not_sent_but_given_back_at_no_cost() {
        let url = "sqlite::memory:".parse().expect("a URL");
        let pool = Sqlite::open(&url, &PoolSettings::default()).await.expect("opened");
        let outbox = Outbox::<Sqlite>::new();
        outbox.migrate(&pool).await.expect("migrated");
        let mut tx = pool.begin().await.expect("a transaction");
        outbox.write(&mut tx, &Message::new("topic", "x").expect("a message")).await.expect("written");
        tx.commit().await.expect("committed");

        let sent = Rc::new(Cell::new(0));
        let options = RelayOptions::default().attempts_max(1).expect("an attempt");
        let desk = Desk::new(outbox, Writer::new(pool).expect("a runtime"), Counting(Rc::clone(&sent)), options);
        for late in 1..=3 {
            let mut claimed = desk.claim(1).await.expect("claimed");
            let mut message = claimed.pop().expect("it is due");
            assert_eq!(message.attempt, 1, "late {late} times: none of them was an attempt");
            // The database took so long, or the thread was held up.
            message.send_by = Instant::now() - Duration::from_millis(1);
            desk.send(message).await;
            assert_eq!(sent.get(), 0, "another relay may be sending it");
        }
        let message = desk.claim(1).await.expect("claimed").pop().expect("due at once");
        desk.send(message).await;
        assert_eq!(sent.get(), 1);
        assert!(desk.claim(1).await.expect("claimed").is_empty(), "it is sent and gone");
    }
}
