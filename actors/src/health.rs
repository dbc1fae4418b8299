//! How a consumer does, for a readiness route: connected and making progress are separate facts.

use std::time::Duration;

use perilune_proto::consumer::{Enabled, LinkState};
use perilune_proto::limits;

use crate::clock::now;
use crate::run_state::Seen;

/// How long all slots may be taken without anything moving before a consumer counts as blocked: one lease.
const BLOCKED_AFTER: Duration = Duration::from_millis(limits::LEASE_MS_DEFAULT as u64);

/// How a consumer does at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// What it is up to.
    pub state: HealthState,
    /// Whether it has a session.
    pub connected: bool,
    /// How long ago an event last started, ended or was acknowledged, or the session was opened.
    pub idle: Option<Duration>,
}

/// What a consumer is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HealthState {
    /// It has no session: dialling, or waiting before the next dial. What runs goes on.
    Disconnected,
    /// It is connected and has nothing to do.
    Idle,
    /// It is connected, and what it holds moves.
    Progressing,
    /// The subscription is paused: nothing new comes; what is held is still confirmed.
    Paused,
    /// It is connected, every slot is taken, and nothing has moved for a lease (30 s): the handlers are stuck.
    Blocked,
    /// It is asked to stop and brings what it holds to an end.
    Stopping,
    /// The run is over.
    Ended,
}

impl Health {
    pub(crate) fn of(seen: &Seen, capacity: u8, ended: bool) -> Self {
        let idle = seen.moved.map(|moved| now().saturating_duration_since(moved));
        let held = seen.stats.running + seen.stats.committed;
        let stuck = idle.is_some_and(|idle| idle > BLOCKED_AFTER);
        let state = match seen.link {
            _ if ended => HealthState::Ended,
            _ if seen.stopping => HealthState::Stopping,
            LinkState::Down | LinkState::Dialling | LinkState::Closing => HealthState::Disconnected,
            LinkState::Up(_) if held >= u64::from(capacity) && stuck => HealthState::Blocked,
            LinkState::Up(Enabled::Paused) => HealthState::Paused,
            LinkState::Up(Enabled::Enabled) if held == 0 => HealthState::Idle,
            LinkState::Up(Enabled::Enabled) => HealthState::Progressing,
        };
        Self { state, connected: !ended && matches!(seen.link, LinkState::Up(_)), idle }
    }

    /// Whether it can do its work now: connected, not blocked, not stopping. A paused one is ready.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        matches!(self.state, HealthState::Idle | HealthState::Progressing | HealthState::Paused)
    }
}

impl HealthState {
    /// The state as one lower-case word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Idle => "idle",
            Self::Progressing => "progressing",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use perilune_proto::consumer::Stats;

    use super::*;

    fn state(link: LinkState, held: u64, idle: Duration) -> HealthState {
        let mut stats = Stats::default();
        stats.running = held;
        let seen = Seen { stats, link, moved: Some(now() - idle), stopping: false };
        Health::of(&seen, 4, false).state
    }

    #[test]
    fn connected_progressing_paused_and_blocked_are_told_apart() {
        let (soon, late) = (Duration::from_secs(1), Duration::from_secs(31));
        assert_eq!(state(LinkState::Down, 4, late), HealthState::Disconnected);
        assert_eq!(state(LinkState::Up(Enabled::Enabled), 0, late), HealthState::Idle);
        assert_eq!(state(LinkState::Up(Enabled::Enabled), 4, soon), HealthState::Progressing);
        assert_eq!(state(LinkState::Up(Enabled::Paused), 0, late), HealthState::Paused);
        assert_eq!(state(LinkState::Up(Enabled::Enabled), 4, late), HealthState::Blocked);
        assert_eq!(state(LinkState::Up(Enabled::Paused), 4, late), HealthState::Blocked);
    }
}
