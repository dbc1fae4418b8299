//! What a relay may be told.

use std::time::Duration;

use perilune_proto::backoff::Backoff;

use crate::outbox::store::CLAIM_MAX;

/// Options of a relay. Every range is checked by the method that sets the option.
#[derive(Debug, Clone, Copy)]
pub struct RelayOptions {
    pub(super) in_flight: u32,
    pub(super) poll_every: Duration,
    pub(super) send_timeout: Duration,
    pub(super) backoff: Backoff,
    pub(super) attempts_max: u32,
}

/// An option is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {range}")]
pub struct RelayConfigError {
    /// The option.
    pub field: &'static str,
    /// What is allowed.
    pub range: &'static str,
}

impl Default for RelayOptions {
    /// 16 messages at once, a look every second, 10 s for a message, backoff from 1 s to 5 min, dead after 20 attempts.
    fn default() -> Self {
        Self {
            in_flight: 16,
            poll_every: Duration::from_secs(1),
            send_timeout: Duration::from_secs(10),
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(300)),
            attempts_max: 20,
        }
    }
}

impl RelayOptions {
    /// How many messages are sent at once; 16 by default.
    ///
    /// # Errors
    /// Outside 1 to 32.
    pub fn in_flight(mut self, messages: u32) -> Result<Self, RelayConfigError> {
        within("in_flight", (1..=CLAIM_MAX as u32).contains(&messages), "1 to 32")?;
        self.in_flight = messages;
        Ok(self)
    }

    /// How often to look for messages that nobody announced by [`RelayHandle::wake`](super::RelayHandle::wake); 1 s by
    /// default.
    ///
    /// # Errors
    /// Outside 10 ms to 1 min.
    pub fn poll_every(mut self, interval: Duration) -> Result<Self, RelayConfigError> {
        let allowed = Duration::from_millis(10)..=Duration::from_secs(60);
        within("poll_every", allowed.contains(&interval), "10 ms to 1 min")?;
        self.poll_every = interval;
        Ok(self)
    }

    /// How long sending one message may take; 10 s by default. A relay's claim outlives it three times over, so that no
    /// other relay sends the message meanwhile.
    ///
    /// # Errors
    /// Outside 10 ms to 5 min.
    pub fn send_timeout(mut self, limit: Duration) -> Result<Self, RelayConfigError> {
        let allowed = Duration::from_millis(10)..=Duration::from_secs(300);
        within("send_timeout", allowed.contains(&limit), "10 ms to 5 min")?;
        self.send_timeout = limit;
        Ok(self)
    }

    /// The wait before another attempt: from `min`, doubling to `max`, drawn from its upper half; 1 s to 5 min by
    /// default.
    ///
    /// # Errors
    /// Outside 10 ms to 1 d, or `max` below `min`.
    pub fn backoff(mut self, min: Duration, max: Duration) -> Result<Self, RelayConfigError> {
        let allowed = Duration::from_millis(10)..=Duration::from_secs(86_400);
        let fits = allowed.contains(&min) && allowed.contains(&max) && min <= max;
        within("backoff", fits, "10 ms to 1 d, and max at least min")?;
        self.backoff = Backoff::new(min, max);
        Ok(self)
    }

    /// Attempts after which a message is a dead letter; 20 by default. Those that found the receiver
    /// [out of reach](crate::outbox::SendFailure::out_of_reach) do not count.
    ///
    /// # Errors
    /// Outside 1 to 1,000.
    pub fn attempts_max(mut self, attempts: u32) -> Result<Self, RelayConfigError> {
        within("attempts_max", (1..=1_000).contains(&attempts), "1 to 1,000")?;
        self.attempts_max = attempts;
        Ok(self)
    }

    /// How long a claim lasts: three times what sending may take, and time to note how it ended.
    pub(super) fn claim_ttl(&self) -> Duration {
        self.send_timeout * 3 + Duration::from_secs(10)
    }

    /// How long claiming may take, so that the claim outlives the attempt and the note of its end all the same.
    pub(super) fn claim_limit(&self) -> Duration {
        self.claim_ttl() - self.send_timeout * 2
    }
}

const fn within(field: &'static str, fits: bool, range: &'static str) -> Result<(), RelayConfigError> {
    if fits { Ok(()) } else { Err(RelayConfigError { field, range }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_its_range_and_names_it() {
        let ms = Duration::from_millis;
        let options = RelayOptions::default();
        assert!(options.in_flight(0).is_err() && options.in_flight(33).is_err() && options.in_flight(32).is_ok());
        assert!(options.poll_every(ms(9)).is_err() && options.poll_every(ms(10)).is_ok());
        assert!(options.send_timeout(ms(9)).is_err() && options.send_timeout(ms(300_001)).is_err());
        assert!(options.backoff(ms(20), ms(10)).is_err() && options.backoff(ms(10), ms(10)).is_ok());
        let error = options.attempts_max(0).expect_err("none");
        assert_eq!(error.to_string(), "attempts_max must be 1 to 1,000");
    }

    #[test]
    fn a_claim_outlives_the_attempt() {
        let options = RelayOptions::default();
        assert!(options.claim_ttl() >= options.send_timeout * 3);
        assert!(options.claim_ttl() >= options.claim_limit() + options.send_timeout * 2);
    }
}
