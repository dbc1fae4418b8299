//! The only `now` of the crate.

use std::time::Instant;

/// The present moment, by the runtime's clock where there is one: a paused clock in a test stands still here too.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
