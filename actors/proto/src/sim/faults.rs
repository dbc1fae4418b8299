//! What goes wrong, and the healing.

use std::time::Duration;

use super::plan::{Chances, pick};
use super::process::Alive;
use super::receiver::Pace;
use super::server::Power;
use super::step::{ConnId, End, Fault, Life, Step};
use super::world::World;
use crate::consumer::{CauseCode, DisconnectCause, Epoch, Input, Role, RunId};
use crate::wire::{CloseCode, ErrorCode};

const SECOND: Duration = Duration::from_secs(1);

impl World {
    pub(super) fn on_fault(&mut self, fault: Fault) {
        if self.healed {
            return;
        }
        self.tally.faults += 1;
        match fault {
            Fault::Cut => self.any_conn().into_iter().for_each(|id| self.cut(id)),
            Fault::HalfOpen => self.half_open(),
            Fault::ServerCrash => self.server_down(None),
            Fault::ServerRestart => self.server_down(Some(CloseCode::RESTART)),
            Fault::ProcessCrash => self.process_crash(),
            Fault::ChildCrash(role) => self.any_life().into_iter().for_each(|life| self.child_crash(life, role)),
            Fault::CrashLoop(role) => self.crash_loop(role),
            Fault::ProofMislaid => self.mislay(|alive| &mut alive.mislays_proof),
            Fault::EndMislaid => self.mislay(|alive| &mut alive.mislays_end),
            Fault::ShellCrash => self.any_life().into_iter().for_each(|life| self.shell_crash(life)),
            Fault::Stop => self.any_life().into_iter().for_each(|life| self.hear(life, Input::Stop)),
            Fault::Pause => self.pause(),
            Fault::Revoke => self.server.revoked = true,
            Fault::Seek => self.seek(),
            Fault::Replay => self.replay(),
            Fault::LateNews => self.late_news(),
        }
    }

    /// A process whose run goes on.
    fn any_life(&mut self) -> Option<Life> {
        let lives: Vec<Life> = self.lives().collect();
        if lives.is_empty() { None } else { Some(lives[pick(&mut self.rng, lives.len())]) }
    }

    fn any_conn(&mut self) -> Option<ConnId> {
        let conns: Vec<ConnId> = self.conns.keys().copied().collect();
        if conns.is_empty() { None } else { Some(conns[pick(&mut self.rng, conns.len())]) }
    }

    fn half_open(&mut self) {
        let towards = if self.rng.chance(50) { End::Client } else { End::Server };
        let now = self.now;
        if let Some(conn) = self.any_conn().and_then(|id| self.conns.get_mut(&id)) {
            conn.break_way(towards, now);
        }
    }

