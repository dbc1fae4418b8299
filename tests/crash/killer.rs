//! Starts two workers at a time, kills one or the other at random, and counts at the end.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perilune_proto::rng::Rng;

use crate::ledger;
use crate::servers::Place;

/// How often a run may end with failed events (a killed server refuses some) before it counts as stuck.
const LAST_RUNS: u32 = 20;

/// A run's size.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) kills: u64,
    pub(crate) events: u64,
    pub(crate) server_kills: u64,
}

/// Which events some worker said it would acknowledge.
type Acknowledged = Arc<Mutex<BTreeSet<u64>>>;

struct Worker {
    child: Child,
    reader: JoinHandle<()>,
}

impl Worker {
    fn start(place: &Place, plan: &Plan, seed: u64, acknowledged: &Acknowledged) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["work", place.url(), place.prefix(), &plan.events.to_string(), &seed.to_string()])
            .stdout(Stdio::piped())
            .stderr(if std::env::var_os("LOUD").is_some() { Stdio::inherit() } else { Stdio::null() })
            .spawn()
            .expect("a worker");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let acknowledged = Arc::clone(acknowledged);
        let reader = std::thread::spawn(move || {
            for n in lines.map_while(Result::ok).filter_map(|line| line.parse().ok()) {
                acknowledged.lock().expect("no panic").insert(n);
            }
        });
        Self { child, reader }
    }

    /// Kills it and hears what it had said.
    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
        self.reader.join().expect("heard");
    }

    /// Lets it end by itself.
    fn finish(mut self) -> bool {
        let ended = self.child.wait().expect("ended");
        self.reader.join().expect("heard");
        ended.success()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }
}

/// Kills and counts on one engine. True where the ledger balances.
pub(crate) fn run(plan: &Plan, place: &mut Place) -> bool {
    let began = Instant::now();
    let mut rng = Rng::new(plan.seed);
    let acknowledged = Acknowledged::default();
    ledger::create(place);
    let mut workers: Vec<Worker> = (0..2).map(|_| Worker::start(place, plan, rng.next_u64(), &acknowledged)).collect();
    let (mut killed, mut servers_killed, mut lost) = (0, 0, Vec::new());
    while killed < plan.kills {
        std::thread::sleep(Duration::from_millis(rng.within(&(5..=250))));
        let chosen = usize::try_from(rng.below(2)).expect("0 or 1");
        let mut worker = workers.remove(chosen);
        // One that was through with its events is not killed but replaced: it begins anew, as after a redelivery.
        if worker.has_ended() {
            worker.finish();
        } else {
            worker.kill();
            killed += 1;
        }
        if servers_killed < plan.server_kills && rng.below(plan.kills.max(1)) < plan.server_kills {
            servers_killed += place.kill_server();
        }
        // What was said before the kill is on disk, whatever else was lost.
        let told = acknowledged.lock().expect("no panic").clone();
        lost.extend(ledger::missing(place, &told));
        workers.push(Worker::start(place, plan, rng.next_u64(), &acknowledged));
    }
    for worker in workers {
        worker.finish();
    }
    let mut last_runs = 0;
    while acknowledged.lock().expect("no panic").len() < usize::try_from(plan.events).expect("small") {
        last_runs += 1;
        assert!(last_runs <= LAST_RUNS, "events are refused again and again");
        Worker::start(place, plan, rng.next_u64(), &acknowledged).finish();
    }
    let told = acknowledged.lock().expect("no panic").clone();
    lost.extend(ledger::missing(place, &told));
    ledger::settle(plan, place, killed, servers_killed, &lost, began.elapsed())
}
