//! The loop: one step after the other until everything has ended.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::agenda::Agenda;
use super::bug::Bug;
use super::link::Conn;
use super::oracle::{Check, Judged, Violation};
use super::plan::Plan;
use super::process::Process;
use super::receiver::Inbox;
use super::server::Server;
use super::step::{ConnId, Life, Step};
use super::{Summary, Trace};
use crate::consumer::Input;
use crate::rng::Rng;

/// Steps after which a world that has not ended is going round in circles.
const STEPS_MAX: u64 = 200_000;
/// How long after the healing everything must have ended.
const HEALED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// A whole system.
pub(super) struct World {
    pub(super) origin: Instant,
    pub(super) now: Instant,
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    pub(super) bug: Option<Bug>,
    pub(super) agenda: Agenda,
    pub(super) processes: Vec<Process>,
    pub(super) conns: BTreeMap<ConnId, Conn>,
    pub(super) last_conn: u64,
    pub(super) server: Server,
    pub(super) inbox: Inbox,
    pub(super) healed: bool,
    pub(super) stopping: bool,
    pub(super) tally: Summary,
    trace: Trace,
    violation: Option<Violation>,
}

impl World {
    pub(super) fn new(seed: u64, origin: Instant, bug: Option<Bug>, trace: Trace) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(&mut rng);
        let processes = plan.processes.iter().map(|_| Process { life: 0, alive: None }).collect();
        let mut world = Self {
            origin,
            now: origin,
            rng,
            plan,
            bug,
            agenda: Agenda::default(),
            processes,
            conns: BTreeMap::new(),
            last_conn: 0,
            server: Server::new(),
            inbox: Inbox::default(),
            healed: false,
            stopping: false,
            tally: Summary::default(),
            trace,
            violation: None,
        };
        let plan = format!("{:?}", world.plan);
        world.trace(|| plan);
        world.lay_out();
        world
    }

    fn lay_out(&mut self) {
        let until = self.plan.faulty_for;
        for _ in 0..self.plan.events {
            let at = self.rng.duration_within(&(Duration::ZERO..=until / 2));
            self.agenda.plan(self.origin + at, Step::Publish);
        }
        for process in 0..self.processes.len() {
            let at = self.rng.duration_within(&(Duration::ZERO..=Duration::from_secs(1)));
            self.agenda.plan(self.origin + at, Step::Restart { process });
        }
        for (at, fault) in std::mem::take(&mut self.plan.faults) {
            self.agenda.plan(self.origin + at, Step::Fault(fault));
        }
        self.agenda.plan(self.origin + until, Step::Heal);
        self.agenda.plan(self.origin + until + HEALED_WITHIN, Step::StopAll);
    }

    /// Runs to the end, or to the first violation.
    pub(super) fn run(mut self) -> (Result<Summary, Violation>, Trace) {
        while self.violation.is_none() && !self.is_over() {
            let Some((at, step)) = self.agenda.next() else { break };
            self.now = at;
            self.tally.steps += 1;
            let steps = self.tally.steps;
            self.check(Check::ComesToAnEnd, steps <= STEPS_MAX, || "it goes round in circles".to_owned());
            self.step(step);
        }
        let over = self.is_over();
        self.check(Check::ComesToAnEnd, over, || "nothing more will happen".to_owned());
        self.tally.effects = self.inbox.rows() as u64;
        self.tally.inbox_hits = self.inbox.hits;
        self.tally.virtual_time = self.now - self.origin;
        (self.violation.map_or(Ok(self.tally), Err), self.trace)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Publish => self.on_publish(),
            Step::Hear { life, input } => self.hear(life, input),
            Step::Wake { life, token } => self.on_wake(life, token),
            Step::DialEnds { life, epoch, capacity } => self.on_dial_ends(life, epoch, capacity),
            Step::ReaderEnds { life, epoch } => self.on_reader_ends(life, epoch),
            Step::SendAck { life, epoch, proof, carrier } => self.on_send_ack(life, epoch, proof, carrier),
            Step::Beat { life, epoch, token } => self.on_beat(life, epoch, token),
            Step::Arrive { conn, at, message } => self.on_arrive(conn, at, message),
            Step::Broken { conn, at } => self.on_broken(conn, at),
            Step::SessionTimer { conn, at } => self.on_session_timer(conn, at),
            Step::Registered { conn, register } => self.on_registered(conn, &register),
            Step::Judge { conn, boot, ack } => self.on_judge(conn, boot, &ack),
            Step::Judged { conn, message_id, verdict } => self.on_judged(conn, message_id, verdict),
            Step::Checked { conn, message_id, checked } => self.on_checked(conn, message_id, checked),
            Step::Sweep { token } => self.on_sweep(token),
            Step::RunCommits { life, run } => self.on_run_commits(life, run),
            Step::RunEnds { life, run, outcome } => self.on_run_ends(life, run, outcome),
            Step::Fault(fault) => {
                self.trace(|| format!("fault {fault:?}"));
                self.on_fault(fault);
            }
            Step::ServerUp => self.on_server_up(),
            Step::Resume => self.on_resume(),
            Step::Restart { process } => self.on_restart(process),
            Step::Heal => {
                self.trace(|| "healed".to_owned());
                self.on_heal();
            }
            Step::StopAll => self.on_stop_all(),
        }
    }

    fn on_restart(&mut self, process: usize) {
        let ended = self.processes[process].alive.as_ref().is_none_or(|alive| alive.report.is_some());
        if ended && !self.stopping {
            self.start(process);
        }
    }

    /// The lives that have not ended.
    pub(super) fn lives(&self) -> impl Iterator<Item = Life> + '_ {
        self.processes.iter().enumerate().filter_map(|(process, one)| {
            let alive = one.alive.as_ref().filter(|alive| alive.report.is_none())?;
            let _ = alive;
            Some(Life { process, number: one.life })
        })
    }

    /// Stops every consumer once all is confirmed and known to be.
    pub(super) fn stop_all_if_settled(&mut self) {
        let published = self.server.log.len() == self.plan.events;
        if !self.healed || self.stopping || !published || !self.server.is_settled() {
            return;
        }
        let busy = |process: &Process| {
            process.alive.as_ref().is_some_and(|alive| {
                let stats = alive.machine.stats();
                alive.report.is_none() && stats.running + stats.committed + stats.waiting > 0
            })
        };
        if !self.processes.iter().any(busy) {
            self.stopping = true;
            self.agenda.plan(self.now, Step::StopAll);
        }
    }

    fn on_stop_all(&mut self) {
        if !self.stopping {
            // The time that the healing was given is over.
            let open = self.server.open();
            let left = self.server.log.len() - self.server.cursor;
            return self.check(Check::EverythingIsConfirmed, false, || format!("{open} open, {left} never taken"));
        }
        for life in self.lives().collect::<Vec<_>>() {
            self.hear(life, Input::Stop);
        }
    }

    fn is_over(&self) -> bool {
        self.stopping && self.lives().next().is_none()
    }

    pub(super) fn latency(&mut self) -> Duration {
        // A healed network is quick.
        if self.healed { Duration::from_millis(1) } else { self.rng.duration_within(&self.plan.latency) }
    }

    /// Keeps the first violation.
    pub(super) fn check(&mut self, check: Check, holds: bool, detail: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(Violation { check, at: self.now - self.origin, detail: detail() });
        }
    }

    /// Keeps what a machine's oracle found.
    pub(super) fn note(&mut self, judged: Judged) {
        if let Err((check, detail)) = judged {
            self.check(check, false, || detail);
        }
    }

    pub(super) fn trace(&mut self, line: impl FnOnce() -> String) {
        if let Trace::Kept(lines) = &mut self.trace {
            let at = (self.now - self.origin).as_secs_f64();
            lines.push(format!("{at:11.6} {}", line()));
        }
    }
}
