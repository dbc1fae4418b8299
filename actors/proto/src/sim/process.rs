//! A consumer process: the real machine, and a shell that carries its actions out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::bug::Bug;
use super::oracle::Shadow;
use super::receiver::Behaviour;
use super::step::{ConnId, Life, Step};
use super::world::World;
use crate::consumer::{Action, Consumer, Epoch, FinishReport, Input, RunId};
use crate::scalar::EventId;

/// A handler at work.
pub(super) struct Run {
    pub(super) event_id: EventId,
    pub(super) behaviour: Behaviour,
    /// Whether its pool is gone, so that nobody hears of its result.
    pub(super) orphaned: bool,
}

/// A process that lives.
pub(super) struct Alive {
    pub(super) machine: Consumer,
    pub(super) shadow: Shadow,
    pub(super) runs: BTreeMap<RunId, Run>,
    /// The dial under way, and the last connection.
    pub(super) dialling: Option<Epoch>,
    pub(super) conn: Option<ConnId>,
    /// What the heartbeat beats on, how often, and which of its plans is valid.
    pub(super) beat: Option<(Epoch, Duration)>,
    pub(super) beat_token: u64,
    /// Which acknowledger is at work: one that has crashed may have lost what it carried.
    pub(super) acknowledger: u64,
    /// Whether the next proof, or the news of the next end, is mislaid.
    pub(super) mislays_proof: bool,
    pub(super) mislays_end: bool,
    pub(super) report: Option<FinishReport>,
    // What comes from the connection comes in order, and so does what the acknowledger carries there.
    mailbox: Instant,
    carried: Instant,
    wake: Option<Instant>,
    wake_token: u64,
}

/// A consumer process, dead or alive.
pub(super) struct Process {
    pub(super) life: u32,
    pub(super) alive: Option<Alive>,
}

impl World {
    pub(super) fn start(&mut self, process: usize) {
        let config = self.plan.processes[process].clone();
        let seed = self.rng.next_u64();
        let now = self.now;
        let mutation = if let Some(Bug::Consumer(mutation)) = self.bug { Some(mutation) } else { None };
        let alive = Alive {
            machine: Consumer::with_bug(config.clone(), seed, now, mutation),
            shadow: Shadow::new(config, self.plan.lateness),
            runs: BTreeMap::new(),
            dialling: None,
            conn: None,
            beat: None,
            beat_token: 0,
            acknowledger: 0,
            mislays_proof: false,
            mislays_end: false,
            report: None,
            mailbox: now,
            carried: now,
            wake: None,
            wake_token: 0,
        };
        self.processes[process].life += 1;
        self.processes[process].alive = Some(alive);
        let life = Life { process, number: self.processes[process].life };
        self.act(life);
    }

    /// The process of this life, if it still lives.
    pub(super) fn alive(&mut self, life: Life) -> Option<&mut Alive> {
        let process = self.processes.get_mut(life.process)?;
        if process.life == life.number { process.alive.as_mut() } else { None }
    }

    /// Lets the machine hear something now.
    pub(super) fn hear(&mut self, life: Life, input: Input) {
        let now = self.now;
        self.trace(|| format!("{}.{} hears {input:?}", life.process, life.number));
        let Some(alive) = self.alive(life) else { return };
        let judged = alive.shadow.before(&input, now);
        alive.machine.handle(input, now);
        self.note(judged);
        self.act(life);
    }

    pub(super) fn on_wake(&mut self, life: Life, token: u64) {
        let Some(alive) = self.alive(life).filter(|alive| alive.wake_token == token) else { return };
        alive.wake = None;
        self.hear(life, Input::TimedOut);
    }

    /// Carries the machine's actions out, watched by the oracle.
    fn act(&mut self, life: Life) {
        let now = self.now;
        while let Some(alive) = self.alive(life)
            && let Some(action) = alive.machine.poll_action()
        {
            let judged = alive.shadow.on_action(&action, now);
            self.note(judged);
            self.trace(|| format!("{}.{} does {action:?}", life.process, life.number));
            self.perform(life, action);
        }
        let late = self.rng.duration_within(&(Duration::ZERO..=self.plan.lateness));
        let Some(alive) = self.alive(life) else { return };
        let judged = alive.shadow.after(&alive.machine, now);
        let due = alive.machine.poll_timeout().map(|(at, _)| at);
        if alive.wake != due {
            alive.wake = due;
            alive.wake_token += 1;
            let token = alive.wake_token;
            if let Some(at) = due {
                self.agenda.plan(at.max(now) + late, Step::Wake { life, token });
            }
        }
        self.note(judged);
        self.stop_all_if_settled();
    }

    fn perform(&mut self, life: Life, action: Action) {
        let soon = self.now + self.rng.duration_within(&(Duration::ZERO..=Duration::from_millis(2)));
        match action {
            Action::Dial { epoch, capacity } => self.dial(life, epoch, capacity),
            Action::Close { epoch } => self.close(life, epoch),
            Action::StartHeartbeat { epoch, interval } => self.start_heartbeat(life, epoch, interval),
            Action::StopHeartbeat { .. } => {
                if let Some(alive) = self.alive(life) {
                    alive.beat = None;
                }
            }
            Action::Ack { epoch, proof } => {
                let Some(alive) = self.alive(life) else { return };
                alive.carried = alive.carried.max(soon);
                let (at, carrier) = (alive.carried, alive.acknowledger);
                self.agenda.plan(at, Step::SendAck { life, epoch, proof, carrier });
            }
            Action::Start { run, event, .. } => self.run_handler(life, run, event.event_id),
            Action::Signal { run, signal } => self.signal(life, run, signal),
            Action::Notify(_) if self.rng.chance(3) => {
                self.agenda.plan(soon, Step::Hear { life, input: Input::NoticesDropped(1) });
            }
            Action::Respawn(_) | Action::Notify(_) => {}
            Action::Finish(report) => self.finished(life, report),
        }
    }

    fn finished(&mut self, life: Life, report: FinishReport) {
        self.tally.ends += 1;
        self.tally.unclean_ends += u64::from(!report.is_clean());
        let Some(alive) = self.alive(life) else { return };
        alive.report = Some(report);
        // A process that ends takes its handlers with it, but not what they have committed.
        if !self.stopping {
            let pause = self.rng.duration_within(&(Duration::from_millis(1)..=Duration::from_secs(5)));
            self.agenda.plan(self.now + pause, Step::Restart { process: life.process });
        }
    }

    /// Plans an input behind whatever the connection has said before.
    pub(super) fn tell(&mut self, life: Life, input: Input) {
        let at = self.now + self.rng.duration_within(&(Duration::ZERO..=Duration::from_millis(1)));
        let Some(alive) = self.alive(life) else { return };
        alive.mailbox = alive.mailbox.max(at);
        let at = alive.mailbox;
        self.agenda.plan(at, Step::Hear { life, input });
    }
}
