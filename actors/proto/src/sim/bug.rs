//! Bugs that can be planted into a world, so that it can show that it would notice them.

use crate::consumer::Mutation;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// In every consumer.
    Consumer(Mutation),
    /// The receivers keep no inbox.
    NoInbox,
    /// The platform confirms a superseded generation.
    SupersededConfirms,
    /// The platform leases though it is paused.
    PauseIgnored,
    /// The platform takes events off its log whatever the window says.
    WindowIgnored,
    /// The platform leases more than a session's credit.
    CreditIgnored,
}

impl Bug {
    /// Every bug that can be planted.
    pub fn all() -> impl Iterator<Item = Self> {
        let platform =
            [Self::NoInbox, Self::SupersededConfirms, Self::PauseIgnored, Self::WindowIgnored, Self::CreditIgnored];
        Mutation::ALL.iter().copied().map(Self::Consumer).chain(platform)
    }
}
