//! Each action's effect. What an action means stands in the machine's vocabulary.

use actix::prelude::*;
use perilune_proto::consumer::{Action, FinishReport, Notice, Role};
use perilune_proto::limits::CONTROL_REQUEST_TIMEOUT;
use tracing::Level;

use super::Subscription;
use crate::cause::label;
use crate::connection::{CloseConnection, Dial};
use crate::error::RunError;
use crate::handler_pool::{Cancel, DrainReceipts, Receipt};
use crate::heartbeat::{StartBeat, StopBeat};
use crate::notice::Offered;
use crate::run_state::RunResult;

impl Subscription {
    /// Carries one action out.
    pub(super) fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        let Some(action) = self.gathered.join(action) else { return };
        if !matches!(action, Action::Notify(_)) {
            self.send_gathered(ctx);
        }
        let children = self.children(ctx);
        match action {
            Action::Dial { epoch, capacity } => children.connection.do_send(Dial { epoch, capacity }),
            Action::Close { epoch } => children.connection.do_send(CloseConnection { epoch }),
            Action::StartHeartbeat { epoch, interval } => {
                let connection = (*children.connection).clone().recipient();
                children.heartbeat.do_send(StartBeat { epoch, interval, connection });
            }
            Action::StopHeartbeat { epoch } => children.heartbeat.do_send(StopBeat { epoch }),
            Action::Signal { run, signal } => children.pool.do_send(Cancel { run, signal }),
            Action::Respawn(role) => self.respawn(role, ctx),
            Action::Notify(notice) => self.notify(notice, ctx),
            Action::Finish(report) => self.finish(report, ctx),
            // The vocabulary may grow, but not behind the shell's back: both are one release.
            action => tracing::error!(action = ?action, "perilune.action_unknown"),
        }
    }

    /// Sends what was gathered, before anything that it must not overtake and at the end of a step.
    pub(super) fn send_gathered(&mut self, ctx: &mut Context<Self>) {
        let (runs, commit) = self.gathered.take();
        if let Some(runs) = runs {
            runs.0.iter().for_each(|run| self.telemetry.started(run.event.event_id, run.lease_until));
            self.children(ctx).pool.do_send(runs);
        }
        if let Some(commit) = commit {
            self.children(ctx).acknowledger.do_send(commit);
        }
    }

    fn respawn(&mut self, role: Role, ctx: &mut Context<Self>) {
        let spec = self.spec.clone();
        self.children(ctx).respawn(role, &spec, ctx);
    }

    fn notify(&mut self, notice: Notice, ctx: &mut Context<Self>) {
        self.log(&notice);
        self.telemetry.noticed(&notice);
        if let Notice::Acknowledged { event_id, generation, replayed } = notice {
            let subscription_id = self.spec.config.subscription_id();
            self.settle(Receipt { subscription_id, event_id, generation, replayed }, ctx);
        }
        if self.spec.run.notices.offer(notice) == Offered::Dropped {
            self.gathered.notice_dropped();
        }
    }

    /// One event a notice, under a stable name. Nothing here is remote text.
    fn log(&self, notice: &Notice) {
        let subscription_id = self.spec.config.subscription_id();
        match notice {
            Notice::Connected => tracing::info!(%subscription_id, "perilune.connected"),
            Notice::Disconnected { cause } => {
                tracing::warn!(
                    %subscription_id, cause = label(&cause.code), kind = cause.kind().as_str(), "perilune.disconnected"
                );
            }
            Notice::HandlerFailed { event_id, generation, code } => {
                tracing::warn!(%subscription_id, %event_id, %generation, code, "perilune.handler_failed");
            }
            Notice::Acknowledged { event_id, generation, replayed } => {
                if tracing::enabled!(Level::DEBUG) {
                    tracing::debug!(%subscription_id, %event_id, %generation, ?replayed, "perilune.acknowledged");
                }
            }
            Notice::ProofLost { event_id, generation } => {
                tracing::warn!(%subscription_id, %event_id, %generation, "perilune.proof_lost");
            }
            Notice::LeaseLapsed { event_id, generation } => {
                tracing::warn!(%subscription_id, %event_id, %generation, "perilune.lease_lapsed");
            }
            Notice::Stopped => tracing::info!(%subscription_id, "perilune.stopped"),
            notice => tracing::info!(%subscription_id, ?notice, "perilune.notice"),
        }
    }

    /// The run is over: report, and end with the children. The `settled` callback may hear of the last confirmations
    /// first, within a bound, unless the run ended at its deadline.
    fn finish(&mut self, report: FinishReport, ctx: &mut Context<Self>) {
        let clean = report.is_clean();
        let result = RunError::check(report, self.source.take());
        if let Err(error) = &result {
            tracing::error!(
                subscription_id = %self.spec.config.subscription_id(),
                kind = error.kind_text(),
                unconfirmed = error.unconfirmed().len(),
                running = error.running().len(),
                "perilune.run_failed"
            );
        }
        self.finishing = true;
        self.show();
        if self.spec.handlers.settled.is_none() || !clean {
            self.end(result, ctx);
            return;
        }
        let wait = self.spec.config.shutdown_timeout().min(CONTROL_REQUEST_TIMEOUT);
        let told = self.children(ctx).pool.send(DrainReceipts).timeout(wait).into_actor(self);
        ctx.spawn(told.map(|_, actor, ctx| actor.end(result, ctx)));
    }

    fn end(&mut self, result: RunResult, ctx: &mut Context<Self>) {
        self.custody.release();
        self.spec.run.finish(result);
        ctx.stop();
    }
}
