//! `Heartbeat`: one interval. It pings, whatever else happens, and passes the answers on.
//!
//! A ping that is not answered in 10 s ends the connection, which the connection finds by itself.

use std::time::Duration;

use actix::WeakRecipient;
use actix::prelude::*;
use perilune_proto::consumer::{Epoch, PingAnswer};

use crate::connection::SendPing;
use crate::custody::ExitGuard;

/// Owns the interval. One a subscription.
pub(crate) struct Heartbeat {
    beat: Option<(Epoch, SpawnHandle)>,
    up: WeakRecipient<PingAnswered>,
    _exit: ExitGuard,
}

impl Heartbeat {
    pub(crate) const fn new(up: WeakRecipient<PingAnswered>, exit: ExitGuard) -> Self {
        Self { beat: None, up, _exit: exit }
    }

    fn rest(&mut self, ctx: &mut Context<Self>) {
        if let Some((_, beat)) = self.beat.take() {
            ctx.cancel_future(beat);
        }
    }

    fn answered(&self, epoch: Epoch, answer: PingAnswer) {
        // News of a connection that is being left is of no use.
        if self.beat.as_ref().is_some_and(|(current, _)| *current == epoch)
            && let Some(up) = self.up.upgrade()
        {
            up.do_send(PingAnswered { epoch, answer });
        }
    }
}

impl Actor for Heartbeat {
    type Context = Context<Self>;
}

/// To [`Heartbeat`]: ping this connection, first after one interval, then once an interval. Replaces an earlier beat.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StartBeat {
    /// Which connection.
    pub epoch: Epoch,
    /// The interval: 1 s to 15 s.
    pub interval: Duration,
    /// Who sends the pings.
    pub connection: Recipient<SendPing>,
}

impl Handler<StartBeat> for Heartbeat {
    type Result = ();

    fn handle(&mut self, message: StartBeat, ctx: &mut Context<Self>) {
        self.rest(ctx);
        let StartBeat { epoch, interval, connection } = message;
        let beat = ctx.run_interval(interval, move |actor, ctx| {
            // At most as many at once as fit into the 10 s that a ping has.
            let ping = connection.send(SendPing { epoch }).into_actor(actor).map(move |answer, actor, _| {
                if let Ok(Some(answer)) = answer {
                    actor.answered(epoch, answer);
                }
            });
            ctx.spawn(ping);
        });
        self.beat = Some((epoch, beat));
    }
}

/// To [`Heartbeat`]: leave this connection alone. Another one's beat goes on.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StopBeat {
    /// Which connection.
    pub epoch: Epoch,
}

impl Handler<StopBeat> for Heartbeat {
    type Result = ();

    fn handle(&mut self, message: StopBeat, ctx: &mut Context<Self>) {
        if self.beat.as_ref().is_some_and(|(epoch, _)| *epoch == message.epoch) {
            self.rest(ctx);
        }
    }
}

/// From [`Heartbeat`] to its subscription: what the platform said to a ping.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct PingAnswered {
    /// On which connection.
    pub epoch: Epoch,
    /// What it said.
    pub answer: PingAnswer,
}
