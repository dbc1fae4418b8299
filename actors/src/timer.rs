//! One re-armable deadline of an actor.

use std::time::Instant;

use actix::{Actor, AsyncContext, Context, SpawnHandle};

use crate::clock::now;

/// The one timer of a shell.
///
/// A deadline that moves away leaves the armed timer alone: it fires early, finds nothing due and is armed anew.
/// So leases that move forward with every event cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    armed: Option<(Instant, SpawnHandle)>,
}

impl Timer {
    /// Arms the timer for `deadline`, or disarms it where there is none; `fire` runs in the actor.
    pub(crate) fn arm<A>(&mut self, deadline: Option<Instant>, ctx: &mut Context<A>, fire: fn(&mut A, &mut Context<A>))
    where
        A: Actor<Context = Context<A>>,
    {
        let Some(deadline) = deadline else {
            if let Some((_, handle)) = self.armed.take() {
                ctx.cancel_future(handle);
            }
            return;
        };
        if let Some((armed, handle)) = self.armed {
            if armed <= deadline {
                return;
            }
            ctx.cancel_future(handle);
        }
        let handle = ctx.run_later(deadline.saturating_duration_since(now()), fire);
        self.armed = Some((deadline, handle));
    }

    /// To be called first when the timer has fired.
    pub(crate) fn fired(&mut self) {
        self.armed = None;
    }
}
