//! What decides how a machine behaves, without the numbers that only count: for an exhaustive exploration, in
//! which two machines with the same outline are one state.

use super::link::Link;
use super::shutdown::Shutdown;
use super::{Consumer, LinkState};
use crate::scalar::{EventId, Generation};

/// A machine without its counters, clocks and names.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outline {
    pub link: u8,
    pub waiting: Vec<(EventId, Generation)>,
    pub held: Vec<HeldOutline>,
    pub proofs: Vec<EventId>,
    pub acks_handed_over: bool,
    pub stopping: bool,
    pub failed: bool,
    pub ended: bool,
}

/// An event that runs or is committed.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeldOutline {
    pub event_id: EventId,
    pub generation: Generation,
    pub running: bool,
    pub lapse_told: bool,
    pub successor: Option<Generation>,
}

impl Consumer {
    /// This machine's outline.
    #[doc(hidden)]
    #[must_use]
    pub fn outline(&self) -> Outline {
        let link = match (self.link_state(), &self.link) {
            (_, Link::Down) => 0,
            (LinkState::Down, _) => 1,
            (LinkState::Dialling, _) => 2,
            (LinkState::Up(_), _) => 3,
            (LinkState::Closing, _) => 4,
        };
        Outline {
            link,
            waiting: self.held.outline_of_waiting(),
            held: self.held.outline(),
            proofs: self.proofs.events().collect(),
            acks_handed_over: self.proofs.any_handed(),
            stopping: matches!(self.shutdown, Shutdown::Stopping { .. }),
            failed: matches!(self.shutdown, Shutdown::Stopping { error: Some(_), .. }),
            ended: self.shutdown.report().is_some(),
        }
    }
}
