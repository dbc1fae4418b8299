//! The four children: making them, replacing them, linking them.

use std::sync::Arc;

use actix::WeakRecipient;
use actix::prelude::*;
use perilune_proto::consumer::{Epoch, Role};

use super::Subscription;
use crate::acknowledger::{Acknowledger, Attach, Detach};
use crate::connection::{Connection, ConnectionLinks};
use crate::custody::{ExitGuard, Life, Owned};
use crate::handler_pool::{HandlerPool, PoolSpawn};
use crate::heartbeat::Heartbeat;
use crate::spec::Spec;

/// The children: each ends when its address is dropped.
pub(super) struct Children {
    pub(super) connection: Owned<Connection>,
    pub(super) heartbeat: Owned<Heartbeat>,
    pub(super) acknowledger: Owned<Acknowledger>,
    pub(super) pool: Owned<HandlerPool>,
    /// The connection that is open, to attach a replaced acknowledger to.
    attached: Option<Epoch>,
    /// Counts children, so that each has a life of its own.
    born: u64,
    lives: [Life; 4],
}

impl Children {
    /// Makes all four.
    pub(super) fn spawn(spec: &Spec, ctx: &mut Context<Subscription>) -> Self {
        let life = Life::default();
        Self {
            connection: connection(spec, life, ctx),
            heartbeat: heartbeat(life, ctx),
            acknowledger: acknowledger(life, ctx),
            pool: pool(spec, life, ctx),
            attached: None,
            born: 0,
            lives: [life; 4],
        }
    }

    /// Whether this child was the one in its role, and not one that was replaced.
    pub(super) fn lost(&mut self, role: Role, life: Life) -> bool {
        self.lives[place(role)] == life
    }

    /// Replaces a child; what it knew is gone.
    pub(super) fn respawn(&mut self, role: Role, spec: &Spec, ctx: &mut Context<Subscription>) {
        self.born += 1;
        let life = Life(self.born);
        self.lives[place(role)] = life;
        match role {
            Role::Connection => {
                if let Some(epoch) = self.attached {
                    self.detach(epoch);
                }
                self.connection = connection(spec, life, ctx);
            }
            Role::Heartbeat => self.heartbeat = heartbeat(life, ctx),
            Role::Acknowledger => {
                self.acknowledger = acknowledger(life, ctx);
                if let Some(epoch) = self.attached {
                    self.attach(epoch);
                }
            }
            Role::HandlerPool => self.pool = pool(spec, life, ctx),
        }
    }

    /// Hands the open connection to the acknowledger: children never know each other otherwise.
    pub(super) fn attach(&mut self, epoch: Epoch) {
        self.attached = Some(epoch);
        let connection = (*self.connection).clone().recipient();
        self.acknowledger.do_send(Attach { epoch, connection });
    }

    /// This connection is over; another one stays attached.
    pub(super) fn detach(&mut self, epoch: Epoch) {
        if self.attached.take_if(|attached| *attached == epoch).is_some() {
            self.acknowledger.do_send(Detach);
        }
    }
}

#[cfg(test)]
impl Children {
    pub(super) fn crash(&self, role: Role, crash: crate::crash::Crash) {
        match role {
            Role::Connection => self.connection.do_send(crash),
            Role::Heartbeat => self.heartbeat.do_send(crash),
            Role::Acknowledger => self.acknowledger.do_send(crash),
            Role::HandlerPool => self.pool.do_send(crash),
        }
    }
}

const fn place(role: Role) -> usize {
    match role {
        Role::Connection => 0,
        Role::Heartbeat => 1,
        Role::Acknowledger => 2,
        Role::HandlerPool => 3,
    }
}

fn guard(role: Role, life: Life, ctx: &mut Context<Subscription>) -> ExitGuard {
    ExitGuard::new(role, life, up(ctx))
}

/// A weak way up: a child keeps nobody alive.
fn up<M>(ctx: &mut Context<Subscription>) -> WeakRecipient<M>
where
    M: Message + Send + 'static,
    M::Result: Send,
    Subscription: Handler<M>,
{
    ctx.address().downgrade().recipient()
}

fn connection(spec: &Spec, life: Life, ctx: &mut Context<Subscription>) -> Owned<Connection> {
    let links = ConnectionLinks { connected: up(ctx), delivered: up(ctx), ended: up(ctx) };
    let exit = guard(Role::Connection, life, ctx);
    let reader = Arc::clone(&spec.reader);
    Connection::new(spec.client.clone(), spec.config.subscription_id(), reader, links, exit).start().into()
}

fn heartbeat(life: Life, ctx: &mut Context<Subscription>) -> Owned<Heartbeat> {
    Heartbeat::new(up(ctx), guard(Role::Heartbeat, life, ctx)).start().into()
}

fn acknowledger(life: Life, ctx: &mut Context<Subscription>) -> Owned<Acknowledger> {
    Acknowledger::new(up(ctx), guard(Role::Acknowledger, life, ctx)).start().into()
}

fn pool(spec: &Spec, life: Life, ctx: &mut Context<Subscription>) -> Owned<HandlerPool> {
    HandlerPool::new(PoolSpawn {
        subscription_id: spec.config.subscription_id(),
        capacity: spec.config.capacity(),
        handlers: spec.handlers.clone(),
        up: up(ctx),
        exit: guard(Role::HandlerPool, life, ctx),
    })
    .start()
    .into()
}
