//! The arbiters that subscriptions run on: made when they are needed, each run on the one with the fewest.

use std::io;

use actix_rt::{Arbiter, ArbiterHandle, System};

use crate::contain::contain;

/// Arbiters for sockets. No user code runs there.
pub(crate) struct Crew {
    members: Vec<Member>,
    members_max: usize,
}

struct Member {
    arbiter: ArbiterHandle,
    runs: usize,
}

impl Crew {
    /// At most so many arbiters; the first is there already.
    pub(crate) fn new(first: ArbiterHandle, members_max: usize) -> Self {
        Self { members: vec![Member { arbiter: first, runs: 0 }], members_max }
    }

    /// A place for one more run.
    pub(super) fn join(&mut self) -> io::Result<usize> {
        let idle = self.members.iter().any(|member| member.runs == 0);
        if !idle && self.members.len() < self.members_max {
            self.members.push(Member { arbiter: arbiter()?, runs: 0 });
        }
        let place = (0..self.members.len()).min_by_key(|place| self.members[*place].runs).unwrap_or_default();
        self.members[place].runs += 1;
        Ok(place)
    }

    /// A run has left its place.
    pub(super) fn leave(&mut self, place: usize) {
        self.members[place].runs = self.members[place].runs.saturating_sub(1);
    }

    pub(super) fn arbiter(&self, place: usize) -> ArbiterHandle {
        self.members[place].arbiter.clone()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // The supervisor is gone, and it went after its last run.
        for member in &self.members {
            member.arbiter.stop();
        }
    }
}

/// Makes an arbiter.
///
/// # Errors
/// Without an actix system on this thread, or without a thread to be had.
pub(super) fn arbiter() -> io::Result<ArbiterHandle> {
    let made = contain(|| System::try_current().map(|_| Arbiter::try_new()));
    match made {
        Ok(Some(arbiter)) => Ok(arbiter?.handle()),
        Ok(None) | Err(_) => Err(io::Error::other("no actix system on this thread")),
    }
}
