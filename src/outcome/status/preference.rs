//! `Prefer: wait=N`: how long an answer may be held.

use std::time::Duration;

use actix_web::http::header::HeaderMap;

/// The longest that an answer is held.
const HOLD_MAX: Duration = Duration::from_secs(30);

/// How long the client would wait for a change; nothing where it did not say so in whole seconds.
pub(super) fn hold(headers: &HeaderMap) -> Duration {
    let preferences =
        headers.get_all("prefer").filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    preferences
        .filter_map(|preference| preference.split(';').next()?.trim().strip_prefix("wait="))
        .find_map(|seconds| seconds.trim_matches('"').parse().ok())
        .map_or(Duration::ZERO, |seconds| Duration::from_secs(seconds).min(HOLD_MAX))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn held(values: &[&'static str]) -> u64 {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HeaderName::from_static("prefer"), HeaderValue::from_static(value));
        }
        hold(&headers).as_secs()
    }

    #[test]
    fn a_wait_is_read_from_among_other_preferences_and_bounded() {
        assert_eq!(held(&[]), 0);
        assert_eq!(held(&["wait=10"]), 10);
        assert_eq!(held(&["respond-async, wait=3;x=y"]), 3);
        assert_eq!(held(&["handling=lenient", "wait=\"7\""]), 7);
        assert_eq!(held(&["wait=31"]), 30);
        for ignored in ["wait", "wait=", "wait=-1", "wait=1.5", "wait=x", "waits=3"] {
            assert_eq!(held(&[ignored]), 0, "{ignored}");
        }
    }
}