    /// The answer that is about to be sent, and everything after it, is lost.
    pub(super) fn lose_answers(&mut self, id: ConnId) {
        if self.rng.chance(50) {
            self.cut(id);
        } else {
            let now = self.now;
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.break_way(End::Client, now);
            }
        }
    }

    fn server_down(&mut self, orderly: Option<CloseCode>) {
        if self.server.power == Power::Off {
            return;
        }
        let conns: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in conns {
            if let (Some(_), Some(conn)) = (orderly, self.conns.get_mut(&id)) {
                conn.server.shut_down();
                self.drain_server(id);
            } else {
                self.server_end_gone(id);
                self.cut(id);
            }
        }
        self.server.power = Power::Off;
        self.server.boot += 1;
        let away = self.rng.duration_within(&(SECOND / 10..=5 * SECOND));
        self.agenda.plan(self.now + away, Step::ServerUp);
    }

    pub(super) fn on_server_up(&mut self) {
        self.server.power = Power::On;
        self.pump();
    }

    fn process_crash(&mut self) {
        let Some(life) = self.any_life() else { return };
        self.client_ends_vanish(life);
        self.processes[life.process].alive = None;
        let pause = self.rng.duration_within(&(SECOND / 100..=5 * SECOND));
        self.agenda.plan(self.now + pause, Step::Restart { process: life.process });
    }

    /// The client's ends of a process are gone without a word; the server learns it from the network.
    fn client_ends_vanish(&mut self, life: Life) {
        let ids: Vec<ConnId> = self.conns.iter().filter(|(_, conn)| conn.life == life).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.client.abandon();
                *conn.over.of_mut(End::Client) = true;
            }
            self.cut(id);
            self.bury(id);
        }
    }

    pub(super) fn child_crash(&mut self, life: Life, role: Role) {
        let carried_on = self.rng.chance(50);
        let Some(alive) = self.alive(life).filter(|alive| alive.report.is_none()) else { return };
        match role {
            Role::Connection => {
                alive.dialling = None;
                self.client_ends_vanish(life);
            }
            Role::Heartbeat => alive.beat = None,
            // A proof that it carried is lost with it, or was handed on before.
            Role::Acknowledger => alive.acknowledger += u64::from(!carried_on),
            Role::HandlerPool => alive.runs.values_mut().for_each(|run| run.orphaned = true),
        }
        self.tell(life, Input::ChildLost(role));
    }

    fn mislay(&mut self, what: fn(&mut Alive) -> &mut bool) {
        let life = self.any_life();
        if let Some(alive) = life.and_then(|life| self.alive(life)) {
            *what(alive) = true;
        }
    }

    fn crash_loop(&mut self, role: Role) {
        for n in 0..7 {
            self.agenda.plan(self.now + n * SECOND, Step::Fault(Fault::ChildCrash(role)));
        }
    }

    fn shell_crash(&mut self, life: Life) {
        self.client_ends_vanish(life);
        let Some(alive) = self.alive(life) else { return };
        alive.dialling = None;
        alive.beat = None;
        alive.runs.values_mut().for_each(|run| run.orphaned = true);
        self.tell(life, Input::ShellLost);
    }

    fn pause(&mut self) {
        self.server.paused = true;
        let pause = self.rng.duration_within(&(SECOND..=20 * SECOND));
        self.agenda.plan(self.now + pause, Step::Resume);
    }

    pub(super) fn on_resume(&mut self) {
        self.server.paused = false;
        self.pump();
    }

    /// A consumer is handed again what it was handed before on this connection.
    fn replay(&mut self) {
        let Some(life) = self.any_life() else { return };
        let now = self.now;
        let some = self.rng.next_u64();
        let Some(alive) = self.alive(life) else { return };
        if let Some(input) = alive.shadow.replay(some, now) {
            // At once: a little later the event may be settled, and the replay a first delivery.
            self.hear(life, input);
        }
    }

    /// A mailbox gives way to news of a connection that has ended.
    fn late_news(&mut self) {
        let Some(life) = self.any_life() else { return };
        let (now, some) = (self.now, self.rng.next_u64());
        let Some(alive) = self.alive(life) else { return };
        let Some(epoch) = alive.shadow.epoch().filter(|epoch| epoch.0 > 1) else { return };
        let old = Epoch(epoch.0 - 1);
        let cause = DisconnectCause::new(CauseCode::Error(ErrorCode::HistoryGap));
        let input = match (some % 3, alive.shadow.replay(some, now)) {
            (0, Some(Input::Delivered { delivery, .. })) => Input::Delivered { epoch: old, delivery },
            (1, _) => Input::Disconnected { epoch: old, cause },
            _ => Input::Disconnected { epoch: old, cause: CauseCode::Network.into() },
        };
        self.tell(life, input);
    }

    /// From here on nothing goes wrong: what is broken is mended, what has ended is started again.
    pub(super) fn on_heal(&mut self) {
        self.healed = true;
        self.plan.chances = Chances::default();
        // Handlers are well within their leases from here on.
        self.plan.handler_time = SECOND / 1_000..=SECOND / 10;
        self.plan.store_latency = Duration::ZERO..=SECOND / 100;
        self.server.revoked = false;
        self.on_resume();
        if self.server.power == Power::Off {
            self.on_server_up();
        }
        self.wake_hanging_handlers();
        self.pump();
        self.stop_all_if_settled();
    }

    fn wake_hanging_handlers(&mut self) {
        for life in self.lives().collect::<Vec<_>>() {
            let Some(alive) = self.alive(life) else { continue };
            let hanging: Vec<RunId> =
                alive.runs.iter().filter(|(_, run)| run.behaviour.pace == Pace::Hangs).map(|(run, _)| *run).collect();
            for run in hanging {
                self.end_run_in(life, run, SECOND);
            }
        }
    }
}
