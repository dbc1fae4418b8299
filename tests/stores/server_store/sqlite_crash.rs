//! A server that is killed keeps whatever it answered.
//!
//! The test runs itself as another process, which prints each answer once it has it, and kills that at any moment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use perilune::server::store::{Confirmed, HostClock, Lease, Role, SqliteStore, Store, Verdict};
use perilune_proto::event::Status;
use perilune_proto::scalar::{DeliveryId, Generation, TaskId};

use super::world::{Bearer, Reader, World, confirmation, key, keyed, random, session, sqlite_url};

/// Names the folder in the process that is to be killed.
const FOLDER: &str = "PERILUNE_TEST_CRASH_FOLDER";
const ROUNDS: usize = 12;

async fn open(folder: PathBuf) -> World {
    let store = SqliteStore::open(&sqlite_url(&folder), Role::Server, Arc::new(HostClock::new())).await;
    World::new(Arc::new(store.expect("opened")), Box::new(|_| Box::pin(std::future::ready(()))), Box::new(()))
}

/// A consumer that every process knows.
fn known_hash() -> perilune::server::store::SecretHash {
    perilune::server::store::SecretHash::of("the crash test's")
}

async fn known_reader(world: &World) -> Reader {
    let store: &dyn Store = &*world.store;
    let principal = match store.authenticate(known_hash()).await.expect("an answer") {
        Some(principal) => principal.credential_id,
        None => {
            let new = super::world::new_credential("worker", &["q"], known_hash());
            store.create_credential(new).await.expect("created").credential_id
        }
    };
    let bearer = Bearer { id: principal, hash: known_hash() };
    let list = perilune::server::store::ListSubscriptions { credential_id: principal, after: None, limit: 1 };
    match store.subscriptions(list).await.expect("a page").items.first() {
        Some(record) => Reader { bearer, id: record.subscription.subscription_id },
        None => world.reader_of(bearer, |_| ()).await,
    }
}

/// The process that is killed: reports, leases and confirms several at once, and prints what was answered.
#[tokio::test]
async fn the_server_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let world = open(folder.into()).await;
    let reader = known_reader(&world).await;
    loop {
        let reports = (0..8).map(|_| async {
            let task_id = TaskId::from_u128(random());
            let verdict = world.store.report(keyed(task_id, Status::Succeeded, "k", "body")).await.expect("a verdict");
            say(&format!("reported {task_id} {}", super::world::written(verdict).sequence));
        });
        futures_util::future::join_all(reports).await;
        let leases = world.lease(&reader, &[session(random(), 8)]).await.granted;
        let confirmed = leases.iter().map(|lease| async {
            assert!(matches!(world.confirm(&reader, lease).await, Confirmed::Acked { .. }));
            let secret = lease.secret.expose_text();
            say(&format!("confirmed {} {} {}", lease.delivery_id, lease.generation, *secret));
        });
        futures_util::future::join_all(confirmed).await;
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n! {line}").and_then(|()| out.flush()).expect("somebody listens");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // SIGKILL, whatever it is doing.
        let _ended = self.0.kill();
        self.0.wait().expect("it ends");
    }
}

/// Runs the process until it has answered so often, kills it and returns what it answered.
fn answers_until_killed(folder: &std::path::Path, count: usize) -> Vec<String> {
    let this = std::env::current_exe().expect("a path");
    let child = Command::new(this)
        .args(["--exact", "server_store::sqlite_crash::the_server_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut child = Killed(child);
    let out = child.0.stdout.take().expect("a pipe");
    let lines = BufReader::new(out).lines().map_while(Result::ok);
    let mut said = lines.filter_map(|line| line.strip_prefix("! ").map(str::to_owned));
    let mut answers: Vec<_> = said.by_ref().take(count).collect();
    assert_eq!(answers.len(), count, "it ended by itself");
    drop(child);
    answers.extend(said);
    answers
}

#[tokio::test]
async fn whatever_was_answered_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut reported, mut confirmed) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for answer in answers_until_killed(folder.path(), 20 + round * 7) {
            let words: Vec<_> = answer.split(' ').map(str::to_owned).collect();
            match &*words[0] {
                "reported" => reported.push(words),
                _ => confirmed.push(words),
            }
        }
        check(folder.path().to_owned(), &reported, &confirmed).await;
    }
    assert!(!reported.is_empty() && !confirmed.is_empty());
}

async fn check(folder: PathBuf, reported: &[Vec<String>], confirmed: &[Vec<String>]) {
    let world = open(folder).await;
    let reader = known_reader(&world).await;
    for words in reported {
        let task_id = words[1].parse().expect("an id");
        let again = world.store.report(keyed(task_id, Status::Succeeded, "k", "body")).await.expect("a verdict");
        assert!(
            matches!(&again, Verdict::Seen(event) if event.sequence.to_string() == words[2]),
            "{words:?}: {again:?}"
        );
    }
    for words in confirmed {
        let lease = Lease {
            session_id: session(0, 1).session_id,
            delivery_id: words[1].parse::<DeliveryId>().expect("an id"),
            event_id: perilune_proto::scalar::EventId::from_u128(0),
            generation: words[2].parse::<Generation>().expect("a count"),
            secret: words[3].parse().expect("a secret"),
            event_json: Box::default(),
        };
        let again = world.store.confirm(confirmation(&reader, &lease)).await.expect("a judgement");
        assert!(matches!(again, Confirmed::Acked { replayed: true, .. }), "{:?}: {again:?}", &words[..3]);
    }
    consistent(&world, &reader).await;
    world.store.close().await.expect("closed");
}

/// The counters say what the rows say, and every event is open, confirmed or behind the cursor.
async fn consistent(world: &World, reader: &Reader) {
    let (figures, shown) = (world.store.figures().await.expect("figures"), world.show(reader).await.figures);
    let list = perilune::server::store::ListDeliveries {
        key: key(reader),
        states: std::collections::BTreeSet::new(),
        after: None,
        limit: 1_000,
    };
    let open = world.store.deliveries(list).await.expect("a page").items.len() as u64;
    assert_eq!(u64::from(shown.ready + shown.leased + shown.expired), open);
    assert_eq!(figures.in_progress + figures.expired, open);
    assert_eq!(shown.acknowledged + open + shown.lag, figures.events);
    assert_eq!(figures.head.0, figures.events, "sequences have no holes");
}
