//! Keeps two workers running, kills one or the other at random, now and then the database server or the platform, and
//! counts at the end.

use std::time::{Duration, Instant};

use perilune_proto::rng::Rng;

use crate::child::Worker;
use crate::ledger::{self, Deaths};
use crate::platform::Platform;
use crate::servers::Place;

/// How long workers may take until they handle events, before one is killed all the same.
const WORKS_WITHIN: Duration = Duration::from_secs(2);
/// How long after a worker was seen at work it is killed, at most: in its transaction, at its commit, or between two.
const KILLED_WITHIN_MS: u64 = 60;
/// Events that are published ahead, so that a worker that starts finds work.
const AHEAD: u64 = 60;
/// How long a database that was killed may be the reason that a worker can't start.
const DATABASE_RECOVERS_WITHIN: Duration = Duration::from_secs(60);
/// How long nothing at all may be acknowledged after the last kill while something is left.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run's size.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) events: u64,
    pub(crate) kills: u64,
    pub(crate) database_kills: u64,
    pub(crate) platform_kills: u64,
}

/// Kills and counts on one engine. True where the ledger balances.
pub(crate) fn run(plan: &Plan, place: &mut Place) -> bool {
    let began = Instant::now();
    let mut run = Run::start(plan, place);
    while run.deaths.workers < plan.kills {
        run.turn();
    }
    run.finish();
    ledger::settle(plan, run.place, &run.platform.standing(), &run.deaths, began.elapsed())
}

struct Run<'a> {
    plan: &'a Plan,
    place: &'a mut Place,
    platform: Platform,
    workers: Vec<Worker>,
    rng: Rng,
    deaths: Deaths,
    database_killed: Option<Instant>,
}

impl<'a> Run<'a> {
    fn start(plan: &'a Plan, place: &'a mut Place) -> Self {
        ledger::create(place);
        let platform = Platform::start();
        let workers = (0..2).map(|_| Worker::start(place, &platform)).collect();
        let (rng, deaths) = (Rng::new(plan.seed), Deaths::default());
        Self { plan, place, platform, workers, rng, deaths, database_killed: None }
    }

    /// Publishes this turn's events, kills a worker, and perhaps a server.
    fn turn(&mut self) {
        let due = self.plan.events * self.deaths.workers / self.plan.kills.max(1);
        self.platform.publish((due + AHEAD).min(self.plan.events));
        self.wait_for_progress(due);
        let chosen = usize::try_from(self.rng.below(2)).expect("0 or 1");
        let mut worker = self.workers.remove(chosen);
        // One in eight is killed wherever it is, at its start or idle; the others once they have been seen at work.
        if self.rng.below(8) > 0 {
            worker.wait_for_work(WORKS_WITHIN);
        }
        std::thread::sleep(Duration::from_millis(self.rng.below(KILLED_WITHIN_MS)));
        if self.is_up(&mut worker) {
            let last = worker.kill();
            self.deaths.workers += 1;
            self.deaths.at_work += u64::from(last.at_work());
            self.deaths.handled += last.begun;
        }
        if self.falls(self.plan.platform_kills, self.deaths.platforms) {
            self.platform.kill();
            self.deaths.platforms += 1;
        }
        if self.place.is_own() && self.falls(self.plan.database_kills, self.deaths.databases) {
            self.place.kill_server();
            self.deaths.databases += 1;
            self.database_killed = Some(Instant::now());
        }
        self.workers.push(Worker::start(self.place, &self.platform));
    }

    /// Waits until about as many events were handled as are due by now, so that the kills are spread over all of them.
    fn wait_for_progress(&self, due: u64) {
        let until = Instant::now() + WORKS_WITHIN;
        let begun = || self.deaths.handled + self.workers.iter().map(|worker| worker.told().begun).sum::<u64>();
        while begun() < due && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether one of so many kills, spread at random over the run, falls into this turn.
    fn falls(&mut self, wanted: u64, done: u64) -> bool {
        let turns_left = (self.plan.kills + 1).saturating_sub(self.deaths.workers).max(1);
        self.rng.below(turns_left) < wanted - done
    }

    /// Whether a worker still runs. One may have ended by itself where the database was not there when it started.
    fn is_up(&self, worker: &mut Worker) -> bool {
        if !worker.has_ended() {
            return true;
        }
        let recovering = self.database_killed.is_some_and(|killed| killed.elapsed() < DATABASE_RECOVERS_WITHIN);
        assert!(recovering, "a worker ended by itself; LOUD=1 shows why");
        false
    }

    /// Lets the workers go on until everything is acknowledged, then ends them in order.
    fn finish(&mut self) {
        self.platform.publish(self.plan.events);
        let mut moved = (Instant::now(), 0);
        loop {
            let standing = self.platform.standing();
            if standing.is_done() {
                break;
            }
            if standing.acknowledged > moved.1 {
                moved = (Instant::now(), standing.acknowledged);
            }
            assert!(moved.0.elapsed() < PATIENCE, "nothing is acknowledged any more: {standing:?}");
            for place in 0..self.workers.len() {
                let mut worker = self.workers.remove(place);
                if !self.is_up(&mut worker) {
                    worker = Worker::start(self.place, &self.platform);
                }
                self.workers.insert(place, worker);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        for worker in self.workers.drain(..) {
            let (last, success) = worker.finish();
            assert!(success, "a worker did not end in order");
            self.deaths.handled += last.begun;
        }
    }
}
