//! The options of a consumer that the machine needs, checked.
//!
//! Source: consumer.md section 2.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::limits;
use crate::scalar::SubscriptionId;

/// A consumer's options. Ranges are checked by [`ConsumerConfig::check`], which [`super::Consumer`] asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerConfig {
    subscription_id: SubscriptionId,
    capacity: u8,
    shutdown_timeout: Duration,
    reconnect_min_delay: Duration,
    reconnect_max_delay: Duration,
    max_events: Option<NonZeroU64>,
}

/// The same options before their ranges are checked. [`Options::new`] has the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The subscription to consume.
    pub subscription_id: SubscriptionId,
    /// Events held locally and handlers: 1 to 32, 4 by default.
    pub capacity: u8,
    /// How long a stop may take: 1 ms to 5 min, 30 s by default.
    pub shutdown_timeout: Duration,
    /// The wait before the first attempt to reconnect: at least 10 ms, 200 ms by default.
    pub reconnect_min_delay: Duration,
    /// The longest wait: at least the shortest and at most 30 s, 5 s by default.
    pub reconnect_max_delay: Duration,
    /// After how many receipts to stop by itself. None by default.
    pub max_events: Option<NonZeroU64>,
}

impl Options {
    /// The defaults for a subscription.
    #[must_use]
    pub const fn new(subscription_id: SubscriptionId) -> Self {
        Self {
            subscription_id,
            capacity: limits::CAPACITY_DEFAULT,
            shutdown_timeout: limits::SHUTDOWN_TIMEOUT_DEFAULT,
            reconnect_min_delay: limits::RECONNECT_MIN_DELAY_DEFAULT,
            reconnect_max_delay: limits::RECONNECT_MAX_DELAY_DEFAULT,
            max_events: None,
        }
    }
}

impl ConsumerConfig {
    /// Checks every range.
    ///
    /// # Errors
    /// [`ConfigError`] with the first field outside its range, its value and the range.
    pub fn check(options: &Options) -> Result<Self, ConfigError> {
        let within = |holds: bool, field, value: &dyn fmt::Debug, range: &dyn fmt::Display| {
            if holds {
                Ok(())
            } else {
                Err(ConfigError { field, value: format!("{value:?}"), range: range.to_string() })
            }
        };
        let (min, max) = (options.reconnect_min_delay, options.reconnect_max_delay);
        within(limits::CAPACITY.contains(&options.capacity), "capacity", &options.capacity, &"1 to 32")?;
        within(
            limits::SHUTDOWN_TIMEOUT.contains(&options.shutdown_timeout),
            "shutdown_timeout",
            &options.shutdown_timeout,
            &"1 ms to 5 min",
        )?;
        within(
            (limits::RECONNECT_MIN_DELAY_MIN..=limits::RECONNECT_MAX_DELAY_MAX).contains(&min),
            "reconnect_min_delay",
            &min,
            &"10 ms to 30 s",
        )?;
        let max_range = format!("reconnect_min_delay ({min:?}) to 30 s");
        within((min..=limits::RECONNECT_MAX_DELAY_MAX).contains(&max), "reconnect_max_delay", &max, &max_range)?;
        Ok(Self {
            subscription_id: options.subscription_id,
            capacity: options.capacity,
            shutdown_timeout: options.shutdown_timeout,
            reconnect_min_delay: min,
            reconnect_max_delay: max,
            max_events: options.max_events,
        })
    }

    /// The subscription to consume.
    #[must_use]
    pub const fn subscription_id(&self) -> SubscriptionId {
        self.subscription_id
    }

    /// Events held locally, and handlers: 1 to 32.
    #[must_use]
    pub const fn capacity(&self) -> u8 {
        self.capacity
    }

    /// How long a stop may take.
    #[must_use]
    pub const fn shutdown_timeout(&self) -> Duration {
        self.shutdown_timeout
    }

    /// The wait before the first attempt to reconnect.
    #[must_use]
    pub const fn reconnect_min_delay(&self) -> Duration {
        self.reconnect_min_delay
    }

    /// The longest wait before an attempt to reconnect, a server's `retry_after` apart.
    #[must_use]
    pub const fn reconnect_max_delay(&self) -> Duration {
        self.reconnect_max_delay
    }

    /// After how many receipts the consumer stops by itself.
    #[must_use]
    pub const fn max_events(&self) -> Option<NonZeroU64> {
        self.max_events
    }
}

/// An option outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, must be {range}")]
pub struct ConfigError {
    /// The option's name.
    pub field: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be.
    pub range: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new(SubscriptionId::from_u128(1))
    }

    fn error_of(change: impl FnOnce(&mut Options)) -> Option<String> {
        let mut options = options();
        change(&mut options);
        ConsumerConfig::check(&options).err().map(|error| error.to_string())
    }

    #[test]
    fn the_defaults_and_every_bound_itself_are_allowed() {
        assert_eq!(error_of(|_| ()), None);
        assert_eq!(error_of(|o| o.capacity = 1), None);
        assert_eq!(error_of(|o| o.capacity = 32), None);
        assert_eq!(error_of(|o| o.shutdown_timeout = Duration::from_millis(1)), None);
        assert_eq!(error_of(|o| o.shutdown_timeout = Duration::from_secs(300)), None);
        assert_eq!(error_of(|o| o.reconnect_min_delay = Duration::from_millis(10)), None);
        assert_eq!(error_of(|o| o.reconnect_max_delay = o.reconnect_min_delay), None);
        assert_eq!(error_of(|o| o.reconnect_max_delay = Duration::from_secs(30)), None);
    }

    #[test]
    fn an_option_outside_its_range_is_named_with_value_and_range() {
        assert_eq!(error_of(|o| o.capacity = 0).as_deref(), Some("capacity is 0, must be 1 to 32"));
        assert_eq!(error_of(|o| o.capacity = 33).as_deref(), Some("capacity is 33, must be 1 to 32"));
        assert_eq!(
            error_of(|o| o.shutdown_timeout = Duration::from_micros(999)).as_deref(),
            Some("shutdown_timeout is 999µs, must be 1 ms to 5 min")
        );
        assert_eq!(
            error_of(|o| o.shutdown_timeout = Duration::from_millis(300_001)).as_deref(),
            Some("shutdown_timeout is 300.001s, must be 1 ms to 5 min")
        );
        assert_eq!(
            error_of(|o| o.reconnect_min_delay = Duration::from_millis(9)).as_deref(),
            Some("reconnect_min_delay is 9ms, must be 10 ms to 30 s")
        );
        assert_eq!(
            error_of(|o| o.reconnect_max_delay = Duration::from_millis(199)).as_deref(),
            Some("reconnect_max_delay is 199ms, must be reconnect_min_delay (200ms) to 30 s")
        );
        assert_eq!(
            error_of(|o| o.reconnect_max_delay = Duration::from_millis(30_001)).as_deref(),
            Some("reconnect_max_delay is 30.001s, must be reconnect_min_delay (200ms) to 30 s")
        );
    }
}
