//! The host's wall clock, for records that say when an operator did something.

use std::time::{SystemTime, UNIX_EPOCH};

use perilune_proto::scalar::Timestamp;

/// Now. A clock outside the years 0 to 9999 reads as 1970.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).ok().and_then(Timestamp::from_unix_micros);
    micros.or_else(|| Timestamp::from_unix_micros(0)).expect("1970 is within the years 0 to 9999")
}
